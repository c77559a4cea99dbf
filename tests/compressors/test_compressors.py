"""The compressor computes equations 1 and 2 of the paper, and DeepSeek-V4's arithmetic for the DeepSeek-style rows."""

import pytest
import torch
from rows import TABLE, build
from transformers import DeepseekV4Config
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as deepseek

from weakspots.model.compressor import Compressor
from weakspots.model.configuration import WeakSpotsConfig
from weakspots.model.layers import Attention
from weakspots.model_table import model_row

WIDTH, HEAD = 24, 8


def compressor(row, seed=0):
    torch.manual_seed(seed)
    module = Compressor(row, 0, WIDTH, HEAD).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


def by_hand(module, row, hidden, branch, head, j):
    """Entry j of one branch and head, written as the paper writes it."""
    scores, payloads = [], []
    width, lead = row.gate_scores(HEAD), module.memory.lead
    for i in range(row.window):
        if j * row.stride + i < lead:
            continue  # before the text
        h = hidden[j * row.stride + i - lead]
        part = i // row.stride if row.compressor == "deepseek" else i
        first = (branch * row.kv_heads + head) * HEAD
        payloads.append(module.payload[part][:, first : first + HEAD].T @ h)
        if not row.gate_weights:
            scores.append(torch.zeros(1, dtype=h.dtype))
            continue
        first = (branch * row.kv_heads + head) * width
        score = module.gate[part][:, first : first + width].T @ h
        scores.append(score if not row.gate_bias else score + module.gate_bias[i][first : first + width])
    alpha = torch.softmax(torch.stack(scores), dim=0)
    return (alpha * torch.stack(payloads)).sum(0)


@pytest.mark.parametrize(
    "row",
    [
        model_row(),
        model_row(stride=4, kv_heads=2),
        model_row(stride=6),
        model_row(window=12, stride=12, kv_heads=4),
        model_row(gate="vector", kv_heads=2),
        model_row(compressor="uniform"),
        model_row(gate_bias=False),
        model_row(tied=True),
        model_row(window=4, stride=1),
        TABLE["w8s4-1kv-deepseek"],
        TABLE["w8s4-1kv-deepseek-scalar"],
    ],
    ids=lambda row: row.label(),
)
def test_an_entry_is_the_gated_sum_of_the_windows_payloads(row):
    module, hidden = compressor(row), torch.randn(2, 37, WIDTH, dtype=torch.float64)
    key, value = module(hidden)
    entries = (37 + module.memory.lead - row.window) // row.stride + 1
    assert key.shape == value.shape == (2, row.kv_heads, entries, HEAD)
    for batch in range(2):
        for head in range(row.kv_heads):
            for j in range(entries):
                expected = by_hand(module, row, hidden[batch], 0, head, j)
                torch.testing.assert_close(key[batch, head, j], expected)
                expected = by_hand(module, row, hidden[batch], 0 if row.tied else 1, head, j)
                torch.testing.assert_close(value[batch, head, j], expected)


def test_scores_sum_to_one_over_the_window_and_are_flat_for_a_uniform_gate():
    hidden = torch.randn(3, 41, WIDTH, dtype=torch.float64)
    for row in (model_row(gate="vector", stride=6), model_row(kv_heads=2), model_row(compressor="uniform")):
        scores = compressor(row).scores(hidden)
        torch.testing.assert_close(scores.sum(0), torch.ones_like(scores[0]))
        if row.compressor == "uniform":
            assert (scores == 1 / 8).all()


def test_a_text_shorter_than_a_window_has_no_entries():
    key, value = compressor(model_row())(torch.randn(2, 7, WIDTH, dtype=torch.float64))
    assert key.shape[2] == value.shape[2] == 0


def test_the_deepseek_style_kernel_equals_transformers_deepseek_v4():
    """Pooling, norm and rotation of transformers' CSA compressor, from the same weights."""
    head, stride = 32, 4
    rope = {"rope_theta": 10_000.0, "partial_rotary_factor": 0.25, "rope_type": "default"}
    theirs_config = DeepseekV4Config(
        hidden_size=WIDTH,
        head_dim=head,
        num_attention_heads=2,
        num_hidden_layers=1,
        layer_types=["compressed_sparse_attention"],
        mlp_layer_types=["moe"],
        compress_rates={"compressed_sparse_attention": stride, "heavily_compressed_attention": 8},
        rope_parameters={"main": dict(rope), "compress": dict(rope)},
        index_topk=64,
        index_head_dim=head,
    )
    torch.manual_seed(0)
    theirs = deepseek.DeepseekV4CSACompressor(theirs_config)
    row = TABLE["w8s4-1kv-deepseek"].model_copy(update={"rope_fraction": 0.25})
    shape = WeakSpotsConfig(
        hidden_size=WIDTH,
        head_dim=head,
        num_attention_heads=2,
        row=row.model_dump(),
        rope_base=10_000.0,
        rms_norm_eps=theirs_config.rms_norm_eps,
    )
    ours = Attention(shape, 0)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_()
        # Their Ca (first half of the window) and Cb (second half) are our two parts.
        for part in range(2):
            mine = slice(part * head, (part + 1) * head)
            ours.compressor.payload[part] = theirs.kv_proj.weight[mine].T
            ours.compressor.gate[part] = theirs.gate_proj.weight[mine].T
            ours.compressor.gate_bias[part * stride : (part + 1) * stride] = theirs.position_bias[:, mine]
        ours.entry_norm.copy_(theirs.kv_norm.weight)
        hidden = torch.randn(2, 30, WIDTH)
        expected, _ = theirs(
            hidden, torch.zeros(2, 30, theirs_config.q_lora_rank), torch.arange(30)[None].expand(2, -1), None, 0
        )
        found, _ = ours.entries(hidden)
    assert found.shape == expected.shape == (2, 1, 7, head)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_every_row_of_the_table_has_the_gates_its_name_says():
    for row in TABLE.values():
        if not row.compressed:
            continue
        module = build(row).layers[0].attention.compressor
        assert hasattr(module, "gate") == (row.compressor != "uniform")
        assert row.branches == (1 if row.tied else 2)
        assert module.payload.shape[0] == (2 if row.compressor == "deepseek" else row.window)
