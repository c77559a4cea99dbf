"""The paper's own curves, for laying over one's own."""

from __future__ import annotations

from weakspots.analysis import paper_numbers
from weakspots.config import PADDINGS


def published_curves() -> dict:
    """Profiles by model and padding, and by model and layer: knockouts, gate preferences by phase, effective numbers.

    Layers are those of the paper's 28-layer models.
    """
    cycled = sorted(paper_numbers.by_model("gate_cycling").items())
    return {
        "caption": paper_numbers.CAPTION,
        "profiles": {
            model: shown
            for model, run in paper_numbers.models().items()
            if (shown := {padding: run[padding]["accuracy"] for padding in PADDINGS if run.get(padding)})
        },
        "knockouts": paper_numbers.by_model("knockout_percent_by_phase"),
        "keys": paper_numbers.by_model("key_gate_share_of_uniform"),
        "values": paper_numbers.by_model("value_gate_share_rolled_back_one"),
        "effective": paper_numbers.by_model("effective_offsets_static_and_per_window"),
        "cycling": {
            "shifts": paper_numbers.gate_cycling_shifts(),
            "models": {model: shown["r2_excluding_boundary"] for model, shown in cycled},
        },
    }
