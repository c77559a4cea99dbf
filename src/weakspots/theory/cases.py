"""What the tables of both theorems share: the scales, and the seeds of every random case."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from weakspots.config.theory import Theory
from weakspots.theory.model import Scales


def scales_of(settings: Theory) -> Scales:
    """gamma and beta of the section."""
    return Scales(settings.gamma, settings.beta)


def seed_of(settings: Theory, *case: object) -> int:
    """The seed of one random case: of the section's seed and the case's own names, whatever else is computed."""
    return crc32(repr((settings.seed, *case)).encode())


def streams(seed: int, count: int) -> list[np.random.SeedSequence]:
    """`count` independent seeds from the seed of one case, for draws that must not share their random numbers."""
    return np.random.SeedSequence(seed).spawn(count)
