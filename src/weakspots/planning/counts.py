"""Parameters of a row of the model table, and floating-point operations per token.

Symbols: L layers, E width, H query heads, K KV heads, D channels per head, M width of the MLP, V vocabulary,
W window, S stride, T tokens per sequence, N entries of such a sequence, R branches (2, or 1 where key and value are
tied), g gate scores per head (1, D for a vector gate, 0 for a uniform one), P maps of a compressor (W, or 2 where the
offsets of either half share theirs), n the mean number of keys that a query sees.
"""

from __future__ import annotations

import torch

from weakspots.attention.memory import Memory
from weakspots.config import Backbone
from weakspots.model_table import ModelRow


def branches(row: ModelRow) -> int:
    """R, pooled vectors per KV head and entry."""
    return 1 if row.tied else 2


def gate_scores(row: ModelRow, backbone: Backbone) -> int:
    """g, learned gate scores per KV head, branch and offset."""
    return {"uniform": 0, "scalar": 1, "vector": backbone.head_width}[row.gate]


def parameters_by_part(row: ModelRow, backbone: Backbone, vocabulary: int) -> dict[str, int]:
    """Numbers in every part of the model, all layers together; their sum is `parameters`.

    embedding    V E, also the output layer, which is tied to it
    projections  L (E (H + 2K) D + H D E), query, key and value of the exact tokens, and the output of the heads
    compressor   L (P E R K (D + g) + W R K g), payload maps C and gates Z, then gate biases b where the row has them
    mlp          L 3 E M
    norms        L (2 E + 2 D + D) + E: of a layer's two inputs, of queries and keys, of entries, and the last one
    """
    layers, width, channels = backbone.layers, backbone.width, backbone.head_width
    compressor = norms = 0
    if row.compressed:
        maps = row.window // (row.stride if row.offset_maps == "per_half" else 1)
        pooled, gates = branches(row) * row.kv_heads, gate_scores(row, backbone)
        compressor = maps * width * pooled * (channels + gates)
        compressor += row.window * pooled * gates if row.gate_bias else 0
        norms += channels if row.qk_norm or row.post_norm else 0
    norms += 2 * width + (2 * channels if row.qk_norm else 0)
    return {
        "embedding": vocabulary * width,
        "projections": layers * _projections(row, backbone),
        "compressor": layers * compressor,
        "mlp": layers * 3 * width * backbone.mlp_width,
        "norms": layers * norms + width,
    }


def parameters(row: ModelRow, backbone: Backbone, vocabulary: int) -> int:
    """How many numbers the model learns; the tied output layer counts once."""
    return sum(parameters_by_part(row, backbone, vocabulary).values())


def keys_seen(row: ModelRow, length: int) -> float:
    """n, keys that a query of a text of `length` tokens sees on average: entries and exact tokens.

    Full attention sees (T + 1) / 2. W8/S8 with 16 exact tokens sees about T / 16 + 16.
    """
    if not row.compressed:
        return (length + 1) / 2
    memory, positions = Memory.of(row), torch.arange(length)
    local = positions - memory.local_start(positions) + 1
    return (memory.entries_seen(positions) + local).double().mean().item()


def flops_by_part(row: ModelRow, backbone: Backbone, vocabulary: int, length: int) -> dict[str, float]:
    """Training operations per token in sequences of `length` tokens, by part; their sum is `flops_per_token`.

    A product of a token with a matrix of p numbers takes p multiplications and p additions forward, and twice as many
    backward (for the gradient of its input and of the matrix): 6 p in all.

    projections  6 L (E (H + 2K) D + H D E)
    compressor   6 L W E R K (D + g) N / T, every entry maps its W tokens, then 6 L W R K D N / T for their weighted sum
    attention    6 L 2 H D n, a score and a weighted value of D channels for every head and key seen
    mlp          6 L 3 E M
    output       6 E V
    """
    layers, width = backbone.layers, backbone.width
    channels = backbone.head_width
    compressor = 0.0
    if row.compressed:
        entries = Memory.of(row).entry_count(length) / length
        pooled, gates = branches(row) * row.kv_heads, gate_scores(row, backbone)
        compressor = row.window * pooled * (width * (channels + gates) + channels) * entries
    multiplications = {
        "projections": layers * _projections(row, backbone),
        "compressor": layers * compressor,
        "attention": layers * 2 * backbone.query_heads * channels * keys_seen(row, length),
        "mlp": layers * 3 * width * backbone.mlp_width,
        "output": width * vocabulary,
    }
    return {part: 6.0 * count for part, count in multiplications.items()}


def flops_per_token(row: ModelRow, backbone: Backbone, vocabulary: int, length: int) -> float:
    """Training operations per token, forward and backward, with the loss on all tokens: the model's own.

    What an implementation adds is left out, so that dividing by it would not flatter it: nothing is recomputed
    (activation checkpointing adds about a third, a flash kernel's backward pass half a forward pass of attention),
    and of a causal score matrix only what is visible counts. Norms, rotations, softmaxes and SwiGLU are left out as
    well; they are less than 1 % at the paper's size.
    """
    return sum(flops_by_part(row, backbone, vocabulary, length).values())


def _projections(row: ModelRow, backbone: Backbone) -> int:
    """Numbers in the projections of one layer's attention."""
    heads = backbone.query_heads + 2 * row.kv_heads
    return (heads + backbone.query_heads) * backbone.head_width * backbone.width
