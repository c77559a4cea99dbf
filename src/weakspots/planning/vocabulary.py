"""How many tokens a corpus's tokenizer has, from the configuration, before there is a tokenizer."""

from __future__ import annotations

from pathlib import Path

from weakspots.config import BytePairTokenizer, Corpus, RecallSource, WordTokenizer
from weakspots.errors import UserError

QWEN3 = 151_669
"""Tokens of every Qwen3 tokenizer, added ones included. transformers' Qwen3 pads its embedding to 151,936; the models
here have one row per token."""


def vocabulary(corpus: Corpus, name: str) -> int:
    """V of the models that train on `corpus`, called `name`.

    words       the keys and values in use, and end of text
    bytes       as configured; a corpus too small for so many merges ends with fewer
    pretrained  counted in the folder, if the path is one; `QWEN3` for a hub id of that family, which is not fetched

    Raises UserError for any other pretrained tokenizer, and for a folder without one.
    """
    tokenizer = corpus.tokenizer
    if isinstance(tokenizer, WordTokenizer):
        assert isinstance(corpus.source, RecallSource)  # the configuration refuses words for other sources
        return 1 + corpus.source.keys + corpus.source.values
    if isinstance(tokenizer, BytePairTokenizer):
        return tokenizer.vocabulary
    if Path(tokenizer.path).is_dir():
        from weakspots.data.tokenization import build_tokenizer  # imports what a plan does not need otherwise

        try:
            return len(build_tokenizer(corpus))
        except UserError as error:
            raise UserError(f"corpora.{name}: {error}") from error
    if tokenizer.path.startswith("Qwen/Qwen3"):
        return QWEN3
    raise UserError(
        f"corpora.{name}.tokenizer.path {tokenizer.path!r} is no folder here, so its vocabulary is not known: give the "
        "number of its tokens with --vocabulary"
    )
