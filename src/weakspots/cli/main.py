"""`weakspots <command>`: every rule of the workflow is one of these calls, which logs to the terminal and to a file.

`stages` has what each of them does, `cli.audit` the command that audits a model or a server.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from importlib import resources
from pathlib import Path
from types import ModuleType

from weakspots.cli import audit
from weakspots.config import PADDINGS, load, schema
from weakspots.errors import UserError, is_disk_full
from weakspots.machine import gpus, processes
from weakspots.machine.allocator import keep_freed_memory
from weakspots.stages import claims, cycling, data, explorer, figure, lookup, theory, train
from weakspots.stages.deepseek import code_completion, layer_knockout, needle, stand_in
from weakspots.workflow.layout import Layout

_log = logging.getLogger("weakspots")


def mlflow(arguments: argparse.Namespace) -> None:
    """Open the tracked runs in MLflow's page, on this machine only."""
    from weakspots.workflow.mlflow_store import serve

    serve(arguments.port)


def claim(arguments: argparse.Namespace) -> None:
    """Run a command with free GPUs of this machine that no other claim gets; wait for them if need be."""
    gpus.claim(arguments.gpus, arguments.command)


def print_schema(_arguments: argparse.Namespace) -> None:
    """Print the JSON schema of the configuration."""
    print(schema(), end="")


def print_costs(arguments: argparse.Namespace) -> None:
    """Print what every run of a scale costs: parameters, operations, memory, GPU-hours, disk."""
    from weakspots.planning.costs import Assumptions
    from weakspots.planning.costs import plan as costs
    from weakspots.planning.report import report

    assumptions = Assumptions(arguments.days, arguments.mfu, arguments.peak_tflops, arguments.vocabulary)
    config = load("config.yaml", *arguments.configfile)
    print(report(config, costs(config, assumptions, arguments.models), assumptions, arguments.markdown), end="")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weakspots", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="stage", required=True, metavar="stage")

    def add(stage: ModuleType, *positional: str) -> argparse.ArgumentParser:
        name = stage.__name__.rpartition(".")[2].replace("_", "-")
        added = commands.add_parser(name, help=stage.run.__doc__.splitlines()[0])
        for argument in positional:
            added.add_argument(argument)
        added.add_argument("--config", required=True, type=Path, help="results/<scale>/config.yaml")
        added.add_argument("--log", type=Path, help="log file; the terminal shows the same lines")
        added.add_argument("--reads", nargs="*", default=[], help="files the job reads, noted for its lineage")
        added.set_defaults(run=stage.run, positional=positional)
        return added

    add(data, "corpus").add_argument("--workers", type=int, default=1, help="threads of the tokenizer")
    add(train, "corpus", "model")
    add(lookup, "model").add_argument("padding", nargs="*", help=f"{' or '.join(PADDINGS)}; all if none is named")
    for stage in (cycling, stand_in, needle, code_completion, layer_knockout):
        add(stage, "model")
    add(theory)
    add(figure, "name")
    add(claims)
    add(explorer)
    shown = commands.add_parser("schema", help=print_schema.__doc__)
    shown.set_defaults(run=print_schema, positional=(), config=None, log=None)
    planned = commands.add_parser("plan", help=print_costs.__doc__)
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
    planned.set_defaults(run=print_costs, positional=(), config=None, log=None)
    claiming = commands.add_parser("claim", help=claim.__doc__, usage="weakspots claim [--gpus N] -- command ...")
    claiming.add_argument("--gpus", type=_positive, default=1, help="how many; 1 if not given")
    claiming.add_argument("command", nargs="+", help="what to run, after --")
    claiming.set_defaults(run=claim, positional=(), config=None, log=None)
    audit.add(commands, _positive)
    browser = commands.add_parser("mlflow", help=mlflow.__doc__)
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
    # What a person has set for figures of their own must not change these, or stop them: a backend of a notebook
    # that is not installed here, text set by TeX. Kernels of notebooks choose the backend that they need.
    os.environ["MATPLOTLIBRC"] = str(resources.files("weakspots") / "resources" / "matplotlibrc")
    os.environ.pop("MPLBACKEND", None)
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
            return parsed.run(parsed) or 0
        parsed.run(parsed, load(parsed.config), Layout.beside(parsed.config))
    except UserError as error:
        print(f"[{name}] error: {error}", file=sys.stderr)
        _log.debug("stopped by a mistake of the user", exc_info=True)
        return 1
    except KeyboardInterrupt:
        print(f"[{name}] stopped", file=sys.stderr)
        return 130
    except Exception as error:
        if is_disk_full(error):
            print(f"[{name}] error: the disk is full: free some space and run the same again", file=sys.stderr)
            _log.debug("the disk is full", exc_info=True)
            return 1
        where = f"; the traceback is in {parsed.log}" if parsed.log else ""
        print(f"[{name}] failed: {type(error).__name__}: {error}{where}", file=sys.stderr)
        _log.debug("failed", exc_info=True)
        if not parsed.log:
            raise
        return 1
    return 0
