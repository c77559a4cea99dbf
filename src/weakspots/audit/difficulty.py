"""How hard to ask: at the floor or the ceiling of accuracy no phase can show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weakspots.audit.design import Design, design
from weakspots.audit.prompts import Setting, fixed_tokens, room
from weakspots.audit.words import Vocabulary
from weakspots.errors import UserError

EASIEST, HARDEST = 0.3, 0.9
"""Mean accuracies between which a setting is neither too hard nor too easy."""

PROBE_MAPPINGS, PROBE_PROMPTS = 32, 2
"""Mappings that a setting is tried with, and prompts of each."""

_SHORT = 77  # tokens of filler in which periods up to 16 fit
_RECORDS = (2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
_USUAL = 8  # demonstrations


@dataclass(frozen=True)
class Candidate:
    """A setting and the design that fits into it."""

    setting: Setting
    design: Design


@dataclass(frozen=True)
class Search:
    """The setting chosen, whether its accuracy is between the bounds, and every setting tried with its accuracy."""

    chosen: Candidate
    suitable: bool
    tried: tuple[tuple[Setting, float], ...]


def candidates(
    vocabulary: Vocabulary,
    strides: tuple[int, ...] | str,
    *,
    length: int | None = None,
    records: int | None = None,
    demonstrations: int | None = None,
    context: int | None = None,
) -> tuple[list[Candidate], int]:
    """Settings from easy to hard, and the number of the one to try first. What is given is kept.

    Easy is a short context, few records, many demonstrations. Shorter contexts hold fewer of the "auto" strides. No
    prompt is longer than the `context` that the model has, in tokens, if that is known.
    Raises UserError where nothing fits.
    """
    usual = 12 if vocabulary.separator is None else 16
    most = vocabulary.most_records
    sizes = [records] if records else [size for size in _RECORDS if size <= most]
    start = records or min(usual, most)
    fillers = [design(strides).span]
    if isinstance(strides, str):
        fillers = [_SHORT, *fillers]
    found: list[Candidate] = []

    def add(size: int, shown: int, filler: int) -> None:
        setting = Setting(size, shown, length or fixed_tokens(vocabulary, size, shown) + filler)
        if context is not None and setting.length > context:
            problems.append(
                UserError(f"{setting} and the model's context holds {context}: ask for less of one of them")
            )
            return
        try:
            found.append(Candidate(setting, design(strides, room(vocabulary, setting))))
        except UserError as error:
            problems.append(error)

    def demonstrated(size: int) -> int:
        return min(_USUAL, size - 1) if demonstrations is None else min(demonstrations, size - 1)

    problems: list[UserError] = []
    if records and demonstrations is None:
        add(records, records - 1, fillers[0])
    for size in [size for size in sizes if size < start]:
        add(size, demonstrated(size), fillers[0])
    if len(fillers) > 1 and length is None:
        for size in [size for size in sizes if size >= start]:
            add(size, demonstrated(size), fillers[0])
    add(start, demonstrated(start), fillers[-1])
    first = max(len(found) - 1, 0)
    for size in [size for size in sizes if size > start]:
        add(size, demonstrated(size), fillers[-1])
    if length is None and not records:
        add(max(sizes), demonstrated(max(sizes)), 4 * fillers[-1])
    if demonstrations is None:
        add(max(sizes), 0, (1 if records else 4) * fillers[-1])
    if not found:
        raise problems[0]
    return found, min(first, len(found) - 1)


def search(
    options: list[Candidate], first: int, accuracy: Callable[[Candidate], float], tries: int | None = None
) -> Search:
    """Bisects `options`, which run from easy to hard, from number `first` on, until one is neither.

    `accuracy` asks, at most `tries` times. Where none is, the one that was nearest to the middle is chosen. One option
    alone is not tried.
    """
    if len(options) == 1:
        return Search(options[0], True, ())
    tried: dict[int, float] = {}
    low, high, number = 0, len(options) - 1, first
    while low <= high and (tries is None or len(tried) < tries):
        found = tried[number] = accuracy(options[number])
        if EASIEST <= found <= HARDEST:
            break
        low, high = (low, number - 1) if found < EASIEST else (number + 1, high)
        number = (low + high) // 2
    middle = (EASIEST + HARDEST) / 2
    best = min(tried, key=lambda some: abs(tried[some] - middle))
    seen = tuple((options[some].setting, found) for some, found in tried.items())
    return Search(options[best], EASIEST <= tried[best] <= HARDEST, seen)
