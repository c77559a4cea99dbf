"""Parameters of a row of the model table, and floating-point operations per token.

Symbols: L layers, E width, H query heads, K KV heads, D channels per head, M width of the MLP, V vocabulary,
W window, S stride, T tokens per sequence, N entries of such a sequence, J pooled vectors per entry (of all branches and
KV heads), g gate scores per pooled vector (1, D for a vector gate, 0 where none is learnt), n the mean number of keys
that a query sees. What a compressor learns and computes is said by its file in `compressors/`; layers may differ.
"""

from __future__ import annotations

import math

import torch

from weakspots.attention.memory import Memory
from weakspots.config import Backbone
from weakspots.model_table import ModelRow


def memories(row: ModelRow, backbone: Backbone) -> list[Memory]:
    """Which windows every layer has; none for full attention."""
    return [row.geometry(layer) for layer in range(backbone.layers)] if row.compressed else []


def parameters_by_part(row: ModelRow, backbone: Backbone, vocabulary: int) -> dict[str, int]:
    """Numbers in every part of the model, all layers together. The tied output layer counts once.

    embedding    V E, also the output layer, which is tied to it
    projections  L (E (H + 2K) D + H D E), query, key and value of the exact tokens, and the output of the heads
    compressor   what its file learns, in every layer: for the paper's L (W E J (D + g) + W J g), C and Z, then b
    mlp          L 3 E M
    norms        L (2 E + 2 D + D) + E: of a layer's two inputs, of queries and keys, of entries, and the last one
    """
    layers, width, channels = backbone.layers, backbone.width, backbone.head_width
    learnt = [row.weights(memory, width, channels).values() for memory in memories(row, backbone)]
    norms = channels if row.compressed and (row.qk_norm or row.post_norm) else 0
    norms += 2 * width + (2 * channels if row.qk_norm else 0)
    return {
        "embedding": vocabulary * width,
        "projections": layers * _projections(row, backbone),
        "compressor": sum(math.prod(shape) for shapes in learnt for shape in shapes),
        "mlp": layers * 3 * width * backbone.mlp_width,
        "norms": layers * norms + width,
    }


def keys_seen(memories: list[Memory], length: int) -> float:
    """n, keys that a query of a text of `length` tokens sees on average over its layers: entries and exact tokens.

    Full attention sees (T + 1) / 2. W8/S8 with 16 exact tokens sees about T / 16 + 16.
    """
    if not memories:
        return (length + 1) / 2
    positions = torch.arange(length)
    seen = [memory.entries_seen(positions) + positions - memory.local_start(positions) + 1 for memory in memories]
    return torch.stack(seen).double().mean().item()


def flops_by_part(row: ModelRow, backbone: Backbone, vocabulary: int, length: int) -> dict[str, float]:
    """Training operations per token in sequences of `length` tokens, by part; their sum is `flops_per_token`.

    A product of a token with a matrix of p numbers takes p multiplications and p additions forward, and twice as many
    backward (for the gradient of its input and of the matrix): 6 p in all.

    projections  6 L (E (H + 2K) D + H D E)
    compressor   6 N / T in every layer times what its file multiplies for an entry: for the paper's
                 W J (E (D + g) + D), the maps of W tokens, then their weighted sum
    attention    6 L 2 H D n, a score and a weighted value of D channels for every head and key seen
    mlp          6 L 3 E M
    output       6 E V
    """
    layers, width = backbone.layers, backbone.width
    channels = backbone.head_width
    windows = memories(row, backbone)
    compressor = sum(row.multiplications(memory, width, channels) * memory.entry_count(length) for memory in windows)
    multiplications = {
        "projections": layers * _projections(row, backbone),
        "compressor": compressor / length,
        "attention": layers * 2 * backbone.query_heads * channels * keys_seen(windows, length),
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
