"""When an audit looks at its data, and how much error each look may spend.

A test repeated at every look would find something sooner or later. Here the looks share one error rate: after a share t
of the prompts, level * t^2 of it may have been spent (the power family of Kim and DeMets with exponent 2), and each
look tests at what it may add. The chance of any false alarm is at most the sum, whatever the dependence between looks:
no assumption about the data is needed, since each look's test is a permutation test of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

SHARES = (0.05, 0.15, 0.35, 0.65, 1.0)
"""Of the prompts, at the looks. The first is early, and strict: a model that fails at whole phases shows at once."""

FEWEST_MAPPINGS = 8
"""Mappings that a look has at least, unless there are no more."""


@dataclass(frozen=True)
class Look:
    """After `mappings` mappings in all, test at `level`."""

    mappings: int
    level: float


def looks(mappings: int, level: float) -> list[Look]:
    """Looks up to `mappings`; their levels add up to `level`."""
    places = sorted({place for share in SHARES if (place := round(mappings * share)) >= FEWEST_MAPPINGS} | {mappings})
    spent = [level * (place / mappings) ** 2 for place in places]
    return [Look(place, after - before) for place, after, before in zip(places, spent, [0.0, *spent], strict=False)]
