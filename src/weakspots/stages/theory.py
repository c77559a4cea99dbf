"""Stage `theory`."""

from __future__ import annotations

import argparse

from weakspots.config import Config
from weakspots.stages.shared import log
from weakspots.workflow.layout import Layout
from weakspots.workflow.stage_dependencies import theory_settings


def run(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Compute the idealised model: minimisers of Theorem 1, gradient flows of Theorem 2."""
    from weakspots.files import tables
    from weakspots.theory.compute import compute
    from weakspots.workflow.provenance import provenance
    from weakspots.workflow.tracking import start_job

    settings = theory_settings(config)
    origin = provenance(settings, "theory", config.theory.seed)
    with start_job(layout.tracking, "theory", settings, origin, arguments.reads) as job:
        for name, table in compute(config.theory).items():
            tables.write(table, layout.theory(name), f"theory_{name}", origin)
            log.info("%s: %d rows", name, len(table))
        job.log_artifacts(layout.theory_folder)
