"""The section `theory`: what the idealised induction model is asked, and with how many runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from weakspots.config.section import Section

Count = Annotated[int, Field(ge=1)]


def _must_fit(key: str, vocabulary: int, chunks: int, positions: int) -> None:
    if vocabulary <= chunks * positions:
        raise ValueError(
            f"{key}: {vocabulary} leaves no token outside a context of {chunks} chunks of {positions} distinct tokens: "
            f"use more than {chunks * positions}"
        )


class Shape(Section):
    """S positions per chunk and m < S heads."""

    positions: int = Field(ge=2, le=64, description="S, tokens per chunk")
    heads: int = Field(ge=1, description="m, at most S - 1")

    @model_validator(mode="after")
    def _fewer_heads_than_positions(self) -> Shape:
        if self.heads >= self.positions:
            raise ValueError(
                f"heads {self.heads} must be fewer than positions {self.positions}: set heads to at most "
                f"{self.positions - 1}"
            )
        return self


class Minimizers(Section):
    """Theorem 1 with exact geometry: descents from random starts beside all one-hot assignments."""

    chunks: int = Field(2, ge=2, le=64, description="L; the number of assignments is (S - 1)^(L m)")
    shapes: list[Shape] = Field(
        [
            Shape(positions=3, heads=2),
            Shape(positions=4, heads=2),
            Shape(positions=4, heads=3),
            Shape(positions=5, heads=3),
        ],
        min_length=1,
        description="the fit of the margin needs at least two heads",
    )
    vocabularies: list[Count] = Field(
        [16, 32, 64, 128, 256, 1024, 4096, 16384, 65536, 262144, 1048576],
        min_length=1,
        description="N; a shape leaves out those that its context does not fit in",
    )
    fit_from: int = Field(1024, ge=1, description="the smallest N in the fit of the margin")
    starts: int = Field(32, ge=1, le=100_000, description="random starts per shape and N")
    assignments: int = Field(
        20_000, ge=1, le=10_000_000, description="the most one-hot assignments that may be enumerated"
    )

    @model_validator(mode="after")
    def _feasible(self) -> Minimizers:
        for shape in self.shapes:
            count = (shape.positions - 1) ** (self.chunks * shape.heads)
            if count > self.assignments:
                raise ValueError(
                    f"shapes: {shape.positions} positions and {shape.heads} heads in {self.chunks} chunks have {count} "
                    f"one-hot assignments, more than assignments {self.assignments}: lower chunks, or raise that"
                )
            _must_fit("vocabularies", max(self.vocabularies), self.chunks, shape.positions)
        return self


class Map(Section):
    """Theorem 1 with nearly equiangular embeddings: for which N and epsilon its conclusion holds."""

    chunks: int = Field(2, ge=2, le=64, description="L")
    shape: Shape = Shape(positions=4, heads=2)
    vocabularies: list[Count] = Field([10, 12, 16, 32, 64, 128, 256], min_length=1, description="N")
    epsilons: list[float] = Field([0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4], min_length=1, description="from 0 to 1")
    dimensions: int = Field(4, ge=2, le=4096, description="of the random directions that perturb the embeddings")
    contexts: int = Field(8, ge=1, description="contexts per N and epsilon, each with a vocabulary of its own")
    starts: int = Field(12, ge=1, description="random starts per context, besides the best one-hot assignments")

    @model_validator(mode="after")
    def _feasible(self) -> Map:
        _must_fit("vocabularies", min(self.vocabularies), self.chunks, self.shape.positions)
        if max(self.vocabularies) > 4096:
            raise ValueError("vocabularies: all pairs of embeddings are verified, so use at most 4096")
        if not all(0 <= epsilon <= 1 for epsilon in self.epsilons):
            raise ValueError("epsilons: every value must lie between 0 and 1")
        return self


class Flow(Section):
    """Theorem 2 for gates that are equal for all tokens: the coverage over many starts.

    Exact for such gates; the token-specific part of a start, second order in rho, is left out.
    """

    chunks: int = Field(4, ge=2, le=64, description="L")
    positions: list[Annotated[int, Field(ge=1, le=64)]] = Field(
        [4, 8, 12], min_length=1, description="S; each with m = 1 .. S - 1"
    )
    vocabulary: int = Field(1_000_000, ge=1, description="N of these ensembles")
    rho: float = Field(0.01, gt=0, description="radius of the ball of their starts")
    runs: int = Field(200, ge=2, description="starts per ensemble")
    duration: float = Field(
        150, gt=0, le=100_000, description="length of a flow in units of 1 / escape rate, beyond log(1/rho)"
    )
    sweep: Shape = Field(Shape(positions=4, heads=3), description="the shape whose N and rho are varied")
    sweep_vocabularies: list[Count] = Field([20, 32, 64, 256, 1024, 16384], description="N of the sweep")
    sweep_rhos: list[float] = Field([1, 1e-2, 1e-4, 1e-6], description="rho of the sweep")

    @model_validator(mode="after")
    def _feasible(self) -> Flow:
        _must_fit("vocabulary", self.vocabulary, self.chunks, max(self.positions))
        if self.sweep_vocabularies:
            _must_fit("sweep_vocabularies", min(self.sweep_vocabularies), self.chunks, self.sweep.positions)
        if not all(1e-8 <= rho <= 10 for rho in (self.rho, *self.sweep_rhos)):
            raise ValueError("rho and sweep_rhos must lie between 1e-8, where rounding takes over, and 10")
        if min(self.positions) < 3:
            raise ValueError("positions: with fewer than 3 there is nothing to choose from; use at least 3")
        if self.sweep.positions < 3:
            raise ValueError("sweep.positions: with fewer than 3 there is nothing to choose from; use at least 3")
        return self


class Tokens(Section):
    """Theorem 2 with gates that tell tokens apart, on sampled contexts."""

    chunks: int = Field(2, ge=2, le=64, description="L")
    shape: Shape = Shape(positions=4, heads=2)
    vocabularies: list[Count] = Field([12, 16, 32, 64], min_length=1, description="N")
    rhos: list[float] = Field([30.0, 0.01], min_length=1, description="radius of the ball of the starts")
    arrangements: int = Field(4, ge=1, description="contexts per token of the vocabulary, in the flow's sample")
    fresh: int = Field(2_000, ge=2, description="other contexts, on which gates and loss are measured")
    runs: int = Field(3, ge=1, description="starts per N and rho")
    judged_runs: int = Field(10, ge=1, description="the same at the largest N and smallest rho, which are judged")
    duration: float = Field(
        60, gt=0, le=100_000, description="length of a flow in units of 1 / escape rate, beyond log(1/rho)"
    )

    @model_validator(mode="after")
    def _feasible(self) -> Tokens:
        _must_fit("vocabularies", min(self.vocabularies), self.chunks, self.shape.positions)
        if max(self.vocabularies) > 512:
            raise ValueError("vocabularies: a flow has 2 m S N scores, so use at most 512 tokens")
        if not all(1e-8 <= rho <= 100 for rho in self.rhos):
            raise ValueError("rhos: every value must lie between 1e-8 and 100")
        if self.shape.positions < 3:
            raise ValueError("shape.positions: with fewer than 3 there is nothing to choose from; use at least 3")
        return self


class Theory(Section):
    """The idealised induction model of "Why compression concentrates"."""

    gamma: float = Field(4.0, gt=0, le=50, description="scale of the softmax over chunks")
    beta: float = Field(2.0, gt=0, le=50, description="scale of the logits")
    kappa: float = Field(
        1.0, gt=0, le=1000, description="common component of the embeddings; the flow's rate is kappa + 1/N"
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="of every interval")
    seed: int = Field(0, ge=0, description="of every random draw; each adds the numbers of its own case")
    grid: int = Field(41, ge=3, le=2001, description="points per side of the loss landscape (S = 3, one head)")
    minimizers: Minimizers = Minimizers()
    map: Map = Map()
    flow: Flow = Flow()
    tokens: Tokens = Tokens()
