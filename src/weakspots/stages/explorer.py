"""Stage `explorer`."""

from __future__ import annotations

import argparse

from weakspots.config import Config
from weakspots.stages.shared import log
from weakspots.workflow.layout import Layout
from weakspots.workflow.stage_dependencies import shown_settings


def run(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Write the interactive page for exploring these results: one HTML file."""
    from weakspots.analysis import results
    from weakspots.explorer import build
    from weakspots.workflow.provenance import provenance
    from weakspots.workflow.tracking import start_job

    settings = shown_settings(config)
    origin = provenance(settings, "explorer", config.statistics.seed)
    about = {"statistics": settings["statistics"]}
    with start_job(layout.tracking, "explorer", about, origin, arguments.reads) as job:
        size = build(results.read(layout.root), layout, layout.explorer)
        log.info("explorer: %.1f MB, open %s in a browser", size / 1e6, layout.explorer)
        job.log_metrics({"bytes": size})
        job.log_artifacts(layout.explorer)
