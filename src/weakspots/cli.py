"""`weakspots <stage>`: every rule of the workflow is one of these calls. It says which files a stage reads and writes.

Each call finds its files beside the configuration it is given (`results/<scale>/config.yaml`), logs to the terminal
and to a file, is tracked as one MLflow run, and writes its output whole or not at all. Heavy libraries are imported by
the stage that needs them.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from weakspots import cli_deepseek, gpus, processes, workflow
from weakspots.allocator import keep_freed_memory
from weakspots.config import PADDINGS, Config, load, schema
from weakspots.errors import UserError
from weakspots.workflow import Layout

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
    with start_job(layout.tracking, f"data {name}", settings, origin) as job:
        # a stopped job goes on only with the very texts it began with
        texts = {
            path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in workflow.text_files(config, name)
        }
        with building(output, config_hash([settings, texts, stage_digest("data")])) as folder:
            manifest = prepare(corpus, name, folder, arguments.workers)
        job.log_metrics({f"{part}_tokens": counts["tokens"] for part, counts in manifest["parts"].items()})
        job.log_dataset(name, manifest["digest"], output)
        job.log_artifacts(output / "manifest.json", output / "tokenizer")


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
    if not (shards / "manifest.json").exists():
        raise UserError(f"{shards} holds no prepared corpus: run `weakspots data {arguments.corpus}` first")
    key = config_hash([settings, stage_digest("train"), _digest(shards)])
    choose.select(config.backend, config.device)
    manifest = json.loads((shards / "manifest.json").read_text())
    work = flops_per_token(row, config.backbone, manifest["vocabulary"], corpus.stages[-1].length)
    inputs = row, config.backbone, corpus, shards
    if not processes.is_main():  # it computes its share; the main process writes and tracks
        loop.train(*inputs, unfinished(output, key), config.device, work)
        return
    with start_job(layout.tracking, f"train {arguments.corpus}/{arguments.model}", settings, origin) as job:
        job.log_dataset(arguments.corpus, _digest(shards), shards)
        with building(output, key) as folder:
            result = loop.train(*inputs, folder, config.device, work)
            tables.write(result["training"], folder / "training.parquet", "training", origin)
            tables.write(result["gates"], folder / "gates.parquet", "gates", origin)
            loop.write_validation(folder / "validation.json", result["validation"])
        job.log_metrics(result["training"])
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
    with start_job(layout.tracking, f"lookup {arguments.model}", settings, origin) as job:
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
    with start_job(layout.tracking, f"cycling {arguments.model}", settings, origin) as job:
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


def theory(_arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Compute the idealised model: minimisers of Theorem 1, gradient flows of Theorem 2."""
    from weakspots import tables
    from weakspots.provenance import provenance
    from weakspots.theory.compute import compute
    from weakspots.tracking import start_job

    settings = workflow.theory_settings(config)
    origin = provenance(settings, "theory", config.theory.seed)
    with start_job(layout.tracking, "theory", settings, origin) as job:
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
    with start_job(layout.tracking, f"figure {arguments.name}", {"figure": arguments.name}, origin) as job:
        execute(arguments.name, layout)
        drawn = Path(layout.figure(arguments.name, "")).parent.glob(f"{arguments.name}*")
        written = Path(layout.table("x", "")).parent.glob("*") if arguments.name == "tables" else ()
        job.log_artifacts(*sorted([*drawn, *written]))


def mlflow(arguments: argparse.Namespace) -> None:
    """Open the tracked runs in MLflow's page, on this machine only."""
    from weakspots.mlflow_store import serve

    serve(arguments.port)


def claim(arguments: argparse.Namespace) -> None:
    """Run a command with free GPUs of this machine that no other claim gets; wait for them if need be."""
    gpus.claim(arguments.gpus, arguments.command)


def print_schema(_arguments: argparse.Namespace) -> None:
    """Print the JSON schema of the configuration."""
    print(schema(), end="")


def plan(arguments: argparse.Namespace) -> None:
    """Print what every run of a scale costs: parameters, operations, memory, GPU-hours, disk."""
    from weakspots.planning.costs import Assumptions
    from weakspots.planning.costs import plan as costs
    from weakspots.planning.report import report

    assumptions = Assumptions(arguments.days, arguments.mfu, arguments.peak_tflops, arguments.vocabulary)
    config = load("config.yaml", *arguments.configfile)
    print(report(config, costs(config, assumptions, arguments.models), assumptions, arguments.markdown), end="")


def claims(arguments: argparse.Namespace, config: Config, layout: Layout) -> None:
    """Judge the claims of the paper by the result tables."""
    from weakspots import claims, results, tables
    from weakspots.building import writing
    from weakspots.claims.report import to_frame, to_markdown
    from weakspots.provenance import provenance
    from weakspots.tracking import start_job

    settings = workflow.shown_settings(config)
    origin = provenance(settings, "claims", config.statistics.seed)
    with start_job(layout.tracking, "claims", {"statistics": settings["statistics"]}, origin) as job:
        frame = to_frame(claims.judge(results.read(layout.root)))
        parquet, markdown = Path(layout.claims("parquet")), Path(layout.claims("md"))
        tables.write(frame, parquet, "claims", origin)
        with writing(markdown) as path:
            path.write_text(to_markdown(frame))
        verdicts = frame[frame["model"].isna()]["status"].value_counts()
        _log.info("claims: %s", ", ".join(f"{count} {status}" for status, count in verdicts.items()))
        job.log_metrics({status.replace(" ", "_"): int(count) for status, count in verdicts.items()})
        job.log_artifacts(parquet, markdown)


def _digest(shards: Path) -> str:
    """The hash in the manifest of a prepared corpus, which stands for all its files."""
    return json.loads((shards / "manifest.json").read_text())["digest"]


def _known(name: str, table: dict, key: str) -> None:
    if name not in table:
        raise UserError(f"{name!r} is not among {key} of the configuration: {', '.join(table)}")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weakspots", description=__doc__.splitlines()[0])
    stages = parser.add_subparsers(dest="stage", required=True, metavar="stage")

    def stage(run: Callable, *positional: str) -> argparse.ArgumentParser:
        added = stages.add_parser(run.__name__.replace("_", "-"), help=run.__doc__.splitlines()[0])
        for name in positional:
            added.add_argument(name)
        added.add_argument("--config", required=True, type=Path, help="results/<scale>/config.yaml")
        added.add_argument("--log", type=Path, help="log file; the terminal shows the same lines")
        added.set_defaults(run=run, positional=positional)
        return added

    stage(data, "corpus").add_argument("--workers", type=int, default=1, help="threads of the tokenizer")
    stage(train, "corpus", "model")
    stage(lookup, "model").add_argument("padding", nargs="*", help=f"{' or '.join(PADDINGS)}; all if none is named")
    stage(cycling, "model")
    stage(cli_deepseek.stand_in, "model")
    stage(cli_deepseek.needle, "model")
    stage(cli_deepseek.code_completion, "model")
    stage(cli_deepseek.layer_knockout, "model")
    stage(theory)
    stage(figure, "name")
    stage(claims)
    shown = stages.add_parser("schema", help=print_schema.__doc__)
    shown.set_defaults(run=print_schema, positional=(), config=None, log=None)
    planned = stages.add_parser("plan", help=plan.__doc__)
    planned.add_argument(
        "--configfile", nargs="+", default=[], type=Path, help="overlays on config.yaml, as for snakemake"
    )
    planned.add_argument("--models", nargs="+", default=[], help="rows of the model table; all if none is named")
    planned.add_argument("--days", type=float, default=7, help="in which one run is to finish")
    planned.add_argument(
        "--mfu", type=float, default=0.4, help="assumed share of the peak that the model's FLOPs reach"
    )
    planned.add_argument("--peak-tflops", type=float, default=989, help="of one GPU; 989: H100, dense bfloat16")
    planned.add_argument("--vocabulary", type=int, help="tokens of the tokenizer, where they cannot be found out")
    planned.add_argument("--markdown", action="store_true", help="tables in Markdown")
    planned.set_defaults(run=plan, positional=(), config=None, log=None)
    claiming = stages.add_parser("claim", help=claim.__doc__, usage="weakspots claim [--gpus N] -- command ...")
    claiming.add_argument("--gpus", type=_positive, default=1, help="how many; 1 if not given")
    claiming.add_argument("command", nargs="+", help="what to run, after --")
    claiming.set_defaults(run=claim, positional=(), config=None, log=None)
    browser = stages.add_parser("mlflow", help=mlflow.__doc__)
    browser.add_argument("--port", type=int, default=5000)
    browser.set_defaults(run=mlflow, positional=(), config=None, log=None)
    return parser


def _log_to(file: Path | None, name: str) -> None:
    """Every line goes to the terminal, marked with the job's name since jobs run side by side, and to `file`."""
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setFormatter(logging.Formatter(f"[{name}] %(message)s"))
    terminal.setLevel(logging.INFO if processes.is_main() else logging.WARNING)
    handlers: list[logging.Handler] = [terminal]
    if file is not None and processes.is_main():
        file.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(file, mode="w"))
        handlers[-1].setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=handlers, force=True)
    _log.setLevel(logging.DEBUG)
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TRANSFORMERS_NO_TQDM", "1")


def main(arguments: list[str] | None = None) -> int:
    """Run one stage; returns the exit status. A user's mistake is one or two lines, its traceback is in the log."""
    parsed = _parser().parse_args(arguments)
    name = "/".join([parsed.stage, *(getattr(parsed, key) for key in parsed.positional)])
    _log_to(parsed.log, name)
    gpus.keep()
    keep_freed_memory()
    gc.set_threshold(100_000)  # what imports make lives for ever; to look through it again and again costs a tenth
    try:
        if parsed.config is None:
            parsed.run(parsed)
        else:
            parsed.run(parsed, load(parsed.config), Layout.beside(parsed.config))
    except UserError as error:
        print(f"[{name}] error: {error}", file=sys.stderr)
        _log.debug("stopped by a mistake of the user", exc_info=True)
        return 1
    except KeyboardInterrupt:
        print(f"[{name}] stopped", file=sys.stderr)
        return 130
    except Exception as error:
        where = f"; the traceback is in {parsed.log}" if parsed.log else ""
        print(f"[{name}] failed: {type(error).__name__}: {error}{where}", file=sys.stderr)
        _log.debug("failed", exc_info=True)
        if not parsed.log:
            raise
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
