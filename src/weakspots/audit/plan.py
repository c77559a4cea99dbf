"""What is asked of a backend, and what it costs, before anything is asked."""

from __future__ import annotations

from dataclasses import dataclass

from weakspots.audit import difficulty, power
from weakspots.audit.difficulty import Candidate
from weakspots.audit.sequential import FEWEST_MAPPINGS
from weakspots.audit.words import Vocabulary
from weakspots.errors import UserError

DEFAULT_GAP = 10.0
"""Percentage points that an audit is planned to see, unless told otherwise."""

_EACH = difficulty.PROBE_MAPPINGS * difficulty.PROBE_PROMPTS


@dataclass(frozen=True)
class Question:
    """What is asked of a backend; see `audit`."""

    strides: tuple[int, ...] | str = "auto"
    lengths: tuple[int | None, ...] = (None,)
    records: int | None = None
    demonstrations: int | None = None
    max_gap: float | None = None
    gap: float | None = None
    budget: int | None = None
    confidence: float = 0.95
    seed: int = 0

    @property
    def wanted_gap(self) -> float:
        """Points to be seen: what was asked for, else the limit, else the default."""
        return self.gap or self.max_gap or DEFAULT_GAP

    @property
    def limit(self) -> float:
        """Points above or below which the verdict is settled."""
        return self.max_gap or self.wanted_gap

    def level(self, backends: int) -> float:
        """The error rate of one test at one length: with two backends there are three tests."""
        return (1 - self.confidence) / len(self.lengths) / (3 if backends > 1 else 1)


@dataclass(frozen=True)
class Part:
    """One length: settings from easy to hard, which is tried first, how many at most, and the prompts planned."""

    options: list[Candidate]
    first: int
    tries: int | None
    plan: power.Plan


def planned(words: Vocabulary, question: Question, backends: int = 1) -> tuple[list[Part], str]:
    """The parts of an audit and what they cost, in words. Asks nothing. Raises UserError where nothing fits."""
    level, gap, parts, said = question.level(backends), question.wanted_gap, [], []
    for length in question.lengths:
        options, first = difficulty.candidates(
            words, question.strides, length=length, records=question.records, demonstrations=question.demonstrations
        )
        design, longest = options[first].design, options[first].setting.length
        need = plan = power.needed(design, gap, level)
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
            plan = power.affordable(share - searching, design, gap, level)
        parts.append(Part(options, first, tries, plan))
        said.append(
            f"{need.prompts} prompts of up to {longest} tokens ({power.tokens(need, longest, design) * backends:,} "
            f"tokens{' on both backends together' if backends > 1 else ''}) show a gap of {gap:g} points at one phase "
            f"with {100 * question.confidence:g} % confidence and a power of {100 * need.power:.0f} %"
        )
        if question.budget is not None:
            said[-1] += f"; the budget buys {plan.prompts}, with a power of {100 * plan.power:.0f} %"
    tries = max(len(part.options) for part in parts)
    if tries > 1:
        said.append(f"finding a difficulty comes before that, with {_EACH} prompts for each of a few settings")
    return parts, "; ".join(said) + ". Fewer are asked if the verdict is settled earlier."
