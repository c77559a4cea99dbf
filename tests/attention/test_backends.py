"""One dispatcher decides what computes attention and pooling; whatever it chooses gives the same model."""

import inspect
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from kernels import COMPILED, DEVICE, error, poison
from rows import OVERLAPPING_TAIL, ROOT, TABLE, VOCABULARY, build

from weakspots.attention import blocked, choose, pooling, triton_attend, triton_pool
from weakspots.config import load
from weakspots.errors import UserError
from weakspots.workflow import stage_dependencies


@pytest.fixture(autouse=True)
def selection(monkeypatch):
    """What a test selects ends with it."""
    monkeypatch.setattr(choose, "selected", "auto")
    monkeypatch.setattr(choose, "logged", None)


def loss_and_gradients(model, tokens):
    loss = model(tokens, labels=tokens).loss
    return loss, dict(
        zip(dict(model.named_parameters()), torch.autograd.grad(loss, list(model.parameters())), strict=True)
    )


@pytest.mark.parametrize(
    "row",
    [TABLE["w8s8-1kv"], TABLE["w8s4-1kv-deepseek"], TABLE["w8s8-1kv-tied"], OVERLAPPING_TAIL],
    ids=lambda row: row.label(),
)
def test_a_model_has_the_same_loss_and_gradients_with_both_backends(row, monkeypatch):
    model, tokens = build(row).to(DEVICE), torch.randint(0, VOCABULARY, (2, 21), device=DEVICE)
    choose.select("torch", DEVICE)
    expected, reference = loss_and_gradients(model, tokens)
    choose.select("triton", DEVICE)
    poison(monkeypatch)
    used = []
    for kernel, name in ((triton_attend, "attend"), (triton_pool, "pool")):
        run = getattr(kernel, name)
        monkeypatch.setattr(kernel, name, lambda *x, run=run, name=name: used.append(name) or run(*x))
    loss, gradients = loss_and_gradients(model, tokens)
    assert used.count("attend") == used.count("pool") == len(model.layers)
    assert error(loss, expected) < 1e-6
    for name, gradient in gradients.items():
        assert error(gradient, reference[name]) < 2e-5, name


@pytest.mark.parametrize("name", ["w8s8-1kv-uniform", "w8s8-1kv"])
def test_texts_without_entries_and_gates_that_are_not_learnt_work_too(name):
    model, tokens = build(TABLE[name]).to(DEVICE), torch.randint(0, VOCABULARY, (1, 7), device=DEVICE)
    choose.select("torch", DEVICE)
    expected = model(tokens).logits
    choose.select("triton", DEVICE)
    assert error(model(tokens).logits, expected) < 1e-5


def test_float64_stays_with_torch():
    choose.select("triton", DEVICE)
    model = build(TABLE["w8s8-1kv"]).double().to(DEVICE)
    tokens = torch.randint(0, VOCABULARY, (1, 20), device=DEVICE)
    choose.select("torch", DEVICE)
    expected = model(tokens).logits
    choose.select("triton", DEVICE)
    assert torch.equal(model(tokens).logits, expected)


def test_a_cpu_uses_torch_unless_told_otherwise(caplog):
    caplog.set_level(logging.INFO, "weakspots")
    choose.select("auto", "cpu")
    assert not choose.on_triton(torch.device("cpu"))
    choose.select("auto", "cpu")
    assert [record.message for record in caplog.records] == [
        "attention backend: torch, in blocks (auto, device is cpu)"
    ]


@pytest.mark.parametrize(
    ("backend", "installed", "words"),
    [
        ("auto", True, "triton (auto, device is cuda)"),
        (
            "auto",
            False,
            "torch, by the definition with a T x T mask (auto, device is cuda and triton is not installed)",
        ),
        ("torch", True, "torch, by the definition with a T x T mask (as configured)"),
        ("triton", True, "triton (as configured)"),
    ],
)
def test_a_gpu_uses_triton_where_it_is_installed_and_says_why(backend, installed, words, caplog, monkeypatch):
    monkeypatch.setattr(choose, "_INSTALLED", installed)
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    caplog.set_level(logging.INFO, "weakspots")
    choose.select(backend, "cuda")
    assert caplog.records[0].message == f"attention backend: {words}"


def test_triton_on_a_cpu_is_refused_outside_the_interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with pytest.raises(UserError, match="set backend to auto") as refusal:
        choose.select("triton", "cpu")
    assert len(str(refusal.value).splitlines()) <= 2


def test_triton_that_is_not_installed_is_refused(monkeypatch):
    monkeypatch.setattr(choose, "_INSTALLED", False)
    with pytest.raises(UserError, match="not installed"):
        choose.select("triton", "cuda")


def test_another_backend_repeats_no_job():
    config = load(ROOT / "config.yaml")
    other = config.model_copy(update={"backend": "torch"})
    assert config.backend == "auto"
    assert stage_dependencies.train_settings(config, "recall", "w8s8-1kv") == stage_dependencies.train_settings(
        other, "recall", "w8s8-1kv"
    )
    for settings in (
        stage_dependencies.lookup_settings,
        stage_dependencies.cycling_settings,
        stage_dependencies.shown_settings,
    ):
        assert settings(config) == settings(other)


def test_choosing_imports_no_kernel_before_one_is_used():
    """So a machine without triton can run everything else."""
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "from weakspots.attention import choose, pooling\n"
        "choose.select('auto', 'cpu')\n"
        "assert not [name for name in sys.modules if 'triton_' in name and name.startswith('weakspots')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.skipif(COMPILED, reason="compiled and run by the other tests")
@pytest.mark.parametrize("capability", ["80", "90", "100"], ids=["A100", "H100", "B200"])
def test_every_program_compiles_for_a_gpu_that_is_not_here(capability):
    """To machine code, for every kind of size, within the shared memory that smaller cards have too."""
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    script = Path(__file__).with_name("compiled_for.py")
    done = subprocess.run(
        [sys.executable, script, capability], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["forward", "backward_queries", "backward_keys", "_forward", "_backward"]


def test_the_backends_take_the_same_arguments():
    for reference, kernel in ((blocked.attend, triton_attend.attend), (pooling.pool, triton_pool.pool)):
        assert list(inspect.signature(reference).parameters) == list(inspect.signature(kernel).parameters)
