"""A plan as a reader sees it: three tables per corpus, totals, and how everything was counted."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from weakspots.config import Config
from weakspots.files import markdown
from weakspots.planning.costs import Assumptions, CorpusPlan
from weakspots.planning.legend import legend

WIDTH = 120
"""Columns of the text below the tables."""
_GIB, _GB = 1 << 30, 1e9
_Table = tuple[list[str], list[list[str]]]


def report(config: Config, plans: Sequence[CorpusPlan], assumptions: Assumptions, as_markdown: bool = False) -> str:
    """The whole report, plain text for a terminal or Markdown."""
    shape = config.backbone
    heading = (
        f"Scale {config.scale}: {shape.layers} layers, width {shape.width:,}, {shape.query_heads} query heads of "
        f"{shape.head_width}, MLP {shape.mlp_width:,}"
    )
    blocks = [_prose(heading)]
    for plan in plans:
        blocks += [_prose(_training(plan, assumptions))]
        blocks += [_table(*table, as_markdown) for table in (_compute(plan, assumptions), _memory(plan), _disk(plan))]
    blocks += [
        _prose(_totals(plans, assumptions)),
        "\n".join(_prose(line, "- ") for line in legend(plans, assumptions)),
    ]
    return "\n\n".join(blocks) + "\n"


def _training(plan: CorpusPlan, assumptions: Assumptions) -> str:
    speed = plan.tokens / (assumptions.days * 86_400)
    return (
        f"Corpus {plan.corpus}, {len(plan.costs)} runs. Each: {plan.steps:,} steps of {plan.batch:,} tokens = "
        f"{plan.tokens:,} tokens in sequences of {plan.length:,}, vocabulary {plan.vocabulary:,}, {plan.precision}. "
        f"To finish in {assumptions.days:g} days, one run needs {_number(speed)} tokens/s, and all of them at "
        f"the same time {_number(speed * len(plan.costs))} tokens/s."
    )


def _compute(plan: CorpusPlan, assumptions: Assumptions) -> _Table:
    columns = ["run", "label", "parameters", "compressor's", "GFLOP/token", "tokens/s/GPU", "GPU-hours"]
    columns.append(f"GPUs, {assumptions.days:g} days")
    rows = [
        [
            cost.model,
            cost.label,
            f"{cost.parameters:,}",
            f"{cost.compressor:,}",
            _number(cost.flops_per_token / 1e9),
            _number(assumptions.flops_per_second / cost.flops_per_token),
            _number(cost.gpu_hours),
            _number(cost.gpu_hours / (24 * assumptions.days)),
        ]
        for cost in plan.costs
    ]
    return columns, rows


def _memory(plan: CorpusPlan) -> _Table:
    """GiB on one GPU; the last two columns add up what is held at once."""
    columns = ["run", "state GiB", "logits GiB", "activations GiB", "recomputed GiB", "in all", "in all, recomputed"]
    rows = []
    for cost in plan.costs:
        state, logits, kept, recomputed = (cost.memory[k] for k in ("state", "logits", "activations", "recomputed"))
        sizes = [state, logits, kept, recomputed, state + logits + kept, state + logits + recomputed]
        rows.append([cost.model, *(_number(size / _GIB) for size in sizes)])
    return columns, rows


def _disk(plan: CorpusPlan) -> _Table:
    columns = ["run", "weights GB", "to resume GB", "lookup rows", "knockout rows", "cycling rows", "tables GB"]
    rows = [
        [
            cost.model,
            _number(cost.disk["kept"] / _GB),
            _number(cost.disk["resume"] / _GB),
            *(f"{cost.rows.get(kind, 0):,}" for kind in ("lookup", "knockout", "cycling")),
            _number(cost.disk["tables"] / _GB),
        ]
        for cost in plan.costs
    ]
    return columns, rows


def _totals(plans: Sequence[CorpusPlan], assumptions: Assumptions) -> str:
    costs = [cost for plan in plans for cost in plan.costs]
    hours = sum(cost.gpu_hours for cost in costs)
    tokens = sum(plan.tokens * len(plan.costs) for plan in plans)
    shards = sum(plan.shards for plan in plans)
    kept, tables = (sum(cost.disk[key] for cost in costs) for key in ("kept", "tables"))
    resume = max(cost.disk["resume"] for cost in costs)
    return (
        f"All {len(costs)} runs: {_number(tokens / 1e9)}B tokens, {_number(hours)} GPU-hours "
        f"({_number(hours / (24 * assumptions.days))} GPUs for {assumptions.days:g} days). On disk "
        f"{_number((shards + kept + tables) / _GB)} GB: token shards {_number(shards / _GB)}, weights "
        f"{_number(kept / _GB)}, tables {_number(tables / _GB)}; and up to {_number(resume / _GB)} GB more for every "
        "run that is training."
    )


def _table(columns: list[str], rows: list[list[str]], as_markdown: bool) -> str:
    """Words to the left, numbers to the right."""
    numbers = range(2 if columns[1] == "label" else 1, len(columns))
    if as_markdown:
        return "\n".join(markdown.table(columns, rows, numbers, equal_widths=True))
    header, *lines = markdown.padded([columns, *rows], numbers)
    rule = ["-" * len(cell) for cell in header]
    return "\n".join("  ".join(cells).rstrip() for cells in (header, rule, *lines))


def _prose(text: str, bullet: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet), break_on_hyphens=False
    )


def _number(value: float) -> str:
    """Three digits, or all before the decimal point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".") if value else "0"
