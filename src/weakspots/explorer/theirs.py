"""The paper's own curves, for laying over one's own."""

from __future__ import annotations

from weakspots.analysis import paper_numbers
from weakspots.config import PADDINGS

_KNOCKOUT = "_knockout_percent_by_phase"
_KEY, _VALUE = "_key_gate_share_of_uniform", "_value_gate_share_rolled_back_one"
_EFFECTIVE = "_effective_offsets_static_and_per_window"


def published_curves() -> dict:
    """Profiles by model and padding, and by model and layer: knockouts, gate preferences by phase, effective numbers.

    Layers are those of the paper's 28-layer models.
    """
    figures = paper_numbers.figures()
    cycled = figures["gate_cycling_r2_excluding_boundary"]
    profiles = {
        model: {
            padding: [float(value) for value in profile]
            for padding in PADDINGS
            if (profile := paper_numbers.profile(model, padding)) is not None
        }
        for model in figures["models"]
    }
    return {
        "caption": paper_numbers.CAPTION,
        "profiles": profiles,
        "knockouts": _by_layer(_KNOCKOUT),
        "keys": _by_layer(_KEY),
        "values": _by_layer(_VALUE),
        "effective": _by_layer(_EFFECTIVE),
        "cycling": {"shifts": cycled["shifts"], "models": {name: cycled[name] for name in cycled if name != "shifts"}},
    }


def _by_layer(name: str) -> dict[str, dict[str, list[float]]]:
    """By model: what is published under `<model><name>`, of the layers whose numbers are given one by one."""
    found = {}
    for key, layers in paper_numbers.figures().items():
        if key.endswith(name):
            found[key.removesuffix(name)] = {
                layer: values for layer, values in layers.items() if isinstance(values, list)
            }
    return found
