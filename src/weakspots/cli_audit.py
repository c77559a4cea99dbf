"""`weakspots audit`: the command; `weakspots.audit` does the work."""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

from weakspots.errors import UserError

_log = logging.getLogger("weakspots")

_URL = ("http://", "https://")


def audit(arguments: argparse.Namespace) -> int:
    """Find periodic weak spots of any model or server: accuracy by the target's position, with a verdict."""
    from weakspots.audit import Question, planned
    from weakspots.audit import audit as ask
    from weakspots.audit.words import vocabulary

    question = _question(arguments)
    if (arguments.model is None) == (arguments.endpoint is None):
        raise UserError("name one thing to audit: a folder, hub id or .gguf file, or --endpoint URL with --model")
    tokenizer, backends = None, []
    if arguments.dry_run and arguments.tokenizer:
        count = 2 if arguments.compare else 1
        print(planned(vocabulary(_tokenizer(arguments.tokenizer)), Question(**question), count)[1])
        return 0
    for place, name in ((arguments.model or arguments.endpoint, arguments.model_name), _compared(arguments)):
        if place is not None:
            backends.append(_backend(place, name, arguments))
            tokenizer = tokenizer or getattr(backends[-1], "tokenizer", None)
    if arguments.tokenizer:
        tokenizer = _tokenizer(arguments.tokenizer)
    if tokenizer is None:
        raise UserError("prompts are sent as token ids: name the model's tokenizer, a folder or hub id, by --tokenizer")
    if arguments.dry_run:
        print(planned(vocabulary(tokenizer), Question(**question), len(backends))[1])
        return 0
    report = ask(
        backends[0], tokenizer, compare=backends[1] if backends[1:] else None, output=arguments.output, **question
    )
    _save(report, arguments.output)
    print(report)
    _log.info("report.html, report.json and accuracy.png are in %s", arguments.output)
    return report.exit_status


def _question(arguments: argparse.Namespace) -> dict[str, object]:
    if arguments.stride == ["auto"]:
        strides: tuple[int, ...] | str = "auto"
    elif all(stride.isdecimal() for stride in arguments.stride):
        strides = tuple(map(int, arguments.stride))
    else:
        raise UserError(f"--stride {' '.join(arguments.stride)}: give numbers of tokens, or auto alone")
    if not 0.5 <= arguments.confidence < 1:
        raise UserError(f"--confidence {arguments.confidence:g} is a probability from 0.5 to below 1, such as 0.95")
    for name in ("max_gap", "gap"):
        value = getattr(arguments, name)
        if value is not None and not 0 < value < 100:
            raise UserError(f"--{name.replace('_', '-')} {value:g} is in percentage points, above 0 and below 100")
    same = ("records", "demonstrations", "max_gap", "gap", "budget", "confidence", "seed")
    return {
        "strides": strides,
        "lengths": tuple(arguments.length or [None]),
        **{name: getattr(arguments, name) for name in same},
    }


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return int(text)


def _compared(arguments: argparse.Namespace) -> tuple[str | None, str | None]:
    return arguments.compare, arguments.compare_name or arguments.model_name


def _backend(place: str, name: str | None, arguments: argparse.Namespace):
    if place.startswith(_URL):
        from weakspots.serving.endpoint import Endpoint

        if name is None:
            raise UserError(f"{place} serves models under names: give the one to ask by --model")
        try:
            extra = json.loads(arguments.extra)
        except ValueError:
            extra = None
        if not isinstance(extra, dict):
            raise UserError(f"--extra {arguments.extra!r} is no JSON object, such as '{{\"cache_prompt\": false}}'")
        return Endpoint(place, name, logprobs=arguments.logprobs, extra=extra, concurrency=arguments.concurrency)
    from weakspots.serving.local import Local

    return Local.load(place, dtype=arguments.dtype, device=arguments.device, top=1)


def _tokenizer(place: str):
    from transformers import AutoTokenizer

    path = Path(place)
    options = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    try:
        folder = str(path.parent) if options else place
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **options)
    except Exception as error:  # transformers raises many kinds
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(f"tokenizer {place} does not load: {reason}") from error


def _save(report, output: Path) -> None:
    from weakspots.audit.figure import draw
    from weakspots.audit.html import page
    from weakspots.building import writing
    from weakspots.figures.style import save

    for name, text in (("report.json", report.to_json()), ("report.html", page(report))):
        with writing(output / name) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    save(draw(report), output / "accuracy.png")


def add(stages, positive) -> None:
    """Adds the command to the parser; `positive` reads a number from 1 on."""
    parser = stages.add_parser("audit", help=audit.__doc__)
    of = parser.add_argument
    of("model", nargs="?", metavar="MODEL", help="folder, hub id or .gguf file; or use --endpoint")
    of("--endpoint", metavar="URL", help="a completions server, such as http://127.0.0.1:8000/v1")
    of("--model", dest="model_name", metavar="NAME", help="the name under which the server knows its model")
    of("--tokenizer", help="folder, hub id or .gguf file of the tokenizer; not needed for a model loaded here")
    of("--stride", nargs="+", default=["auto"], help="tokens; auto: 2 to 16, 32, 64 and 128, as far as they fit")
    of("--length", nargs="+", type=positive, help="tokens of the prompts; the shortest that fits if not given")
    of("--records", type=positive, help="records in a prompt; searched for if not given")
    of("--demonstrations", type=_natural, help="records repeated before the question; searched for if not given")
    of("--max-gap", type=float, help="points: exit status 3 if best minus worst phase is surely more")
    of("--gap", type=float, help="points that the audit is planned to see; --max-gap, or 10, if not given")
    of("--budget", type=positive, help="prompts at most for each backend, the search for a difficulty included")
    of("--confidence", type=float, default=0.95, help="of the verdict and of every interval")
    of("--compare", metavar="MODEL|URL", help="ask the same prompts there too: is it the model or the server?")
    of("--compare-model", dest="compare_name", metavar="NAME", help="name of the model there; --model if not given")
    of("--output", type=Path, default=Path("audit"), help="folder of the report and of all answers; ./audit")
    of("--seed", type=_natural, default=0, help="of words, order and positions")
    of("--dry-run", action="store_true", help="say what it would cost and stop")
    of("--dtype", default="float32", choices=["float32", "bfloat16"], help="of a model loaded here")
    of("--device", default="cpu", help="of a model loaded here: cpu or cuda")
    of("--logprobs", type=_natural, default=1, help="top tokens that a server is asked for; 0 where it gives none")
    of("--extra", default="{}", help='JSON added to every request, such as {"cache_prompt": false}')
    of("--concurrency", type=positive, default=8, help="requests in flight")
    parser.set_defaults(run=audit, positional=(), config=None, log=None)
