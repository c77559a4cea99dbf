"""The audit: plan, find a difficulty, ask in looks until the verdict is settled, report."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from weakspots.audit import difficulty, power
from weakspots.audit.compare import attribute
from weakspots.audit.decide import at_floor, status, verdict, worst_accuracy
from weakspots.audit.design import moments
from weakspots.audit.difficulty import Candidate, Search
from weakspots.audit.follow import follow
from weakspots.audit.prompts import Batch, make
from weakspots.audit.questions import Part, Question, context_of, planned
from weakspots.audit.report import Judged, LengthReport, Report
from weakspots.audit.sequential import looks
from weakspots.audit.words import Vocabulary, vocabulary
from weakspots.serving.answers import Backend, is_correct
from weakspots.serving.checks import check
from weakspots.serving.endpoint import Endpoint
from weakspots.serving.store import ask_all
from weakspots.task.records import shuffles

_log = logging.getLogger(__name__)

_PROBE_SEED = 1_000_003  # apart from the seed of the mappings that are tested


def audit(
    backend: Backend,
    tokenizer: PreTrainedTokenizerBase,
    *,
    compare: Backend | None = None,
    output: str | Path | None = None,
    **question: Any,
) -> Report:
    """Whether `backend` looks things up worse at some phases of the target's position or of the prompt's length.

    Further arguments, all optional, are those of `Question`: `strides` ("auto" or token counts), `lengths` (tokens of
    the longest prompt; None: the shortest that holds the design), `records` and `demonstrations` (searched for unless
    given), `max_gap` (points; the report's `exit_status` is 3 if the gap is surely larger), `gap` (points to be seen),
    `budget` (prompts at most, those of the search included), `confidence`, `seed`. `compare` is asked the same prompts.
    Answers are kept in the folder `output`, and what is there is not asked again.

        >>> backend = Local.load("results/laptop/models/recall/w8s8-1kv")
        >>> print(audit(backend, backend.tokenizer, strides=(8,)).verdict)

    Raises UserError where the tokenizer, the lengths or a backend do not fit.
    """
    asked = Question(**question)
    words, backends = vocabulary(tokenizer), [backend, *([compare] if compare else [])]
    parts, plan = planned(words, asked, len(backends), context_of(backends))
    _log.info("plan: %s", plan)
    with TemporaryDirectory() as scratch:
        session = _Session(words, backends, asked, Path(output or scratch) / "answers.jsonl")
        lengths = tuple(session.length(part) for part in parts)
    strides = asked.strides if isinstance(asked.strides, str) else ", ".join(map(str, asked.strides))
    return Report(backend.name, strides, asked.confidence, asked.wanted_gap, asked.max_gap, plan, lengths)


class _Session:
    """The backends and what has been asked of them."""

    def __init__(self, words: Vocabulary, backends: Sequence[Backend], question: Question, answers: Path) -> None:
        self._words, self._backends, self._question, self._answers = words, backends, question, answers
        self._checked = False

    def length(self, part: Part) -> LengthReport:
        """One length from the search for a difficulty to the verdict."""
        question, spent = self._question, 0

        def probe(candidate: Candidate) -> float:
            nonlocal spent
            batch = self._made(candidate, _PROBE_SEED + question.seed, 0, difficulty.PROBE_MAPPINGS)
            batch = _some(batch, candidate.design.size, np.random.default_rng(question.seed))
            spent += len(batch.prompts)
            found = float(self._asked(self._backends[0], batch).mean())
            _log.info("%s: %.0f %% right", candidate.setting, 100 * found)
            return found

        searched = difficulty.search(part.options, part.first, probe, part.tries)
        design, mappings = searched.chosen.design, part.effort.mappings
        if question.budget is not None:
            mappings = max(1, (question.budget // len(question.lengths) - spent) // design.size)
        elif design is not part.options[part.first].design:
            mappings = power.needed(design, question.wanted_gap, question.level(len(self._backends))).mappings
        return self._looked(searched, mappings)

    def _looked(self, searched: Search, mappings: int) -> LengthReport:
        candidate, question = searched.chosen, self._question
        design = candidate.design

        def ask(first: int, count: int) -> tuple[Batch, list[np.ndarray]]:
            batch = self._made(candidate, question.seed, first, count)
            return batch, [self._asked(backend, batch) for backend in self._backends]

        seen = follow(
            ask,
            design,
            looks(mappings, question.level(len(self._backends))),
            question.limit,
            confidence=question.confidence,
            seed=question.seed,
        )
        names = [backend.name for backend in self._backends]
        sides = zip(names, seen.correct, seen.findings, strict=True)
        judged = tuple(self._judged(*side, candidate, seen.batch) for side in sides)
        statuses = [one.status for one in judged]
        whose: tuple[str | None, str | None] = (None, None)
        if seen.test:
            one, other = seen.findings
            whose = attribute(one, other, seen.test, names, statuses)
        batch, asked = seen.batch, len(seen.batch.mapping)
        return LengthReport(
            setting=candidate.setting,
            periods=design.periods,
            suitable=searched.suitable,
            tried=searched.tried,
            mappings=seen.mappings,
            prompts=asked,
            prompts_planned=mappings * design.size,
            tokens=int(batch.length.sum() + asked) * len(self._backends),
            looks=seen.looks,
            settled=seen.settled,
            moments=tuple(moments(batch.needle, seen.findings[0][0].period).reset_index().to_dict("records")),
            exact_moments=design.exact and seen.mappings % design.modulus**2 == 0,
            judged=judged,
            paired=seen.test,
            whose=whose[0],
            attribution=whose[1],
        )

    def _judged(self, name: str, correct: np.ndarray, findings: list, candidate: Candidate, batch: Batch) -> Judged:
        accuracy, records = float(correct.mean()), candidate.setting.records
        gap, confidence = self._question.wanted_gap, self._question.confidence
        floor = at_floor(batch.mapping, correct, records)
        said = verdict(findings, accuracy, candidate.design.asked, gap, confidence, floor=records if floor else None)
        in_a_word = status(findings, floor, gap)
        return Judged(name, 100 * accuracy, worst_accuracy(findings), in_a_word, said, tuple(findings))

    def _made(self, candidate: Candidate, seed: int, first: int, count: int) -> Batch:
        setting = candidate.setting
        label = f"{setting.length}-{setting.records}-{setting.demonstrations}/{seed}/"
        return make(self._words, setting, candidate.design, seed=seed, first=first, count=count, label=label)

    def _asked(self, backend: Backend, batch: Batch) -> np.ndarray:
        """[n] whether the greedy token is the answer."""
        if not self._checked:
            for some in self._backends:
                if isinstance(some, Endpoint):
                    check(some, batch.prompts[:4])
            self._checked = True
        answers = ask_all(backend, batch.prompts, self._answers)
        wanted = zip(answers, batch.answer.tolist(), batch.spelled, strict=True)
        return np.array([is_correct(answer, token, text) for answer, token, text in wanted])


def _some(batch: Batch, size: int, rng: np.random.Generator) -> Batch:
    """A few prompts of every mapping, chosen at random."""
    columns = shuffles(rng, len(batch.mapping) // size, size)[:, : difficulty.PROBE_PROMPTS]
    chosen = (columns + size * np.arange(len(columns))[:, None]).ravel()
    return Batch(
        mapping=batch.mapping[chosen],
        needle=batch.needle[chosen],
        length=batch.length[chosen],
        answer=batch.answer[chosen],
        spelled=[batch.spelled[number] for number in chosen],
        prompts=[batch.prompts[number] for number in chosen],
    )
