"""What is measured on trained models, and how: the lookup, its knockouts, gate cycling, intervals and tests."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field, model_validator

from weakspots.config.section import Section, Seed

Padding = Literal["prefix", "in_sequence"]
"""Where the lookup evaluation puts the filler that moves the target: before all records, or in the gaps between."""

PADDINGS: tuple[str, ...] = get_args(Padding)


class Lookup(Section):
    """The animal-to-name lookup."""

    corpus: str = Field(description="the corpus whose models are evaluated")
    paddings: list[Padding] = Field(min_length=1)
    modulus: int = Field(24, ge=2, description="positions are grouped modulo this: a multiple of every stride")
    mappings: int = Field(ge=1, description="key-name mappings, each at every position; a multiple of modulus squared")
    records: int = Field(ge=2)
    demonstrations: int = Field(8, ge=0)
    batch: int = Field(256, ge=1, description="prompts per forward pass")
    seed: Seed = 0

    @model_validator(mode="after")
    def _exact(self) -> Lookup:
        if self.mappings % self.modulus**2:
            raise ValueError(
                f"mappings {self.mappings} is no multiple of modulus² = {self.modulus**2}, so the moments of the "
                f"target position could not be equal: use {-(-self.mappings // self.modulus**2) * self.modulus**2}"
            )
        if self.demonstrations >= self.records:
            raise ValueError(
                f"demonstrations {self.demonstrations} must leave a target out of {self.records} records: "
                f"set it to at most {self.records - 1}"
            )
        return self


class Knockout(Section):
    """Knockouts: what a head's output is replaced by."""

    calibration: int = Field(256, ge=1, description="prompts over which the mean output is taken; none is evaluated")
    seed: Seed = Field(1_000, description="of the calibration prompts; another one than the lookup's")


class Cycling(Section):
    """Gate cycling: which models, by how many offsets, asked how often."""

    models: list[str]
    shifts: list[int] = Field([-3, -2, -1, 1, 2, 3], min_length=1, description="offsets; 0 is the lookup itself")
    padding: Padding = "prefix"
    mappings: int = Field(ge=1, description="how many of the lookup's mappings, from the first on, are asked again")


class Statistics(Section):
    """Intervals and tests."""

    bootstrap: int = Field(2_000, ge=100, description="bootstrap replicates over mappings")
    confidence: float = Field(0.95, gt=0.5, lt=1)
    seed: Seed = 0
