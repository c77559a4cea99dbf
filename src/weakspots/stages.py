"""The stages of the pipeline: what each reads, computes, writes and tracks.

A stage finds its files beside the configuration (`results/<scale>/config.yaml`), is tracked as one MLflow run, and
writes its output whole or not at all. Heavy libraries are imported by the stage that needs them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from weakspots import processes, workflow
from weakspots.config import Config, Corpus
from weakspots.errors import UserError
from weakspots.workflow import Layout

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_log = logging.getLogger("weakspots")


def data(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Prepare a corpus: train or load its tokenizer, write its token shards."""
    _known(arguments.corpus, config.corpora, "corpora")
    from weakspots.building import building
    from weakspots.data.prepare import prepare
    from weakspots.provenance import config_hash, provenance, stage_digest
    from weakspots.tracking import start_job

    name, corpus = arguments.corpus, config.corpora[arguments.corpus]
    settings = corpus.data_settings()
    origin = provenance(settings, "data", corpus.seed)
    output = Path(layout.data(name))
    with start_job(layout.tracking, f"data {name}", settings, origin, arguments.reads) as job:
        # a stopped job goes on only with the very texts it began with
        texts = {
            path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in workflow.text_files(config, name)
        }
        with building(output, config_hash([settings, texts, stage_digest("data")])) as folder:
            accept = _knows_the_words(corpus) if name == config.lookup.corpus else None
            manifest = prepare(corpus, name, folder, arguments.workers, accept)
        job.log_metrics({f"{part}_tokens": counts["tokens"] for part, counts in manifest["parts"].items()})
        job.log_dataset(name, manifest["digest"], output)
        job.log_outputs(output)
        job.log_artifacts(output / "manifest.json", output / "tokenizer")


def _knows_the_words(corpus: Corpus) -> Callable[[PreTrainedTokenizerFast], object]:
    """What a lookup would refuse after all trainings, asked before any: is every word one token?"""
    from weakspots.lookup.prompts import words_in_use
    from weakspots.lookup.score import word_tokens

    keys, values = words_in_use(corpus)
    return lambda tokenizer: word_tokens(tokenizer, [*keys, *values])


def train(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Train one model on one corpus; a killed run continues from its last checkpoint."""
    _known(arguments.corpus, config.corpora, "corpora")
    _known(arguments.model, config.models, "models")
    from weakspots import tables
    from weakspots.attention import choose
    from weakspots.building import building, unfinished
    from weakspots.planning.counts import flops_per_token
    from weakspots.provenance import config_hash, provenance, stage_digest
    from weakspots.tracking import start_job
    from weakspots.training import loop

    corpus, row = config.corpora[arguments.corpus], config.models[arguments.model]
    settings = workflow.train_settings(config, arguments.corpus, arguments.model)
    origin = provenance(settings, "train", row.seed)
    output, shards = Path(layout.model(arguments.corpus, arguments.model)), Path(layout.data(arguments.corpus))
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
            loop.write_validation(folder / "validation.json", result["validation"])
        job.log_metrics({f"validation_{name}": value for name, value in result["validation"].iloc[0].items()})
        job.log_artifacts(output)


def lookup(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Ask one model every lookup prompt, as it is and under every knockout; all paddings if none is named."""
    _known(arguments.model, config.models, "models")
    for padding in arguments.padding:
        _known(padding, dict.fromkeys(config.lookup.paddings), "lookup.paddings")
    from weakspots import statistics, tables, trained
    from weakspots.attention import choose
    from weakspots.lookup.prompts import prompts, words_in_use
    from weakspots.mechanism import sweep
    from weakspots.mechanism.knockout import calibrate
    from weakspots.provenance import provenance
    from weakspots.tracking import start_job

    choose.select(config.backend, config.device)
    settings = workflow.lookup_settings(config)
    folder = Path(layout.model(config.lookup.corpus, arguments.model))
    origin = provenance(settings, "lookup", config.lookup.seed)
    with start_job(layout.tracking, f"lookup {arguments.model}", settings, origin, arguments.reads) as job:
        model, tokenizer = trained.load(folder, config.device)
        words = words_in_use(config.corpora[config.lookup.corpus])
        for padding in arguments.padding or config.lookup.paddings:
            asked = prompts(config.lookup, padding, *words)
            means = calibrate(model, tokenizer, config.lookup, config.knockout, padding, words, asked)
            table, knocked_out = sweep.score(model, tokenizer, asked, means, config.lookup.batch)
            written = Path(layout.lookup(arguments.model, padding)), Path(layout.knockout(arguments.model, padding))
            tables.write(table, written[0], "lookup", origin)
            tables.write(knocked_out, written[1], "knockout", origin)
            accuracy = 100 * statistics.outcomes(table).mean(axis=0)
            summary = {"mean": accuracy.mean(), "worst": accuracy.min(), "gap": accuracy.max() - accuracy.min()}
            _log.info(
                f"{padding} padding, {len(asked)} prompts of {asked.length} tokens: "
                "mean %(mean).1f %%, worst %(worst).1f %%, gap %(gap).1f points",
                summary,
            )
            job.log_metrics({f"{padding}_accuracy_{key}": float(value) for key, value in summary.items()})
            losses = 100 * (table["correct"].mean() - knocked_out.groupby(["layer", "head"])["correct"].mean())
            job.log_metrics({f"{padding}_lost_layer{layer}_head{head}": lost for (layer, head), lost in losses.items()})
        job.log_artifacts(*(path.parent for path in written))


def cycling(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Ask one model again with its gates shifted by every configured number of offsets."""
    _known(arguments.model, config.models, "models")
    from weakspots import tables, trained
    from weakspots.attention import choose
    from weakspots.lookup.prompts import prompts, words_in_use
    from weakspots.mechanism.gate_shift import score
    from weakspots.provenance import provenance
    from weakspots.tracking import start_job

    choose.select(config.backend, config.device)
    settings = workflow.cycling_settings(config)
    origin = provenance(settings, "cycling", config.lookup.seed)
    output = Path(layout.cycling(arguments.model))
    with start_job(layout.tracking, f"cycling {arguments.model}", settings, origin, arguments.reads) as job:
        model, tokenizer = trained.load(layout.model(config.lookup.corpus, arguments.model), config.device)
        asked = prompts(config.lookup, config.cycling.padding, *words_in_use(config.corpora[config.lookup.corpus]))
        asked = asked.take(asked.mapping < config.cycling.mappings)
        table = score(model, tokenizer, asked, config.cycling.shifts, config.lookup.batch)
        tables.write(table, output, "cycling", origin)
        means = 100 * table.groupby("shift")["correct"].mean()
        for shift, mean in means.items():
            _log.info("gates shifted by %+d: mean %.1f %%", shift, mean)
        job.log_metrics({f"accuracy_mean_shift_{shift}": float(mean) for shift, mean in means.items()})
        job.log_artifacts(output)


def theory(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Compute the idealised model: minimisers of Theorem 1, gradient flows of Theorem 2."""
    from weakspots import tables
    from weakspots.provenance import provenance
    from weakspots.theory.compute import compute
    from weakspots.tracking import start_job

    settings = workflow.theory_settings(config)
    origin = provenance(settings, "theory", config.theory.seed)
    with start_job(layout.tracking, "theory", settings, origin, arguments.reads) as job:
        for name, table in compute(config.theory).items():
            tables.write(table, layout.theory(name), f"theory_{name}", origin)
            _log.info("%s: %d rows", name, len(table))
        job.log_artifacts(Path(layout.theory("heads")).parent)


def figure(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Run the notebook of one figure or table."""
    from weakspots.notebooks import execute
    from weakspots.provenance import provenance
    from weakspots.tracking import start_job

    settings = workflow.shown_settings(config)
    origin = provenance(settings, arguments.name, config.statistics.seed)
    with start_job(
        layout.tracking, f"figure {arguments.name}", {"figure": arguments.name}, origin, arguments.reads
    ) as job:
        execute(arguments.name, layout)
        drawn = Path(layout.figure(arguments.name, "")).parent.glob(f"{arguments.name}*")
        written = Path(layout.table("x", "")).parent.glob("*") if arguments.name == "tables" else ()
        job.log_artifacts(*sorted([*drawn, *written]))


def claims(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Judge the claims of the paper by the result tables."""
    from weakspots import claims, results, tables
    from weakspots.building import writing
    from weakspots.claims.report import to_frame, to_markdown, to_terminal
    from weakspots.provenance import provenance
    from weakspots.tracking import start_job

    settings = workflow.shown_settings(config)
    origin = provenance(settings, "claims", config.statistics.seed)
    with start_job(layout.tracking, "claims", {"statistics": settings["statistics"]}, origin, arguments.reads) as job:
        frame = to_frame(claims.judge(results.read(layout.root)))
        parquet, markdown = Path(layout.claims("parquet")), Path(layout.claims("md"))
        tables.write(frame, parquet, "claims", origin)
        with writing(markdown) as path:
            path.write_text(to_markdown(frame))
        verdicts = frame[frame["model"].isna()]["status"].value_counts()
        if arguments.log is None:  # somebody looks at the terminal, and not the workflow
            print(to_terminal(frame))
        _log.info("claims: %s", ", ".join(f"{count} {status}" for status, count in verdicts.items()))
        job.log_metrics({status.replace(" ", "_"): int(count) for status, count in verdicts.items()})
        job.log_artifacts(parquet, markdown)


def explorer(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Write the page on which a reader questions these results: one HTML file."""
    from weakspots import results
    from weakspots.explorer import build
    from weakspots.provenance import provenance
    from weakspots.tracking import start_job

    settings = workflow.shown_settings(config)
    origin = provenance(settings, "explorer", config.statistics.seed)
    about = {"statistics": settings["statistics"]}
    with start_job(layout.tracking, "explorer", about, origin, arguments.reads) as job:
        size = build(results.read(layout.root), layout, layout.explorer)
        _log.info("explorer: %.1f MB, open %s in a browser", size / 1e6, layout.explorer)
        job.log_metrics({"bytes": size})
        job.log_artifacts(Path(layout.explorer))


def manifest_of(shards: Path) -> dict:
    """The manifest of a prepared corpus; its `digest` stands for all files. Raises UserError where there is none."""
    if not (shards / "manifest.json").exists():
        raise UserError(f"{shards} holds no prepared corpus: run `weakspots data {shards.name}` first")
    return json.loads((shards / "manifest.json").read_text())


def _known(name: str, table: dict, key: str) -> None:
    if name not in table:
        raise UserError(f"{name!r} is not among {key} of the configuration: {', '.join(table)}")
