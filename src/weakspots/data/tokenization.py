"""Tokenizers of a corpus, and documents to token arrays.

Texts are encoded by the Rust threads of `tokenizers`; their number is read from the environment variable
RAYON_NUM_THREADS when a process first encodes or trains, and cannot be changed after that.
"""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Encoding, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from weakspots.config import BytePairTokenizer, Corpus, PretrainedTokenizer, RecallSource
from weakspots.data.corpora import documents
from weakspots.data.document import Document
from weakspots.errors import UserError, in_brackets
from weakspots.task.records import animals, names

END_OF_TEXT = "<|endoftext|>"


def build_tokenizer(corpus: Corpus) -> PreTrainedTokenizerFast:
    """The tokenizer that `corpus.tokenizer` asks for; its `eos_token_id` is the end-of-text token.

    words       one token per word of the recall corpus
    bytes       byte-level BPE, trained on the first `training_documents` training documents. For local and hub text
                the validation documents are among them: they may shape the vocabulary, never a model's weights.
    pretrained  a tokenizer folder or hub id; end of text is its "<|endoftext|>" where it has one (the end-of-text token
                of a chat tokenizer is another one, which ends a turn), and its own otherwise

    Raises UserError if there are too few words, or if the pretrained tokenizer cannot be loaded or ends no text.
    """
    if isinstance(corpus.tokenizer, PretrainedTokenizer):
        return _load(corpus.tokenizer.path)
    settings = corpus.tokenizer
    tokenizer = _train(corpus, settings) if isinstance(settings, BytePairTokenizer) else _words(corpus)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_OF_TEXT)


def _words(corpus: Corpus) -> Tokenizer:
    source = corpus.source
    assert isinstance(source, RecallSource)  # the configuration refuses words for other sources
    for key, wanted, known in (("keys", source.keys, animals()), ("values", source.values, names())):
        if wanted > len(known):
            raise UserError(f"source.{key} {wanted} is more than the {len(known)} words there are: lower it")
    words = [END_OF_TEXT, *animals()[: source.keys], *names()[: source.values]]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def _train(corpus: Corpus, settings: BytePairTokenizer) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=settings.vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    first = islice(documents(corpus, 0, "train"), settings.training_documents)
    tokenizer.train_from_iterator((document.text for document in first), trainer)
    return tokenizer


def _load(path: str) -> PreTrainedTokenizerFast:
    from transformers import AutoTokenizer  # takes seconds, and the other tokenizers can do without

    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=Path(path).is_dir())
    except (OSError, ValueError) as error:
        reason = in_brackets(error)
        raise UserError(
            f"tokenizer.path {path!r} is neither a folder with a tokenizer nor a hub id that can be loaded ({reason}): "
            f"correct the path"
        ) from None
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise UserError(f"tokenizer.path {path!r} has no tokenizer.json: choose a tokenizer that has one")
    if tokenizer.backend_tokenizer.token_to_id(END_OF_TEXT) is not None:
        tokenizer.eos_token = END_OF_TEXT
    if tokenizer.eos_token_id is None:
        raise UserError(f"tokenizer.path {path!r} has no end-of-text token: set eos_token in its tokenizer_config.json")
    return tokenizer


class Tokens(NamedTuple):
    """One document as tokens: ids and, per token, whether it belongs to an answer. The first token is end of text."""

    ids: np.ndarray
    answers: np.ndarray


class Encoder:
    """Documents to token ids, in the smallest unsigned type that holds the vocabulary."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast):
        self.vocabulary = len(tokenizer)
        self.end_of_text: int = tokenizer.eos_token_id
        self.dtype = np.dtype(np.uint16 if self.vocabulary <= 1 << 16 else np.uint32)
        self._tokenizer = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        # A text that quotes a special token must not end there.
        self._tokenizer.encode_special_tokens = True

    def encode(self, batch: list[Document]) -> list[Encoding]:
        """Encode in the Rust threads; other Python threads run meanwhile. Offsets are found only for answers."""
        marked = any(document.answers for document in batch)
        encode = self._tokenizer.encode_batch if marked else self._tokenizer.encode_batch_fast
        return encode([document.text for document in batch], add_special_tokens=False)

    def tokens(self, document: Document, encoding: Encoding) -> Tokens:
        """The tokens of `document`. A token is part of an answer when its characters overlap an answer's span."""
        length = len(encoding)
        ids = np.empty(length + 1, self.dtype)
        ids[0] = self.end_of_text
        ids[1:] = np.fromiter(encoding.ids, self.dtype, length)
        answers = np.zeros(length + 1, bool)
        if document.answers:
            first, last = np.array(document.answers).T
            offsets = np.fromiter(chain.from_iterable(encoding.offsets), np.int64, 2 * length).reshape(-1, 2)
            # The first answer that ends after the token begins: a token that overlaps any answer overlaps this one.
            nearest = np.searchsorted(last, offsets[:, 0], side="right")
            known = np.append(first, np.iinfo(np.int64).max)
            answers[1:] = known[nearest] < offsets[:, 1]
        return Tokens(ids, answers)
