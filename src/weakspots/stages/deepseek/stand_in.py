"""Stage `stand-in` of DeepSeek's part."""

from __future__ import annotations

import argparse
from pathlib import Path

from weakspots.config import Config
from weakspots.errors import UserError
from weakspots.stages.shared import deepseek_row, manifest_of
from weakspots.workflow.layout import Layout
from weakspots.workflow.stage_dependencies import stage_digest, stand_in_settings


def run(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Train a stand-in: a tiny model of DeepSeek's architecture; a killed run continues from its last checkpoint."""
    from weakspots.deepseek import standin
    from weakspots.files import tables, validation
    from weakspots.files.atomic import building
    from weakspots.files.hashes import config_hash
    from weakspots.workflow.provenance import provenance
    from weakspots.workflow.tracking import start_job

    settings = config.deepseek
    shape = deepseek_row(arguments.model, config).stand_in
    if shape is None:
        raise UserError(f"{arguments.model} is no stand-in: only {', '.join(settings.stand_ins)} are trained here")
    corpus, shards = config.corpora[settings.stand_in.corpus], Path(layout.data(settings.stand_in.corpus))
    digest = manifest_of(shards)["digest"]
    chosen = stand_in_settings(config, arguments.model)
    origin = provenance(chosen, "stand_in", shape.seed)
    output = layout.stand_in(arguments.model)
    with start_job(layout.tracking, f"stand-in {arguments.model}", chosen, origin, arguments.reads) as job:
        job.log_dataset(settings.stand_in.corpus, digest, shards)
        key = config_hash([chosen, stage_digest("stand_in"), digest])
        with building(output, key) as folder, job.curve(over="tokens") as publish:
            result = standin.train(settings.stand_in, shape, corpus, shards, folder, config.device, publish)
            tables.write(result["training"], folder / "training.parquet", "training", origin)
            validation.write(folder / "validation.json", result["validation"].to_dict("records")[0])
        job.log_artifacts(output)
