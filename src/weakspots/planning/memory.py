"""Bytes on one GPU while a row of the model table trains: what is kept per parameter, and per token of a micro-batch.

Symbols as in `weakspots.planning.counts`; p is the width of a product's numbers in bytes, 2 in bfloat16 and 4 in
float32. Every process holds the whole model (data parallel), weights and optimiser are float32, and the attention
kernels keep no T x T matrix.
"""

from __future__ import annotations

from weakspots.config import Backbone
from weakspots.model.linear_cross_entropy import BUDGET
from weakspots.model_table import ModelRow
from weakspots.planning.counts import memories, parameters_by_part

FLOAT = 4
"""Bytes of a float32 number: weights, gradients, moments, the residual stream, norms and softmaxes."""


def product_bytes(precision: str) -> int:
    """p, bytes of one number of a product under `training.precision`."""
    return {"bfloat16": 2, "float32": FLOAT}[precision]


def state_bytes(row: ModelRow, backbone: Backbone, vocabulary: int, precision: str) -> dict[str, int]:
    """What is held however many tokens are computed at a time.

    weights    4 bytes per parameter
    gradients  4
    moments    8, AdamW's two
    copies     2 per number of a matrix, which autocast keeps in bfloat16 from forward to backward pass; and the maps of
               the compressor, joined and laid out by offset for one product: p L W E J (D + g)

    With more than one process, the buckets in which gradients are averaged take 4 bytes per parameter more.
    """
    parts = parameters_by_part(row, backbone, vocabulary)
    count, product = sum(parts.values()), product_bytes(precision)
    copies = 0
    if product < FLOAT:
        copies += product * (count - parts["norms"] - parts["compressor"])
    gates = row.gate_scores(backbone.head_width)
    if product < FLOAT or gates:  # without a gate there is nothing to join
        maps = sum(memory.window for memory in memories(row, backbone)) * backbone.width
        copies += product * maps * row.pooled * (backbone.head_width + gates)
    return {"weights": FLOAT * count, "gradients": FLOAT * count, "moments": 2 * FLOAT * count, "copies": copies}


def layer_bytes(row: ModelRow, backbone: Backbone, length: int, precision: str) -> dict[str, float]:
    """What the backward pass of one layer needs of its forward pass, per token of sequences of `length` tokens.

    norms        2 E (4 + 4 + p): of both norms the input, the normalised input, and the copy that products read
    projections  p (H + 2K) D + p (H + K) D: query, key and value; query and key once more, rotated. With query-key norm
                 also 4 (H + K) D, normalised, and in bfloat16 as much again, what the norm read in float32
    attention    p H D + 4 H: what the heads read, and a normaliser for each
    compressor   N / T (p W E + p W J (D + g) + 4 W J g + (4 + 2 p) J D): the windows' hidden states, their
                 payloads and gate logits, the gates, and the pooled entries, normalised and rotated
    mlp          4 p M: both halves, the activated half, and their product
    """
    product, width = product_bytes(precision), backbone.width
    heads, channels = backbone.query_heads, backbone.head_width
    projections = product * (2 * heads + 3 * row.kv_heads) * channels
    if row.qk_norm:
        projections += FLOAT * (heads + row.kv_heads) * channels * (2 if product < FLOAT else 1)
    pooled, gates = row.pooled, row.gate_scores(channels)
    per_offset = product * (width + pooled * (channels + gates)) + FLOAT * pooled * gates
    entries, windows = (FLOAT + 2 * product) * pooled * channels, memories(row, backbone)
    compressor = sum((memory.window * per_offset + entries) * memory.entry_count(length) for memory in windows)
    return {
        "norms": 2 * width * (2 * FLOAT + product),
        "projections": projections,
        "attention": heads * (product * channels + FLOAT),
        "compressor": compressor / (length * backbone.layers),
        "mlp": 4 * product * backbone.mlp_width,
    }


def activation_bytes(
    row: ModelRow, backbone: Backbone, length: int, tokens: int, precision: str, recompute: bool
) -> float:
    """Of a micro-batch of `tokens` tokens in sequences of `length`: what waits for the backward pass, at its peak.

    With a = `layer_bytes` in all and r = 4 E, the residual stream:

    kept        tokens (L a + a + 3 r), every layer's, the gradients of the layer that runs back (as large again), and
                what stands around the layers: the embedded tokens and the last norm
    recomputed  tokens (L r + 2 a + 3 r), the input of every layer instead (activation checkpointing), and one layer
    """
    layer = sum(layer_bytes(row, backbone, length, precision).values())
    residual = FLOAT * backbone.width
    kept = backbone.layers * residual + layer if recompute else backbone.layers * layer
    return tokens * (kept + layer + 3 * residual)


def logits_bytes(backbone: Backbone, vocabulary: int, tokens: int, precision: str) -> int:
    """The output layer and the loss of a micro-batch of `tokens` tokens.

    With float32 logits beyond `BUDGET`, the loss goes through them in chunks of c = `BUDGET` / 4 V tokens:
    c V 4 for the logits, which become their gradient, and in bfloat16 2 c V for what products read; 4 V E for the
    weight's gradient, which waits for the backward pass, and in bfloat16 2 V E for what a chunk adds to it.
    Within it they exist whole: V tokens (p + 4 + 4), the product, the same in float32, and its gradient.
    """
    product = product_bytes(precision)
    if FLOAT * vocabulary * tokens <= BUDGET:
        return vocabulary * tokens * (product + 2 * FLOAT)
    each = FLOAT + (product if product < FLOAT else 0)
    return each * vocabulary * (max(1, BUDGET // (FLOAT * vocabulary)) + backbone.width)
