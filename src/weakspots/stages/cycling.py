"""Stage `cycling`."""

from __future__ import annotations

import argparse

from weakspots.config import Config
from weakspots.stages.shared import log, must_be_known
from weakspots.workflow.layout import Layout
from weakspots.workflow.stage_dependencies import cycling_settings


def run(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Ask one model again with its gates shifted by every configured number of offsets."""
    must_be_known(arguments.model, config.models, "models")
    from weakspots.attention import choose
    from weakspots.files import tables
    from weakspots.mechanism import gate_cycling
    from weakspots.workflow.provenance import provenance
    from weakspots.workflow.tracking import start_job

    choose.select(config.backend, config.device)
    settings = cycling_settings(config)
    origin = provenance(settings, "cycling", config.lookup.seed)
    output = layout.cycling(arguments.model)
    with start_job(layout.tracking, f"cycling {arguments.model}", settings, origin, arguments.reads) as job:
        table = gate_cycling.measure(layout.model(config.lookup.corpus, arguments.model), config)
        tables.write(table, output, "cycling", origin)
        means = 100 * table.groupby("shift")["correct"].mean()
        for shift, mean in means.items():
            log.info("gates shifted by %+d: mean %.1f %%", shift, mean)
        job.log_metrics({f"accuracy_mean_shift_{shift}": float(mean) for shift, mean in means.items()})
        job.log_artifacts(output)
