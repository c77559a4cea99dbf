"""Stage `code-completion` of DeepSeek's part."""

from __future__ import annotations

import argparse

from weakspots.config import Config
from weakspots.stages.shared import answers_so_far, deepseek_row, is_run, log, write_answered
from weakspots.workflow.layout import Layout
from weakspots.workflow.stage_dependencies import code_completion_settings


def run(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Ask one model to complete its kernel after docstrings of every length; without server or folder it is not run."""
    row = deepseek_row(arguments.model, config)
    if not is_run(arguments.model, row):
        return
    from weakspots.deepseek import code_completion
    from weakspots.deepseek.rankings import first_on_top
    from weakspots.workflow.provenance import provenance
    from weakspots.workflow.tracking import start_job

    settings = code_completion_settings(config, arguments.model)
    origin = provenance(settings, "code_completion")
    output = layout.deepseek(arguments.model, "code_completion")
    with start_job(layout.tracking, f"code completion {arguments.model}", settings, origin, arguments.reads) as job:
        answers = answers_so_far(output, settings)
        table = code_completion.measure(
            config.deepseek, arguments.model, layout.stand_in(arguments.model), config.device, answers
        )
        write_answered(table, output, "code_completion", origin, answers)
        source = table["source"].iloc[0]
        log.info("%s: `8` on top after %d of %d (%s)", row.label, first_on_top(table).sum(), len(table), source)
        job.log_metrics({"first_on_top": float(first_on_top(table).mean())})
        job.log_artifacts(output)
