"""Stage `data`."""

from __future__ import annotations

import argparse
from pathlib import Path

from weakspots.config import Config, LocalSource
from weakspots.stages.shared import log, must_be_known
from weakspots.workflow.layout import Layout
from weakspots.workflow.text_digests import text_digests


def run(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Prepare a corpus: train or load its tokenizer, write its token shards."""
    must_be_known(arguments.corpus, config.corpora, "corpora")
    from weakspots.data.prepare import prepare
    from weakspots.data.text_files import left_out
    from weakspots.files.atomic import building
    from weakspots.files.hashes import config_hash
    from weakspots.lookup.score import refuse_unknown_words
    from weakspots.workflow.provenance import provenance
    from weakspots.workflow.stage_dependencies import stage_digest
    from weakspots.workflow.tracking import start_job

    name, corpus = arguments.corpus, config.corpora[arguments.corpus]
    settings = corpus.data_settings()
    origin = provenance(settings, "data", corpus.seed)
    output = Path(layout.data(name))
    texts = text_digests(config, name)
    paths = corpus.source.paths if isinstance(corpus.source, LocalSource) else []
    if others := left_out(paths):
        log.warning(f"corpora.{name}.source.paths: {others}")
    with start_job(layout.tracking, f"data {name}", settings, origin) as job:
        job.log_corpus(paths, texts)
        # a stopped job goes on only with the very texts it began with
        with building(output, config_hash([settings, texts, stage_digest("data")])) as folder:
            accept = refuse_unknown_words(corpus) if name == config.lookup.corpus else None
            manifest = prepare(corpus, name, folder, arguments.workers, accept)
        job.log_metrics({f"{part}_tokens": counts["tokens"] for part, counts in manifest["parts"].items()})
        job.log_dataset(name, manifest["digest"], output)
        job.log_outputs(output)
        job.log_artifacts(output / "manifest.json", output / "tokenizer")
