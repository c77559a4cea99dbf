"""The stages of `weakspots` that ask DeepSeek's models and their stand-ins; `cli` has the others, and runs them all."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import pandas as pd

from weakspots import workflow
from weakspots.config import Config
from weakspots.config.deepseek import DeepseekModel
from weakspots.errors import UserError
from weakspots.stages import manifest_of
from weakspots.workflow import Layout

_log = logging.getLogger("weakspots")


def stand_in(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Train a stand-in: a tiny model of DeepSeek's architecture; a killed run continues from its last checkpoint."""
    from weakspots import tables
    from weakspots.building import building
    from weakspots.deepseek import standin
    from weakspots.provenance import config_hash, provenance, stage_digest
    from weakspots.tracking import start_job
    from weakspots.training import loop

    settings = config.deepseek
    shape = _row(arguments.model, config).stand_in
    if shape is None:
        raise UserError(f"{arguments.model} is no stand-in: only {', '.join(settings.stand_ins)} are trained here")
    corpus, shards = config.corpora[settings.stand_in.corpus], Path(layout.data(settings.stand_in.corpus))
    digest = manifest_of(shards)["digest"]
    chosen = workflow.stand_in_settings(config, arguments.model)
    origin = provenance(chosen, "stand_in", shape.seed)
    output = Path(layout.stand_in(arguments.model))
    with start_job(layout.tracking, f"stand-in {arguments.model}", chosen, origin, arguments.reads) as job:
        job.log_dataset(settings.stand_in.corpus, digest, shards)
        key = config_hash([chosen, stage_digest("stand_in"), digest])
        with building(output, key) as folder, job.curve(over="tokens") as publish:
            result = standin.train(settings.stand_in, shape, corpus, shards, folder, config.device, publish)
            tables.write(result["training"], folder / "training.parquet", "training", origin)
            loop.write_validation(folder / "validation.json", result["validation"])
        job.log_artifacts(output)


def needle(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Ask one model the needle test; a killed run asks nothing twice. A model that is nowhere is not run."""
    row = _row(arguments.model, config)
    if not _is_run(arguments.model, row):
        return
    from weakspots.deepseek.backends import backend_of, tokenizer_of
    from weakspots.deepseek.needle import Prompts
    from weakspots.deepseek.needle_score import score
    from weakspots.provenance import provenance
    from weakspots.tracking import start_job

    asked, trained = config.deepseek.needle, layout.stand_in(arguments.model)
    settings = workflow.needle_settings(config, arguments.model)
    origin = provenance(settings, "needle", asked.seed)
    output = Path(layout.deepseek(arguments.model, "needle"))
    with start_job(layout.tracking, f"needle {arguments.model}", settings, origin, arguments.reads) as job:
        count = config.deepseek.prompts_per_residue(arguments.model)
        prompts = Prompts(asked, tokenizer_of(row, trained), count)
        batch_tokens = asked.batch * asked.length
        backend = backend_of(row, trained, config.device, sorted(set(prompts.answers.tolist())), batch_tokens)
        answers = _answers(output, settings)
        table = score(backend, prompts, answers)
        _written(table, output, "needle", origin, answers)
        accuracy = 100 * table.groupby("position")["correct"].mean()
        _log.info(
            "%s: mean %.1f %%, residues %.1f to %.1f %%", row.label, accuracy.mean(), accuracy.min(), accuracy.max()
        )
        job.log_metrics({"accuracy_mean": float(accuracy.mean()), "gap": float(accuracy.max() - accuracy.min())})
        job.log_artifacts(output)


def code_completion(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Ask one model to complete its kernel after docstrings of every length. A model that is nowhere is not run."""
    row = _row(arguments.model, config)
    if not _is_run(arguments.model, row):
        return
    from weakspots.deepseek.backends import backend_of, tokenizer_of
    from weakspots.deepseek.code_completion import completions, score
    from weakspots.deepseek.rankings import first_on_top
    from weakspots.provenance import provenance
    from weakspots.tracking import start_job

    trained = layout.stand_in(arguments.model)
    settings = workflow.code_completion_settings(config, arguments.model)
    origin = provenance(settings, "code_completion")
    output = Path(layout.deepseek(arguments.model, "code_completion"))
    with start_job(layout.tracking, f"code completion {arguments.model}", settings, origin, arguments.reads) as job:
        asked = completions(config.deepseek.code_completion, tokenizer_of(row, trained))
        longest = max(map(len, asked.tokens))
        backend = backend_of(row, trained, config.device, asked.continuations, batch_tokens=4 * longest)
        answers = _answers(output, settings)
        table = score(backend, asked, answers)
        _written(table, output, "code_completion", origin, answers)
        source = table["source"].iloc[0]
        _log.info("%s: `8` on top after %d of %d (%s)", row.label, first_on_top(table).sum(), len(table), source)
        job.log_metrics({"first_on_top": float(first_on_top(table).mean())})
        job.log_artifacts(output)


def layer_knockout(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Ask one model needle prompts with each of its layers knocked out. A model that is nowhere is not run."""
    row = _row(arguments.model, config)
    if not _is_run(arguments.model, row):
        return
    if not row.on_transformers:
        raise UserError(f"{arguments.model} is served elsewhere, where layers cannot be reached: give it a folder")
    from weakspots import tables
    from weakspots.deepseek.backends import tokenizer_of
    from weakspots.deepseek.layer_knockout import score
    from weakspots.deepseek.needle import Prompts
    from weakspots.provenance import provenance
    from weakspots.serving.loading import load
    from weakspots.tracking import start_job

    knockout, needle, trained = config.deepseek.layer_knockout, config.deepseek.needle, layout.stand_in(arguments.model)
    settings = workflow.layer_knockout_settings(config, arguments.model)
    origin = provenance(settings, "layer_knockout", needle.seed)
    output = Path(layout.deepseek(arguments.model, "layer_knockout"))
    with start_job(layout.tracking, f"layer knockout {arguments.model}", settings, origin, arguments.reads) as job:
        tokenizer = tokenizer_of(row, trained)
        prompts = Prompts(needle, tokenizer, knockout.prompts_per_residue)
        # other words; whole mappings, so that every residue is in the mean
        others = Prompts(needle, tokenizer, knockout.calibration_quota(needle.modulus), knockout.seed)
        calibration = [others[number] for number in range(knockout.calibration)]
        model, _ = load(row.folder or trained, dtype=row.dtype if row.folder else "float32", device=config.device)
        table = score(
            model,
            prompts,
            prompts.answers,
            prompts.mapping,
            prompts.position,
            calibration,
            knockout.query_tokens,
            knockout.chunk_tokens,
            knockout.batch,
        )
        tables.write(table, output, "layer_knockout", origin)
        for layer, accuracy in (100 * table.groupby("layer")["correct"].mean()).items():
            _log.info("%s: %.1f %%", "as it is" if layer < 0 else f"without layer {layer}", accuracy)
        job.log_artifacts(output)


STAGES = (stand_in, needle, code_completion, layer_knockout)


def _row(model: str, config: Config) -> DeepseekModel:
    if model not in config.deepseek.models:
        raise UserError(
            f"{model!r} is not among deepseek.models of the configuration: {', '.join(config.deepseek.models)}"
        )
    return config.deepseek.models[model]


def _is_run(name: str, row: DeepseekModel) -> bool:
    if not row.is_run:
        _log.warning("%s is not run: deepseek.models.%s has neither an endpoint nor a folder", row.label, name)
    return row.is_run


def _answers(output: Path, settings: dict) -> Path:
    """The file with the answers so far, an undeclared sibling of the table.

    It is named after the settings alone. That an answer in it belongs to a prompt and to a model is checked answer by
    answer (`serving.store`), so an edit of the source asks only the prompts that it changes.
    """
    from weakspots.building import unfinished
    from weakspots.provenance import config_hash

    return unfinished(output, config_hash(settings))


def _written(table: pd.DataFrame, output: Path, kind: str, origin: dict[str, str], answers: Path) -> None:
    """Write the table, and remove the answers it was made of and those of earlier settings."""
    from weakspots import tables

    tables.write(table, output, kind, origin)
    for stale in {answers, *output.parent.glob(f".{output.name}.*.partial")}:
        stale.unlink(missing_ok=True)
