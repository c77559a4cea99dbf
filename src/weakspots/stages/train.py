"""Stage `train`."""

from __future__ import annotations

import argparse
from pathlib import Path

from weakspots.config import Config
from weakspots.machine import processes
from weakspots.stages.shared import manifest_of, must_be_known
from weakspots.workflow.layout import Layout
from weakspots.workflow.stage_dependencies import stage_digest, train_settings


def run(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Train one model on one corpus; a killed run continues from its last checkpoint."""
    must_be_known(arguments.corpus, config.corpora, "corpora")
    must_be_known(arguments.model, config.models, "models")
    from weakspots.attention import choose
    from weakspots.files import tables, validation
    from weakspots.files.atomic import building, unfinished
    from weakspots.files.hashes import config_hash
    from weakspots.planning.counts import flops_per_token
    from weakspots.training import loop
    from weakspots.workflow.provenance import provenance
    from weakspots.workflow.tracking import start_job

    corpus, row = config.corpora[arguments.corpus], config.models[arguments.model]
    settings = train_settings(config, arguments.corpus, arguments.model)
    origin = provenance(settings, "train", row.seed)
    output, shards = layout.model(arguments.corpus, arguments.model), Path(layout.data(arguments.corpus))
    manifest = manifest_of(shards)
    key = config_hash([settings, stage_digest("train"), manifest["digest"]])
    choose.select(config.backend, config.device)
    work = flops_per_token(row, config.backbone, manifest["vocabulary"], corpus.stages[-1].length)
    inputs = row, config.backbone, corpus, shards
    if not processes.is_main():  # it computes its share; the main process writes and tracks
        loop.train(*inputs, unfinished(output, key), config.device, work)
        return
    with start_job(
        layout.tracking, f"train {arguments.corpus}/{arguments.model}", settings, origin, arguments.reads
    ) as job:
        job.log_dataset(arguments.corpus, manifest["digest"], shards)
        with building(output, key) as folder, job.curve(over="tokens") as publish:
            result = loop.train(*inputs, folder, config.device, work, publish)
            tables.write(result["training"], folder / "training.parquet", "training", origin)
            tables.write(result["gates"], folder / "gates.parquet", "gates", origin)
            validation.write(folder / "validation.json", result["validation"].to_dict("records")[0])
        job.log_metrics({f"validation_{name}": value for name, value in result["validation"].iloc[0].items()})
        job.log_artifacts(output)
