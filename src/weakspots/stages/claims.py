"""Stage `claims`."""

from __future__ import annotations

import argparse

from weakspots.config import Config
from weakspots.stages.shared import log
from weakspots.workflow.layout import Layout
from weakspots.workflow.stage_dependencies import shown_settings


def run(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Judge the claims of the paper by the result tables."""
    from weakspots import claims
    from weakspots.analysis import results
    from weakspots.claims.report import to_frame, to_markdown, to_terminal
    from weakspots.files import tables
    from weakspots.files.atomic import writing
    from weakspots.workflow.provenance import provenance
    from weakspots.workflow.tracking import start_job

    settings = shown_settings(config)
    origin = provenance(settings, "claims", config.statistics.seed)
    with start_job(layout.tracking, "claims", {"statistics": settings["statistics"]}, origin, arguments.reads) as job:
        frame = to_frame(claims.judge(results.read(layout.root)))
        parquet, markdown = layout.claims("parquet"), layout.claims("md")
        tables.write(frame, parquet, "claims", origin)
        with writing(markdown) as path:
            path.write_text(to_markdown(frame))
        verdicts = frame[frame["model"].isna()]["status"].value_counts()
        if arguments.log is None:  # somebody looks at the terminal, and not the workflow
            print(to_terminal(frame))
        log.info("claims: %s", ", ".join(f"{count} {status}" for status, count in verdicts.items()))
        job.log_metrics({status.replace(" ", "_"): int(count) for status, count in verdicts.items()})
        job.log_artifacts(parquet, markdown)
