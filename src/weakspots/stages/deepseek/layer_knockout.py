"""Stage `layer-knockout` of DeepSeek's part."""

from __future__ import annotations

import argparse

from weakspots.config import Config
from weakspots.errors import UserError
from weakspots.stages.shared import deepseek_row, is_run, log
from weakspots.workflow.layout import Layout
from weakspots.workflow.stage_dependencies import layer_knockout_settings


def run(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Ask one model needle prompts with each of its layers knocked out. A model without a folder is not run."""
    row = deepseek_row(arguments.model, config)
    if not is_run(arguments.model, row):
        return
    if not row.on_transformers:
        raise UserError(f"{arguments.model} is served elsewhere, where layers cannot be reached: give it a folder")
    from weakspots.deepseek import layer_knockout
    from weakspots.files import tables
    from weakspots.workflow.provenance import provenance
    from weakspots.workflow.tracking import start_job

    settings = layer_knockout_settings(config, arguments.model)
    origin = provenance(settings, "layer_knockout", config.deepseek.needle.seed)
    output = layout.deepseek(arguments.model, "layer_knockout")
    with start_job(layout.tracking, f"layer knockout {arguments.model}", settings, origin, arguments.reads) as job:
        table = layer_knockout.measure(
            config.deepseek, arguments.model, layout.stand_in(arguments.model), config.device
        )
        tables.write(table, output, "layer_knockout", origin)
        for layer, accuracy in (100 * table.groupby("layer")["correct"].mean()).items():
            log.info("%s: %.1f %%", "as it is" if layer < 0 else f"without layer {layer}", accuracy)
        job.log_artifacts(output)
