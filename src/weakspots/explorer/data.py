"""Everything the page shows, as plain data for JSON. What has not been run is absent or None, never zero."""

from __future__ import annotations

from weakspots.analysis import phase_losses
from weakspots.analysis.results import Results
from weakspots.explorer import claims, colours, deepseek, lookups, mechanism, theirs
from weakspots.figures import style
from weakspots.model_table import ModelRow
from weakspots.task.records import animals, names
from weakspots.workflow.layout import Layout

WORDS = 24
"""Words of the window illustration: two windows of the longest usual gate."""


def collect(results: Results, layout: Layout) -> dict:
    """The page's data: the results, the paper's figures beside them, and the claims of the folder of `layout`."""
    return {
        "scale": results.scale,
        "modulus": modulus(results),
        "judgedFrom": phase_losses.RETRIEVABLE,  # percent: at phases below, changes are not judged
        "confidence": results.statistics.confidence,
        "bootstrap": results.statistics.bootstrap,
        "colours": colours.all_colours(),
        "paddings": dict(style.PADDING_NAMES),
        "models": {model: about(results, model, row) for model, row in results.models.items()},
        "lookups": lookups.measure(results),
        "knockouts": mechanism.knockouts(results),
        "gates": mechanism.gate_statistics(results),
        "cycling": mechanism.cycles(results),
        "deepseek": deepseek.measure(results),
        "published": theirs.published_curves(),
        "words": illustration(),
        "claims": claims.read(results, layout),
    }


def about(results: Results, model: str, row: ModelRow) -> dict:
    """What a run is."""
    losses = {corpus: round(losses[model], 4) for corpus, losses in results.losses.items() if model in losses}
    return {
        "label": results.label(model),
        "compressed": row.compressed,
        "window": row.window if row.compressed else None,
        "stride": row.period,
        "kvHeads": row.kv_heads,
        "gate": row.gate_kind,
        "tied": row.tied,
        "like": results.full_attention_like(model) if row.compressed else None,
        "losses": losses,
    }


def modulus(results: Results) -> int | None:
    """Positions by which accuracy is grouped; None before any lookup."""
    return next((outcomes.shape[1] for outcomes in results.outcomes.values()), None)


def illustration() -> list[str]:
    """Words of the lookup, keys and names in turn, for the window illustration."""
    return [word for record in zip(animals(), names(), strict=False) for word in record][:WORDS]
