"""What is asked of a backend, and what it costs, before anything is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

from weakspots.audit import difficulty, power
from weakspots.audit.difficulty import Candidate
from weakspots.audit.evidence import MOST_SHIFTS
from weakspots.audit.sequential import FEWEST_MAPPINGS
from weakspots.audit.words import Vocabulary
from weakspots.errors import UserError

LEAST_GAP = 0.5
"""Percentage points. To see less would need millions of prompts."""

HIGHEST_CONFIDENCE = 0.999
"""Of a verdict. More would need more draws than tests of permutations make."""

DEFAULT_GAP = 10.0
"""Percentage points that an audit is planned to see, unless told otherwise."""

LEAST_LEVEL = 10 / MOST_SHIFTS
"""Error rate of a test whose last look, with its share of it for either kind of phase, can still find something."""

_EACH = difficulty.PROBE_MAPPINGS * difficulty.PROBE_PROMPTS


@dataclass(frozen=True)
class Question:
    """What is asked of a backend; see `audit`. A sequence of strides or lengths becomes a tuple, and so does one alone.

    Raises UserError, which names the argument, where a value cannot be meant.
    """

    strides: tuple[int, ...] | str = "auto"
    lengths: tuple[int | None, ...] = (None,)
    records: int | None = None
    demonstrations: int | None = None
    max_gap: float | None = None
    gap: float | None = None
    budget: int | None = None
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("strides", "lengths"):
            value = getattr(self, name)
            if not isinstance(value, str):
                object.__setattr__(self, name, tuple(value) if hasattr(value, "__iter__") else (value,))
        if self.strides != "auto" and not _all(self.strides, lambda stride: _whole(stride, 2)):
            raise UserError(f'strides is {self.strides!r}: give numbers of tokens from 2 on, or "auto" alone')
        if not _all(self.lengths, lambda length: length is None or _whole(length, 1)):
            raise UserError(f"lengths is {self.lengths!r}: give numbers of tokens, or None for the shortest that fits")
        for name, least in (("records", 2), ("demonstrations", 0), ("budget", 1), ("seed", 0)):
            value = getattr(self, name)
            if not _whole(value, least) and (value is not None or name == "seed"):
                raise UserError(f"{name} is {value!r}: give a whole number from {least} on")
        records, shown = self.records, self.demonstrations
        if records is not None and shown is not None and shown >= records:
            raise UserError(
                f"demonstrations is {self.demonstrations} and records {self.records}: give fewer demonstrations than "
                "records, since the record asked for is not shown"
            )
        for name in ("max_gap", "gap"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Real) and LEAST_GAP <= float(value) <= 100):
                raise UserError(
                    f"{name} is {value!r}: give percentage points from {LEAST_GAP:g} to 100; less would need millions "
                    "of prompts"
                )
        if not (isinstance(self.confidence, Real) and 0 < self.confidence <= HIGHEST_CONFIDENCE):
            raise UserError(
                f"confidence is {self.confidence!r}: give a probability above 0 and at most {HIGHEST_CONFIDENCE:g}, "
                "such as 0.95"
            )

    @property
    def wanted_gap(self) -> float:
        """Percentage points that the audit should be able to see: `--gap`, else `--max-gap`, else the default."""
        return self.gap or self.max_gap or DEFAULT_GAP  # none of them is 0

    @property
    def limit(self) -> float:
        """Points above or below which the verdict is settled."""
        return self.max_gap or self.wanted_gap

    def level(self, backends: int) -> float:
        """The error rate of one test at one length: with two backends there are three tests.

        Raises UserError where it is so low that no p-value of `MOST_SHIFTS` draws could be below it.
        """
        level = (1 - self.confidence) / len(self.lengths) / (3 if backends > 1 else 1)
        if level < LEAST_LEVEL:
            raise UserError(
                f"confidence {self.confidence:g} leaves each of the tests an error rate of {level:.1g}, and less than "
                f"{LEAST_LEVEL:g} cannot be shown: lower the confidence, or ask for fewer lengths at once"
            )
        return level


def _all(values: Sequence | str, right: Callable[[object], bool]) -> bool:
    return not isinstance(values, str) and len(values) > 0 and all(map(right, values))


def _whole(value: object, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


@dataclass(frozen=True)
class Part:
    """One length: settings from easy to hard, which is tried first, how many at most, and how much is asked."""

    options: list[Candidate]
    first: int
    tries: int | None
    effort: power.Effort


def context_of(backends: Sequence[object]) -> int | None:
    """Tokens that all of the backends can read, as far as they say so (`Local.context`)."""
    stated = (getattr(backend, "context", None) for backend in backends)
    return min((context for context in stated if context), default=None)


def planned(
    words: Vocabulary, question: Question, backends: int = 1, context: int | None = None
) -> tuple[list[Part], str]:
    """The parts of an audit and what they cost, in words. Asks nothing. Raises UserError where nothing fits.

    `context` is what the backends can read, in tokens, if they say so.
    """
    level, gap, parts, said = question.level(backends), question.wanted_gap, [], []
    for length in question.lengths:
        options, first = difficulty.candidates(
            words,
            question.strides,
            length=length,
            records=question.records,
            demonstrations=question.demonstrations,
            context=context,
        )
        design, longest = options[first].design, options[first].setting.length
        need = effort = power.needed(design, gap, level)
        tries = None
        if question.budget is not None:
            share = question.budget // len(question.lengths)
            searching = _EACH if len(options) > 1 else 0
            least = searching + FEWEST_MAPPINGS * design.size
            if share < least:
                raise UserError(
                    f"a budget of {share} prompts per length is too small to see anything: give at least {least}"
                )
            tries = max(1, share // 2 // _EACH)  # at least half is for the test itself
            effort = power.affordable(share - searching, design, gap, level)
        parts.append(Part(options, first, tries, effort))
        said.append(
            f"{need.prompts} prompts of up to {longest} tokens ({power.tokens(need, longest, design) * backends:,} "
            f"tokens{' on both backends together' if backends > 1 else ''}) show a gap of {gap:g} points at one phase "
            f"with {100 * question.confidence:g} % confidence and a power of {100 * need.power:.0f} %"
        )
        if question.budget is not None:
            said[-1] += f"; the budget buys {effort.prompts}, with a power of {100 * effort.power:.0f} %"
    tries = max(len(part.options) for part in parts)
    if tries > 1:
        said.append(f"finding a difficulty comes before that, with {_EACH} prompts for each of a few settings")
    return parts, "; ".join(said) + ". Fewer are asked if the verdict is settled earlier."
