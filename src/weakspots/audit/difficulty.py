"""How hard to ask: at the floor or the ceiling of accuracy no phase can show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from weakspots.audit.design import Design, design
from weakspots.audit.prompts import Setting, fixed_tokens, room
from weakspots.audit.words import Vocabulary
from weakspots.errors import UserError

EASIEST, HARDEST = 0.3, 0.9
"""Mean accuracies between which a setting is neither too hard nor too easy."""

PROBE_MAPPINGS, PROBE_PROMPTS = 32, 2
"""Mappings that a setting is tried with, and prompts of each."""

_SHORT = 77  # tokens of filler in which periods up to 16 fit
_LONG = 4  # times the filler of the design: what is harder than the most records
_RECORDS = (2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
_USUAL_RECORDS, _USUAL_BARE_RECORDS = 16, 12  # bare: nothing stands between a value and the next key
_USUAL_DEMONSTRATIONS = 8


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
    """Settings from easy to hard, and the number of the one to try first: the usual one, or the next easier that fits.
    What is given is kept.

    Easy is a short context, few records, many demonstrations. Shorter contexts hold fewer of the "auto" strides. No
    prompt is longer than the `context` that the model has, in tokens, if that is known.
    Raises UserError where nothing fits.
    """
    steps, usual = _steps(vocabulary, strides, length, records, demonstrations)
    kept: list[Candidate] = []
    problems: list[UserError] = []
    first = 0
    for number, step in enumerate(steps):
        try:
            kept.append(_candidate(vocabulary, strides, step, length, context))
        except UserError as error:
            problems.append(error)
            continue
        if number <= usual:
            first = len(kept) - 1
    if not kept:
        raise problems[0]
    return kept, first


class _Step(NamedTuple):
    """A wish for a setting, in tokens of filler; what fits of it is a `Candidate`."""

    records: int
    demonstrations: int
    filler: int


def _steps(
    vocabulary: Vocabulary,
    strides: tuple[int, ...] | str,
    length: int | None,
    records: int | None,
    demonstrations: int | None,
) -> tuple[list[_Step], int]:
    """All wishes from easy to hard, and the number of the usual one."""
    most = vocabulary.most_records
    sizes = [records] if records else [size for size in _RECORDS if size <= most]
    start = records or min(_USUAL_BARE_RECORDS if vocabulary.separator is None else _USUAL_RECORDS, most)
    whole = design(strides).span
    short = _SHORT if isinstance(strides, str) else whole

    def step(size: int, filler: int) -> _Step:
        wanted = _USUAL_DEMONSTRATIONS if demonstrations is None else demonstrations
        return _Step(size, min(wanted, size - 1), filler)

    easy = [_Step(records, records - 1, short)] if records and demonstrations is None else []
    easy += [step(size, short) for size in sizes if size < start]
    if short != whole and length is None:
        easy += [step(size, short) for size in sizes if size >= start]
    hard = [step(size, whole) for size in sizes if size > start]
    longest = whole if records else _LONG * whole
    if length is None and not records:
        hard.append(step(max(sizes), longest))
    if demonstrations is None:
        hard.append(_Step(max(sizes), 0, longest))
    return [*easy, step(start, whole), *hard], len(easy)


def _candidate(
    vocabulary: Vocabulary, strides: tuple[int, ...] | str, step: _Step, length: int | None, context: int | None
) -> Candidate:
    """What a wish comes to, in prompts of `length` tokens if that is given. Raises UserError where it does not fit."""
    size, shown, filler = step
    setting = Setting(size, shown, length or fixed_tokens(vocabulary, size, shown) + filler)
    if context is not None and setting.length > context:
        raise UserError(f"{setting} and the model's context holds {context}: ask for less of one of them")
    return Candidate(setting, design(strides, room(vocabulary, setting)))


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
