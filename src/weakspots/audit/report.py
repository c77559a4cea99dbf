"""What an audit found, as text, as JSON and as tables for the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from weakspots.audit.compare import Paired
from weakspots.audit.decide import Finding
from weakspots.audit.prompts import Setting

PASSED, GAP_TOO_LARGE, NO_VERDICT = 0, 3, 4
"""Exit statuses. NO_VERDICT: --max-gap was given and accuracy is at the floor, where nothing could be seen."""

UNSUITABLE = "no setting had between 30 and 90 % right; the nearest is asked, and says less"
"""Said of a length that is not `suitable`."""


@dataclass(frozen=True)
class Judged:
    """One backend at one length. `accuracy` and `worst` are percent; `status` is periodic, flat, unsettled or floor."""

    name: str
    accuracy: float
    worst: float
    status: str
    verdict: str
    findings: tuple[Finding, ...]

    def of(self, kind: str) -> Finding:
        """What the "needle" or the "tail" phase does."""
        return next(finding for finding in self.findings if finding.kind == kind)


@dataclass(frozen=True)
class LengthReport:
    """One context length. `tried` has settings and their accuracy (0 to 1) from the search for a difficulty.

    `suitable` is whether accuracy was between 30 and 90 % then. `moments` has, by phase of the period shown, the mean
    and deviation of the target's position that the design realised.
    """

    setting: Setting
    periods: tuple[int, ...]
    suitable: bool
    tried: tuple[tuple[Setting, float], ...]
    mappings: int
    prompts: int
    prompts_planned: int
    tokens: int
    looks: int
    settled: bool
    moments: tuple[dict, ...]
    exact_moments: bool
    judged: tuple[Judged, ...]
    paired: Paired | None
    whose: str | None
    attribution: str | None


@dataclass(frozen=True)
class Report:
    """An audit. `exit_status` is for `--max-gap`; `verdict` has one sentence per length, or whose weakness it is."""

    model: str
    strides: str
    confidence: float
    gap: float
    max_gap: float | None
    plan: str
    lengths: tuple[LengthReport, ...]

    @property
    def verdict(self) -> str:
        """One sentence for each length."""
        several = len(self.lengths) > 1
        said = [(one.setting.length, one.attribution or one.judged[0].verdict) for one in self.lengths]
        return "\n".join(f"At {length} tokens: {sentence}" if several else sentence for length, sentence in said)

    @property
    def exit_status(self) -> int:
        """What the command exits with, which depends on `max_gap`."""
        if self.max_gap is None:
            return PASSED
        judged = [one for length in self.lengths for one in length.judged]
        if any(finding.gap_low > self.max_gap for one in judged for finding in one.findings):
            return GAP_TOO_LARGE
        return NO_VERDICT if any(one.status == "floor" for one in judged) else PASSED

    def to_json(self) -> str:
        """Everything, with the verdict and the exit status."""
        shown = {"verdict": self.verdict, "exit_status": self.exit_status, **asdict(self)}
        return json.dumps(shown, indent=2, default=str) + "\n"

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(report: Report) -> Iterator[str]:
    for length in report.lengths:
        yield f"{length.setting}; periods {', '.join(map(str, length.periods))}"
        for setting, accuracy in length.tried:
            yield f"  tried {setting}: {100 * accuracy:.0f} % right"
        if not length.suitable:
            yield f"  {UNSUITABLE}"
        early = ", settled early" if length.prompts < length.prompts_planned else ""
        yield f"  {length.prompts} of {length.prompts_planned} prompts ({length.mappings} mappings){early}"
        for judged in length.judged:
            yield ""
            yield f"  {judged.name}"
            yield f"  mean {judged.accuracy:.1f} %, worst phase {judged.worst:.1f} %"
            for finding in judged.findings:
                if finding.kind == "needle" or finding.found:
                    yield from _profile(finding)
            yield f"  {tail_sentence(judged)}"
            yield f"  {judged.verdict}"
        if length.attribution:
            yield ""
            yield f"  {length.attribution}"
    if said := limit_sentence(report):
        yield said


def limit_sentence(report: Report) -> str:
    """What came of `--max-gap`, with the exit status; empty where it was not given."""
    if report.max_gap is None:
        return ""
    said = {PASSED: "not larger with confidence", GAP_TOO_LARGE: "the gap is larger", NO_VERDICT: "could not be judged"}
    return f"--max-gap {report.max_gap:g}: {said[report.exit_status]} (exit status {report.exit_status})"


def _profile(finding: Finding) -> Iterator[str]:
    yield f"  {finding.kind} phase modulo {finding.period} (p = {finding.p_value:.2g}, {_size(finding)}):"
    for one in finding.by_phase:
        bar = "#" * round(one.accuracy / 4)
        yield f"    {one.phase:3d} {one.accuracy:5.1f} % [{one.low:5.1f}, {one.high:5.1f}] {bar}"


def _size(finding: Finding) -> str:
    share = f"{100 * finding.effect_size:.1f} % of the variance within mappings"
    return f"gap {finding.gap:.1f} points, between {finding.gap_low:.1f} and {finding.gap_high:.1f}; {share}"


def tail_sentence(judged: Judged) -> str:
    """Which of the two phases, varied independently of each other, the effect follows."""
    needle, tail = judged.of("needle"), judged.of("tail")
    told = f"(p = {needle.p_value:.2g} and {tail.p_value:.2g})"
    if needle.found and tail.found:
        return f"The effect follows both the needle's position and the prompt's length {told}."
    if needle.found:
        return f"The effect follows the needle's position, not the prompt's length {told}."
    if tail.found:
        return f"The effect follows the prompt's length, not the needle's position {told}: suspect the server, if any."
    return f"Neither the needle's position nor the prompt's length matters visibly {told}."
