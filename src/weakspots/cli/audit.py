"""`weakspots audit`: the command; `weakspots.audit` does the work."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weakspots.errors import UserError, first_line
from weakspots.files.atomic import writing

if TYPE_CHECKING:  # heavy: imported where they are needed
    from weakspots.audit.report import Report
    from weakspots.serving.answers import Backend

_log = logging.getLogger("weakspots")

_URL = ("http://", "https://")
_HOST = re.compile(r"[\w.-]+:\d+(/|$)")  # a URL without its beginning; no name on the hub has a colon

Place = tuple[str, str | None]
"""What is asked: the URL of a server and a name of a model there, or what `Local.load` takes and None."""


def audit(arguments: argparse.Namespace) -> int:
    """Find periodic weak spots of any model or server: accuracy by the target's position, with a verdict."""
    from weakspots.audit import Question, context_of, planned
    from weakspots.audit import audit as ask
    from weakspots.audit.words import load_tokenizer, vocabulary

    question = _question(arguments)
    asked = Question(**question)  # says what is wrong before anything is loaded
    places, tokenizer, backends = _places(arguments), None, []
    extra = _extra(arguments.extra, places)
    if arguments.dry_run and arguments.tokenizer:
        print(planned(vocabulary(load_tokenizer(arguments.tokenizer)), asked, len(places))[1])
        return 0
    if not arguments.dry_run:
        _make(arguments.output)
    for place in places:
        backends.append(_backend(place, extra, arguments))
        tokenizer = tokenizer or getattr(backends[-1], "tokenizer", None)
    if arguments.tokenizer:
        tokenizer = load_tokenizer(arguments.tokenizer)
    if tokenizer is None:
        raise UserError("prompts are sent as token ids: name the model's tokenizer, a folder or hub id, by --tokenizer")
    if arguments.dry_run:
        print(planned(vocabulary(tokenizer), asked, len(backends), context_of(backends))[1])
        return 0
    report = ask(
        backends[0], tokenizer, compare=backends[1] if backends[1:] else None, output=arguments.output, **question
    )
    with writing(arguments.output / "report.json") as unfinished:  # what was paid for comes first
        unfinished.write_text(report.to_json(), encoding="utf-8")
    print(report, flush=True)
    try:
        _draw(report, arguments.output)
    except Exception as error:  # whatever it is, the verdict stands
        reason = first_line(error)
        _log.warning("the figure could not be drawn (%s); report.json is in %s", reason[:200], arguments.output)
        _log.debug("the figure could not be drawn", exc_info=True)
    else:
        _log.info("report.html, report.json and accuracy.png are in %s", arguments.output)
    return report.exit_status


def _question(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.stride == ["auto"]:
        strides: tuple[int, ...] | str = "auto"
    elif all(stride.isdecimal() for stride in arguments.stride):
        strides = tuple(map(int, arguments.stride))
    else:
        raise UserError(f"--stride {' '.join(arguments.stride)}: give numbers of tokens, or auto alone")
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


def _places(arguments: argparse.Namespace) -> list[Place]:
    """What is audited, then what it is compared with."""
    if (arguments.model is None) == (arguments.endpoint is None):
        raise UserError("name one thing to audit: a folder, hub id or .gguf file, or --endpoint URL with --model")
    served = arguments.endpoint is not None
    places = [_place(arguments.endpoint if served else arguments.model, arguments.model_name, served=served)]
    if arguments.compare is not None:
        places.append(_place(arguments.compare, arguments.compare_name or arguments.model_name))
        if _identity(places[0]) == _identity(places[1]):
            raise UserError(f"--compare {arguments.compare} is what is audited: name another model or server there")
    if arguments.compare_name is not None and (arguments.compare is None or places[1][1] is None):
        raise UserError("--compare-model names a model of the server that is compared: give its URL by --compare")
    return places


def _place(place: str, name: str | None, *, served: bool = False) -> Place:
    from weakspots.serving.server import completions_url

    if served or place.lower().startswith(_URL) or (_HOST.match(place) and not Path(place).exists()):
        url = completions_url(place)
        if name is None:
            raise UserError(f"{place} serves models under names: give the one to ask by --model")
        return url, name
    return place, None


def _identity(place: Place) -> Place:
    where, name = place
    return (os.path.realpath(where) if name is None and Path(where).exists() else where), name


def _extra(text: str | None, places: list[Place]) -> dict[str, object]:
    if text is None:
        return {}
    if all(name is None for _, name in places):
        raise UserError("--extra is for requests to a server, and no server is asked: leave it out")
    try:
        extra = json.loads(text)
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        raise UserError(f"--extra {text!r} is no JSON object, such as '{{\"cache_prompt\": false}}'")
    return extra


def _make(output: Path) -> None:
    """The folder of the report, before the hours of work whose result it is for."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--output {output} cannot be made ({error.strerror}): name another folder") from error
    if not os.access(output, os.W_OK | os.X_OK):
        raise UserError(f"--output {output} cannot be written to: name another folder")


def _backend(place: Place, extra: dict[str, object], arguments: argparse.Namespace) -> Backend:
    where, name = place
    if name is not None:
        from weakspots.serving.endpoint import Endpoint

        return Endpoint(where, name, logprobs=arguments.logprobs, extra=extra, concurrency=arguments.concurrency)
    from weakspots.serving.local import Local

    return Local.load(where, dtype=arguments.dtype, device=arguments.device, top=1)


def _draw(report: Report, output: Path) -> None:
    """Write the page and the figure."""
    from weakspots.audit.figure import draw
    from weakspots.audit.html import page
    from weakspots.figures.style import save

    with writing(output / "report.html") as unfinished:
        unfinished.write_text(page(report), encoding="utf-8")
    save(draw(report), output / "accuracy.png")


def add(stages: argparse._SubParsersAction, positive: Callable[[str], int]) -> None:
    """Add the command to the parser; `positive` reads a number from 1 on."""
    parser = stages.add_parser("audit", help=audit.__doc__)
    option = parser.add_argument
    option("model", nargs="?", metavar="MODEL", help="folder, hub id or .gguf file; or use --endpoint")
    option("--endpoint", metavar="URL", help="a completions server, such as http://127.0.0.1:8000/v1")
    option("--model", dest="model_name", metavar="NAME", help="the name under which the server knows its model")
    option("--tokenizer", help="folder, hub id or .gguf file of the tokenizer; not needed for a model loaded here")
    option("--stride", nargs="+", default=["auto"], help="tokens; auto: 2 to 16, 32, 64 and 128, as far as they fit")
    option("--length", nargs="+", type=positive, help="tokens of the prompts; the shortest that fits if not given")
    option("--records", type=positive, help="records in a prompt; searched for if not given")
    option("--demonstrations", type=_natural, help="records repeated before the question; searched for if not given")
    option("--max-gap", type=float, help="points: exit status 3 if best minus worst phase is surely more")
    option("--gap", type=float, help="points that the audit is planned to see; --max-gap, or 10, if not given")
    option("--budget", type=positive, help="prompts at most for each backend, the search for a difficulty included")
    option("--confidence", type=float, default=0.95, help="of the verdict and of every interval")
    option("--compare", metavar="MODEL|URL", help="ask the same prompts there too: is it the model or the server?")
    option("--compare-model", dest="compare_name", metavar="NAME", help="name of the model there; --model if not given")
    option("--output", type=Path, default=Path("audit"), help="folder of the report and of all answers; ./audit")
    option("--seed", type=_natural, default=0, help="of words, order and positions")
    option("--dry-run", action="store_true", help="say what it would cost and stop")
    option("--dtype", default="float32", choices=["float32", "bfloat16"], help="of a model loaded here")
    option("--device", default="cpu", help="of a model loaded here: cpu or cuda")
    option("--logprobs", type=_natural, default=1, help="top tokens that a server is asked for; 0 where it gives none")
    option("--extra", help='JSON added to every request, such as {"cache_prompt": false}')
    option("--concurrency", type=positive, default=8, help="requests in flight")
    parser.set_defaults(run=audit, positional=(), config=None, log=None)
