"""Muon: torch's own on one matrix, the singular values it promises, and maps of offsets as a common and an own part."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import TABLE, build
from small import CORPUS
from torch import nn

from weakspots.config import Muon as MuonSettings
from weakspots.training.optimizers import COEFFICIENTS, Muon, optimizer_for, orthogonalised

OPTIONS = {"muon": True, "factor": 1.0, "weight_decay": 0.1, "offset_decay": 0.0}
MUON = CORPUS.training.model_copy(update={"muon": MuonSettings(rate=10, offset_decay=3, gate_rate=2, gate_bias_rate=5)})


def muon(parameter, **options):
    return Muon([{"params": [parameter], **OPTIONS, **options}], lr=0.02, betas=(0.9, 0.95))


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (5, 5)])
def test_a_matrix_moves_as_under_torchs_muon(shape):
    """Which rounds to bfloat16: three significant digits."""
    torch.manual_seed(1)
    ours = nn.Parameter(torch.randn(shape))
    theirs = nn.Parameter(ours.detach().clone())
    first, second = muon(ours), torch.optim.Muon([theirs], lr=0.02, weight_decay=0.1, momentum=0.95, nesterov=True)
    for _ in range(5):
        ours.grad = torch.randn(shape)
        theirs.grad = ours.grad.clone()
        before = ours.detach().clone()
        first.step(), second.step()
    moved = (ours - before).norm()
    assert (ours - theirs).norm() < 0.05 * moved * 5


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 40), st.integers(1, 40), st.floats(1e-6, 1e6), st.integers(0, 1000))
def test_orthogonalised_keeps_singular_vectors_and_brings_what_matters_near_one(n, rows, columns, scale, seed):
    x = torch.randn(n, rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    u, s, vt = torch.linalg.svd(x, full_matrices=False)
    found = u.mT @ orthogonalised(scale * x) @ vt.mT
    a, b, c = COEFFICIENTS
    expected = s / s.norm(dim=1, keepdim=True)
    for _ in range(5):
        expected = a * expected + b * expected**3 + c * expected**5
    torch.testing.assert_close(found, torch.diag_embed(expected), rtol=1e-4, atol=1e-4)
    large = s > 0.02 * s.norm(dim=1, keepdim=True)
    assert ((expected > 0.5) & (expected < 1.5))[large].all()


def test_matrices_of_zeros_stay_zeros():
    assert not orthogonalised(torch.zeros(2, 3, 5)).any()


def test_maps_of_offsets_move_as_a_common_matrix_and_one_tall_matrix_of_their_own_parts():
    """The reference learns C and D apart, payload = C + D, with torch's rule for either matrix in double precision."""
    torch.manual_seed(2)
    offsets, rows, columns = 3, 4, 2
    payload = nn.Parameter(torch.randn(offsets, rows, columns, dtype=torch.float64))
    common, own = torch.zeros(rows, columns, dtype=torch.float64), payload.detach().clone()
    optimizer = muon(payload, weight_decay=0.0)
    averages = [torch.zeros_like(common), torch.zeros(offsets * rows, columns, dtype=torch.float64)]
    for _ in range(4):
        gradient = torch.randn_like(payload)
        payload.grad = gradient
        optimizer.step()
        for average, g in zip(averages, (gradient.sum(dim=0), gradient.flatten(0, 1)), strict=True):
            average.mul_(0.95).add_(g, alpha=0.05)
            move = orthogonalised((0.05 * g + 0.95 * average)[None])[0]
            target = common if average.shape == common.shape else own.view(-1, columns)
            target.sub_(0.02 * (average.shape[0] / columns) ** 0.5 * move)
        torch.testing.assert_close(payload.detach(), common + own)


def test_decay_acts_on_what_maps_have_in_common_and_on_what_tells_them_apart():
    payload = nn.Parameter(torch.randn(4, 3, 2, dtype=torch.float64))
    before = payload.detach().clone()
    payload.grad = torch.zeros_like(payload)
    muon(payload, weight_decay=0.5, offset_decay=3.0).step()
    common = before.mean(dim=0)
    expected = common * (1 - 0.02 * 0.5) + (before - common) * (1 - 0.02 * 3.0)
    torch.testing.assert_close(payload.detach(), expected)


@pytest.mark.parametrize(
    "name", ["full-1kv", "w8s8-1kv", "w8s8-1kv-uniform", "w8s8-1kv-no-gate-bias", "w8s4-1kv-deepseek"]
)
def test_everything_that_learns_is_in_one_group_and_follows_what_the_configuration_says(name):
    model = build(TABLE[name])
    named = {parameter: key for key, parameter in model.named_parameters()}
    groups = {named[p]: group for group in optimizer_for(model, MUON).param_groups for p in group["params"]}
    assert sorted(groups) == sorted(named.values())
    for key, group in groups.items():
        matrix = key.endswith(("projection.weight", "payload")) or ".mlp." in key
        part = key.rsplit(".", 1)[-1]
        assert group["muon"] == (not ("embed" in key or "norm" in key or part in ("gate", "gate_bias"))), key
        assert group["factor"] == (10 if group["muon"] else {"gate": 2, "gate_bias": 5}.get(part, 1)), key
        if part == "payload":
            assert group["offset_decay"] == (0.1 if "uniform" in name else 3), key
        assert group["weight_decay"] == (0.0 if "norm" in key or part == "gate_bias" else 0.1), (key, matrix)


def test_without_muon_everything_follows_adamw_as_torchs():
    model = build(TABLE["w8s8-1kv"])
    optimizer = optimizer_for(model, CORPUS.training)
    assert type(optimizer) is torch.optim.AdamW
    assert {group["factor"] for group in optimizer.param_groups} == {1.0}


def test_what_follows_adamw_moves_as_without_muon():
    torch.manual_seed(3)
    matrix, vector = nn.Parameter(torch.randn(3, 5)), nn.Parameter(torch.randn(4))
    alone = nn.Parameter(vector.detach().clone())
    mixed = Muon([{"params": [matrix], **OPTIONS}, {"params": [vector], **OPTIONS, "muon": False}], lr=0.01)
    pure = torch.optim.AdamW([alone], lr=0.01, weight_decay=0.1)
    for _ in range(3):
        matrix.grad, vector.grad = torch.randn(3, 5), torch.randn(4)
        alone.grad = vector.grad.clone()
        mixed.step(), pure.step()
        assert matrix.grad is not None
    torch.testing.assert_close(vector, alone)
    matrix.grad = None
    before = matrix.detach().clone()
    mixed.step()
    assert torch.equal(matrix, before)
