"""Parameters are those of the built model; operations are those that torch counts, but for what the plan leaves out."""

from __future__ import annotations

import pytest
import torch
from rows import OVERLAPPING_TAIL, ROOT, TABLE
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from weakspots.attention import naive
from weakspots.config import Backbone, load
from weakspots.model import layers
from weakspots.model.configuration import WeakSpotsConfig
from weakspots.model.transformer import WeakSpotsForCausalLM
from weakspots.model_table import ModelRow, model_row
from weakspots.planning import counts

PAPER = load(ROOT / "config.yaml", ROOT / "workflow/scales/paper.yaml").backbone
SMALL = Backbone(layers=3, width=64, query_heads=8, head_width=16, mlp_width=160, rope_base=1e4, initial_std=0.02)
VOCABULARY, LENGTH = 500, 256
ROWS = {**TABLE, "w8s6-2kv-tail (not of the paper)": OVERLAPPING_TAIL}
EVERY_ROW = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)


def built(row: ModelRow, backbone: Backbone, vocabulary: int) -> int:
    """Parameters of the model itself, which takes no memory on this device."""
    with torch.device("meta"):
        model = WeakSpotsForCausalLM(WeakSpotsConfig.of(row, backbone, vocabulary))
    return sum(parameter.numel() for parameter in model.parameters())


@EVERY_ROW
def test_parameters_are_exactly_those_of_the_built_model_at_the_papers_size(row: ModelRow) -> None:
    assert sum(counts.parameters_by_part(row, PAPER, 151_669).values()) == built(row, PAPER, 151_669)


@EVERY_ROW
def test_parameters_are_exactly_those_of_the_built_model_at_another_shape(row: ModelRow) -> None:
    assert sum(counts.parameters_by_part(row, SMALL, 61).values()) == built(row, SMALL, 61)


def test_full_attention_with_8_kv_heads_has_the_parameters_of_qwen3_0_6b() -> None:
    """596,049,920 is what the published checkpoint holds, with its embedding padded to 151,936 rows."""
    assert (
        sum(counts.parameters_by_part(model_row(compressor="none", kv_heads=8), PAPER, 151_936).values()) == 596_049_920
    )


@EVERY_ROW
@pytest.mark.parametrize("length", [5, 47, 96])
def test_keys_seen_are_the_visible_ones_of_the_mask(row: ModelRow, length: int) -> None:
    positions = torch.arange(length)
    if row.compressed:
        memory = row.geometry(0)
        entries = torch.arange(memory.entry_count(length)) < memory.entries_seen(positions)[:, None]
        visible = entries.sum() + memory.local_visible(positions[:, None], positions).sum()
    else:
        visible = torch.ones(length, length).tril().sum()
    assert counts.keys_seen(counts.memories(row, SMALL), length) == pytest.approx(visible.item() / length)


@EVERY_ROW
def test_operations_are_those_that_torch_counts(row: ModelRow, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch counts products, and the plan differs from it in three known ways, all put right here.

    The reference attention multiplies every query with every key, the plan counts visible ones; the weighted sum of
    payloads is no product, the plan counts it; and the last of T tokens has no loss, so the last layer's output, its
    MLP and the logits are computed for T - 1, which is left as the difference of at most 1 / T.
    """

    def dense(queries, keys, values, entry_keys, entry_values, memory):
        positions = torch.arange(queries.shape[2])
        return naive.attend(queries, positions, keys, values, positions, entry_keys, entry_values, memory)

    monkeypatch.setattr(layers.choose, "attend", dense)
    torch.manual_seed(0)
    model = WeakSpotsForCausalLM(WeakSpotsConfig.of(row, SMALL, VOCABULARY))
    inputs = torch.randint(0, VOCABULARY, (2, LENGTH))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(inputs, labels=inputs).loss.backward()
    counted = counter.get_total_flops() / inputs.numel()

    parts = counts.flops_by_part(row, SMALL, VOCABULARY, LENGTH)
    keys = LENGTH + (row.geometry(0).entry_count(LENGTH) if row.compressed else 0)
    parts["attention"] *= keys / counts.keys_seen(counts.memories(row, SMALL), LENGTH)
    if row.compressed:
        entries = row.geometry(0).entry_count(LENGTH) / LENGTH
        pooled = row.pooled * SMALL.head_width
        parts["compressor"] -= 6 * SMALL.layers * row.window * pooled * entries
    assert sum(parts.values()) == pytest.approx(counted, rel=1 / LENGTH)
    assert counts.flops_per_token(row, SMALL, VOCABULARY, LENGTH) < counted


def test_operations_of_full_attention_grow_with_the_length_and_compressed_ones_a_stride_less() -> None:
    def attention(row: ModelRow, length: int) -> float:
        return counts.flops_by_part(row, PAPER, 151_669, length)["attention"]

    full, compressed = model_row(compressor="none"), model_row()
    assert attention(full, 65_536) / attention(full, 4_096) == pytest.approx(16, rel=0.01)
    assert attention(full, 65_536) / attention(compressed, 65_536) == pytest.approx(8, rel=0.01)
