"""`results/<scale>/SUMMARY.md`: one run on a page that can be pasted into an issue or a mail.

Versions, machine, time by stage, and every claim by verdict. Times come from the records that Snakemake keeps of each
output (`.snakemake/metadata`), so they are right after partial reruns too: each job counts with its last run.
"""

from __future__ import annotations

import base64
import json
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import psutil

from weakspots.errors import UserError
from weakspots.files import markdown, statuses, tables
from weakspots.files.atomic import writing
from weakspots.files.validation import NOT_LEARNT
from weakspots.workflow.layout import Layout
from weakspots.workflow.provenance import git_commit

RECORDS = Path(".snakemake/metadata")
"""Where Snakemake keeps them, from the working directory."""

_PACKAGES = ("snakemake", "torch", "triton", "transformers", "accelerate", "datasets", "mlflow", "papermill", "seaborn")


@dataclass(frozen=True)
class StageTime:
    """Jobs of one rule, their seconds added up, and when the first began and the last ended (seconds since 1970)."""

    rule: str
    jobs: int
    seconds: float
    began: float
    ended: float


def stage_times(root: str, records: Path) -> list[StageTime]:
    """Times of every rule whose outputs are in the folder `root`, in the order in which they first began."""
    jobs: dict[str, dict[str, list[float]]] = {}
    for path in records.rglob("*") if records.is_dir() else ():
        try:
            output = base64.b64decode("".join(path.relative_to(records).parts).replace("@", "")).decode()
            record = json.loads(path.read_text())
            job, times = str(record["log"]), [float(record["starttime"]), float(record["endtime"])]
        except (ValueError, KeyError, TypeError, OSError):
            continue  # a folder, or a record of another version
        if output.startswith(f"{root}/") and not record.get("incomplete"):
            begin, end = jobs.setdefault(record["rule"], {}).setdefault(job, times)  # each output has a record
            jobs[record["rule"]][job] = [min(begin, times[0]), max(end, times[1])]
    found = []
    for rule, by_job in jobs.items():
        begun, ended = zip(*by_job.values(), strict=True)
        found.append(StageTime(rule, len(by_job), sum(ended) - sum(begun), min(begun), max(ended)))
    return sorted(found, key=lambda stage: stage.began)


def write(layout: Layout) -> Path:
    """Writes SUMMARY.md beside the results of a scale; returns its path."""
    path = Path(layout.summary)
    try:
        verdicts = tables.read(layout.claims("parquet"), "claims")
    except (UserError, OSError, ValueError):  # missing, or of another version: the rest of the page is true anyway
        verdicts = None
    with writing(path) as partial:
        partial.write_text("\n".join(_lines(layout, stage_times(layout.root, RECORDS), verdicts)) + "\n")
    return path


def _lines(layout: Layout, stages: list[StageTime], verdicts: pd.DataFrame | None) -> Iterable[str]:
    yield from (f"# Periodic weak spots, scale {Path(layout.root).name}", "")
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    yield f"- weakspots {version('periodic-weak-spots')}, commit {git_commit()}; Python {platform.python_version()}"
    yield f"- {packages}"
    memory = psutil.virtual_memory().total / 2**30
    yield f"- {_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}"
    yield from ("", "## Time by stage", "")
    if stages:
        jobs, minutes = sum(stage.jobs for stage in stages), sum(stage.seconds for stage in stages) / 60
        yield f"{jobs} jobs, {minutes:.1f} minutes of job time; jobs run side by side."
        rows = [(stage.rule, stage.jobs, f"{stage.seconds / 60:.1f}") for stage in stages]
        yield from ("", *markdown.table(("stage", "jobs", "minutes"), rows, right=(1, 2)))
    else:
        yield "Snakemake has no records of this folder's jobs."
    yield from ("", "## Claims", "")
    if verdicts is None:
        yield "Not judged yet: `snakemake claims`."
        return
    whole = verdicts[verdicts["model"].isna()]
    yield statuses.tally(whole["status"])
    parts = verdicts[verdicts["model"].notna()]
    if stuck := list(parts.loc[parts["value"].str.startswith(NOT_LEARNT), "model"].unique()):
        yield from ("", f"Models that have {NOT_LEARNT} and are no evidence: {len(stuck)} ({', '.join(stuck)}).")
    for status, text in statuses.COUNTED.items():
        chosen = whole[whole["status"] == status]
        if len(chosen):
            yield from ("", f"**{text}**", "")
            yield from (f"- `{row.claim}`: {row.value}" for row in chosen.itertuples())


def _processor() -> str:
    """The processor's name as the system knows it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"
