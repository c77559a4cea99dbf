"""What a tokenizer offers to an audit: words that are single tokens, a separator, prose, and how its texts begin."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from weakspots.errors import UserError, first_line
from weakspots.task.records import animals, names

SPACES = ("Ġ", "▁", " ")
"""How vocabularies write the space before a word."""

END_OF_TEXT = "<|endoftext|>"
SEPARATOR = ";"
FEWEST_KEYS, FEWEST_VALUES = 6, 4
PROSE_CHARACTERS = 300_000
_WORDS_TRIED = 8


@dataclass(frozen=True)
class Vocabulary:
    """Token ids for prompts.

    `keys` and `values` are single tokens that bring their leading space; `spelling` has their texts. `start` is what
    every prompt begins with. With `separator` a record is key, value, separator, and filler is `prose`, a stream of
    tokens; without it (None, and no prose) a record is key, value, and filler is other keys and values.
    """

    keys: np.ndarray
    values: np.ndarray
    spelling: dict[int, str]
    start: tuple[int, ...]
    separator: int | None
    prose: np.ndarray

    @property
    def record(self) -> int:
        """Tokens of a record."""
        return 2 if self.separator is None else 3

    @property
    def most_records(self) -> int:
        """Records that leave some words for filler where filler is words."""
        least = min(len(self.keys), len(self.values))
        return least if self.separator is not None else max(2, 3 * least // 4)


def load_tokenizer(place: str) -> PreTrainedTokenizerBase:
    """The tokenizer in a folder, in a .gguf file or on the hub. Raises UserError where it does not load."""
    path = Path(place)
    options = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    try:
        folder = str(path.parent) if options else place
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **options)
    except Exception as error:  # transformers raises many kinds
        reason = first_line(error)
        raise UserError(f"tokenizer {place} does not load: {reason}") from error


def vocabulary(tokenizer: PreTrainedTokenizerBase) -> Vocabulary:
    """The words of `tokenizer`. Keys are animals, values first names: those that are one token with a leading space.

    Records are separated and filled with prose where the tokenizer knows `;` and prose; a tokenizer of whole words,
    such as the recall corpus has, gets its own words only, as in that corpus.
    Raises UserError where it splits too many words, or joins neighbouring ones.
    """
    known = tokenizer.get_vocab()
    whole_words = not any(f"{space}{word}" in known for space in SPACES for word in (*animals(), *names()))
    forms = ("",) if whole_words else SPACES
    keys, values = (_single(known, forms, words) for words in (animals(), names()))
    values = {token: word for token, word in values.items() if token not in keys}
    if len(keys) < FEWEST_KEYS or len(values) < FEWEST_VALUES:
        raise UserError(
            f"the tokenizer has {len(keys)} animals and {len(values)} first names as single tokens, and at least "
            f"{FEWEST_KEYS} and {FEWEST_VALUES} are needed: it splits words too finely for this lookup"
        )
    spelling = {token: f" {word}" for token, word in (keys | values).items()}
    separator = None if whole_words else known.get(SEPARATOR)
    prose = np.zeros(0, np.int64) if separator is None else _prose(tokenizer)
    if not len(prose):
        separator = None
    key_ids, value_ids = (np.fromiter(some, np.int64) for some in (keys, values))
    found = Vocabulary(key_ids, value_ids, spelling, _start(tokenizer, spelling), separator, prose)
    _read_back(tokenizer, found)
    return found


def _single(known: dict[str, int], forms: tuple[str, ...], words: tuple[str, ...]) -> dict[int, str]:
    """Words by the one token that they are with a space before them."""
    found: dict[int, str] = {}
    for word in words:
        token = next((known[f"{form}{word}"] for form in forms if f"{form}{word}" in known), None)
        if token is not None:
            found.setdefault(token, word)
    return found


def _start(tokenizer: PreTrainedTokenizerBase, spelling: dict[int, str]) -> tuple[int, ...]:
    """What the tokenizer puts before a text (BOS), else the token that ends texts where there is one, else nothing."""
    text = next(iter(spelling.values()))
    bare, whole = tokenizer(text, add_special_tokens=False).input_ids, tokenizer(text).input_ids
    at = next((place for place in range(len(whole)) if whole[place : place + len(bare)] == bare), 0)
    if at:
        return tuple(whole[:at])
    token = tokenizer.get_vocab().get(END_OF_TEXT)
    return () if token is None else (token,)


def _prose(tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """Tokens of the shipped prose, newest first; none where the tokenizer does not know some of it."""
    with resources.as_file(resources.files("weakspots") / "resources" / "state_of_the_union.parquet") as path:
        table = pq.read_table(path, columns=["year", "text"]).sort_by([("year", "descending")])
    text = " ".join(" ".join(table["text"].to_pylist()).split())[:PROSE_CHARACTERS]
    ids = np.array(tokenizer(text, add_special_tokens=False, verbose=False).input_ids, np.int64)
    unknown = tokenizer.unk_token_id
    # some tokenizers have their end of text as the unknown token and never use it
    return ids[:0] if unknown is not None and (ids == unknown).mean() > 0.001 else ids[ids != unknown]


def _read_back(tokenizer: PreTrainedTokenizerBase, found: Vocabulary) -> None:
    """Raise UserError unless the tokenizer reads records as the very tokens that are asked."""
    keys, values = found.keys[:_WORDS_TRIED].tolist(), found.values[:_WORDS_TRIED].tolist()
    ends = ("", ()) if found.separator is None else (SEPARATOR, (found.separator,))
    text, planned = "", []
    for key, value in zip(keys, values, strict=False):
        text += found.spelling[key] + found.spelling[value] + ends[0]
        planned += [key, value, *ends[1]]
    # sentencepiece tokenizers put the first space themselves
    read = [tokenizer(form, add_special_tokens=False).input_ids for form in (text, text.lstrip())]
    if planned not in read:
        shown = " ".join(tokenizer.convert_ids_to_tokens(read[0])[:6])
        raise UserError(
            f"the tokenizer reads the records {text[:30]!r} as {shown} ...: it joins or splits neighbouring words, and "
            "the audit needs words that are one token each"
        )
