"""Stage `figure`: the notebook of one figure or table."""

from __future__ import annotations

import argparse

from weakspots.config import Config
from weakspots.workflow.layout import Layout
from weakspots.workflow.stage_dependencies import shown_settings


def run(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Run the notebook of one figure or table."""
    from weakspots.workflow.notebooks import execute
    from weakspots.workflow.provenance import provenance
    from weakspots.workflow.tracking import start_job

    origin = provenance(shown_settings(config), arguments.name, config.statistics.seed)
    about = {"figure": arguments.name}
    with start_job(layout.tracking, f"figure {arguments.name}", about, origin, arguments.reads) as job:
        job.log_artifacts(*execute(arguments.name, layout))
