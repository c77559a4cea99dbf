"""Stage `data`."""

from __future__ import annotations

import argparse
from pathlib import Path

from weakspots.config import Config
from weakspots.stages.shared import must_be_known
from weakspots.workflow.layout import Layout
from weakspots.workflow.targets import text_files


def run(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Prepare a corpus: train or load its tokenizer, write its token shards."""
    must_be_known(arguments.corpus, config.corpora, "corpora")
    from weakspots.data.prepare import prepare
    from weakspots.files.atomic import building
    from weakspots.files.hashes import config_hash, sha256
    from weakspots.lookup.score import refuse_unknown_words
    from weakspots.workflow.provenance import provenance
    from weakspots.workflow.stage_dependencies import stage_digest
    from weakspots.workflow.tracking import start_job

    name, corpus = arguments.corpus, config.corpora[arguments.corpus]
    settings = corpus.data_settings()
    origin = provenance(settings, "data", corpus.seed)
    output = Path(layout.data(name))
    with start_job(layout.tracking, f"data {name}", settings, origin, arguments.reads) as job:
        # a stopped job goes on only with the very texts it began with
        texts = {path: sha256(path) for path in text_files(config, name)}
        with building(output, config_hash([settings, texts, stage_digest("data")])) as folder:
            accept = refuse_unknown_words(corpus) if name == config.lookup.corpus else None
            manifest = prepare(corpus, name, folder, arguments.workers, accept)
        job.log_metrics({f"{part}_tokens": counts["tokens"] for part, counts in manifest["parts"].items()})
        job.log_dataset(name, manifest["digest"], output)
        job.log_outputs(output)
        job.log_artifacts(output / "manifest.json", output / "tokenizer")
