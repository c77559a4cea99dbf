"""Stage `needle` of DeepSeek's part."""

from __future__ import annotations

import argparse

from weakspots.config import Config
from weakspots.stages.shared import answers_so_far, deepseek_row, is_run, log, write_answered
from weakspots.workflow.layout import Layout
from weakspots.workflow.stage_dependencies import needle_settings


def run(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Ask one model the needle test; a killed run asks nothing twice. A model without server or folder is not run."""
    row = deepseek_row(arguments.model, config)
    if not is_run(arguments.model, row):
        return
    from weakspots.deepseek import needle_score
    from weakspots.workflow.provenance import provenance
    from weakspots.workflow.tracking import start_job

    settings = needle_settings(config, arguments.model)
    origin = provenance(settings, "needle", config.deepseek.needle.seed)
    output = layout.deepseek(arguments.model, "needle")
    with start_job(layout.tracking, f"needle {arguments.model}", settings, origin, arguments.reads) as job:
        answers = answers_so_far(output, settings)
        table = needle_score.measure(
            config.deepseek, arguments.model, layout.stand_in(arguments.model), config.device, answers
        )
        write_answered(table, output, "needle", origin, answers)
        accuracy = 100 * table.groupby("position")["correct"].mean()
        log.info(
            "%s: mean %.1f %%, residues %.1f to %.1f %%", row.label, accuracy.mean(), accuracy.min(), accuracy.max()
        )
        job.log_metrics({"accuracy_mean": float(accuracy.mean()), "gap": float(accuracy.max() - accuracy.min())})
        job.log_artifacts(output)
