"""Stage `lookup`, which takes all knockouts in the same pass."""

from __future__ import annotations

import argparse

from weakspots.config import Config
from weakspots.stages.shared import log, must_be_known
from weakspots.workflow.layout import Layout
from weakspots.workflow.stage_dependencies import lookup_settings


def run(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Ask one model every lookup prompt, as it is and under every knockout; all paddings if none is named."""
    must_be_known(arguments.model, config.models, "models")
    for padding in arguments.padding:
        must_be_known(padding, dict.fromkeys(config.lookup.paddings), "lookup.paddings")
    from weakspots import statistics
    from weakspots.attention import choose
    from weakspots.files import tables
    from weakspots.mechanism import all_knockouts
    from weakspots.workflow.provenance import provenance
    from weakspots.workflow.tracking import start_job

    choose.select(config.backend, config.device)
    settings = lookup_settings(config)
    origin = provenance(settings, "lookup", config.lookup.seed)
    folder = layout.model(config.lookup.corpus, arguments.model)
    paddings = arguments.padding or config.lookup.paddings
    with start_job(layout.tracking, f"lookup {arguments.model}", settings, origin, arguments.reads) as job:
        for padding, asked, table, knocked_out in all_knockouts.measure(folder, config, paddings):
            tables.write(table, layout.lookup(arguments.model, padding), "lookup", origin)
            tables.write(knocked_out, layout.knockout(arguments.model, padding), "knockout", origin)
            accuracy = 100 * statistics.outcomes(table).mean(axis=0)
            summary = {"mean": accuracy.mean(), "worst": accuracy.min(), "gap": accuracy.max() - accuracy.min()}
            log.info(
                f"{padding} padding, {len(asked)} prompts of {asked.length} tokens: "
                "mean %(mean).1f %%, worst %(worst).1f %%, gap %(gap).1f points",
                summary,
            )
            job.log_metrics({f"{padding}_accuracy_{key}": float(value) for key, value in summary.items()})
            losses = 100 * (table["correct"].mean() - knocked_out.groupby(["layer", "head"])["correct"].mean())
            job.log_metrics({f"{padding}_lost_layer{layer}_head{head}": lost for (layer, head), lost in losses.items()})
        job.log_artifacts(layout.lookup_folder(arguments.model), layout.knockout_folder(arguments.model))
