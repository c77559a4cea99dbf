"""A document of a corpus, before it is tokenized."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """A text, and the character spans (first, one past the last) of the words in it that are answers.

    The spans are in order and do not overlap. Only the recall corpus marks answers.
    """

    text: str
    answers: tuple[tuple[int, int], ...] = ()
