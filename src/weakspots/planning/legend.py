"""How the numbers of a plan come about, for its reader; what is assumed is called so."""

from __future__ import annotations

from collections.abc import Sequence

from weakspots.model.linear_cross_entropy import BUDGET
from weakspots.planning.costs import Assumptions, CorpusPlan

_SYMBOLS = """L layers, E width, H query heads, K KV heads, D channels per head, M width of the MLP, V vocabulary, W
    window, S stride, T tokens per sequence, N entries of one (about T / S), R branches (2, tied 1), g gate scores
    (scalar 1, vector D, uniform 0), P maps (W, per half 2), n keys that a query sees on average (full attention
    (T + 1) / 2, W8/S8 about T / 16 + 16). GiB = 2^30 bytes, GB = 10^9."""
_PARAMETERS = """parameters = V E + L (E (H + 2K) D + H D E + 3 E M) + compressor's + norms, as the built model has
    them; compressor's = L (P E R K (D + g) + W R K g)."""
_OPERATIONS = """FLOP/token = 6 (L (E (H + 2K) D + H D E + 3 E M) + L W R K (E (D + g) + D) N / T + 2 L H D n + E V), 2
    forward and 4 backward per multiplication. Nothing is recomputed, only visible scores count, the loss is on all
    tokens."""
_TIME = """tokens/s/GPU = mfu x peak / (FLOP/token); GPU-hours = tokens x FLOP/token / (mfu x peak). Assumed, not
    measured: mfu {mfu:g} (--mfu) of a peak of {peak:g} TFLOP/s (--peak-tflops; 989 is the data sheet of an H100, dense
    bfloat16). Recomputing is a third more work, left out here."""
_STATE = """state, bytes per parameter: 4 weights, 4 gradients, 8 AdamW's moments, all float32, and with bfloat16 2 for
    the copy that products read (of the compressor's, W / P times as much). Several processes need 4 more, for averaging
    gradients."""
_ACTIVATIONS = """activations wait for the backward pass: of one micro-batch on one GPU, {batches}. recomputed: with
    activation checkpointing, only the inputs of the layers and one whole layer. logits: at most {budget:,} MiB in
    float32 at once, their copies, and the gradient of the output layer. Assumed, not measured: the whole model on each
    GPU, kernels without a T x T matrix. The CUDA context and fragmentation, about 10 %, come on top."""
_DISK = """weights = 4 bytes per parameter for the model and every kept step; to resume = 3 x 12 bytes per parameter,
    only while it trains; tables = the rows at the width of their columns, before compression."""


def legend(plans: Sequence[CorpusPlan], assumptions: Assumptions) -> list[str]:
    """One paragraph per group of columns, each one line."""
    batches = ", ".join(
        f"{plan.micro_batch:,} tokens ({plan.corpus}, {'recomputed' if plan.recompute else 'all kept'} as configured)"
        for plan in plans
    )
    values = {"mfu": assumptions.mfu, "peak": assumptions.peak_tflops, "batches": batches, "budget": BUDGET >> 20}
    texts = (_SYMBOLS, _PARAMETERS, _OPERATIONS, _TIME, _STATE, _ACTIVATIONS, _DISK)
    return [" ".join(text.format(**values).split()) for text in texts]
