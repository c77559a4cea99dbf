"""What the GPU benchmark counts is right, and without a GPU it says so."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from weakspots.attention.memory import Memory

SCRIPT = Path(__file__).parents[2] / "benchmarks/gpu.py"
specification = importlib.util.spec_from_file_location("gpu_benchmark", SCRIPT)
gpu = importlib.util.module_from_spec(specification)
sys.modules[specification.name] = gpu
specification.loader.exec_module(gpu)


def run(*arguments):
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run([sys.executable, SCRIPT, *arguments], env=hidden, capture_output=True, text=True, timeout=120)


def test_without_a_gpu_nothing_is_measured_and_nothing_fails():
    done = run()
    assert (done.returncode, done.stdout) == (0, "no GPU: not measured\n")


def test_the_check_needs_a_gpu_and_says_so_in_one_line():
    done = run("--present")
    assert done.returncode == 2 and "no GPU" in done.stderr
    assert len(done.stdout.splitlines() + done.stderr.splitlines()) == 1


def test_the_check_stops_before_its_tests_where_there_is_no_gpu():
    """make ends with 2 for every failed command; that no test ran shows in the output."""
    makefile = SCRIPT.parent.parent / "Makefile"
    recipe = makefile.read_text().split("\ngpu-check:")[1].split("\n\n")[0].splitlines()
    assert "benchmarks/gpu.py --present" in recipe[1]
    assert "pytest" in recipe[2] and "TRITON_INTERPRET=0" in recipe[2]


@pytest.mark.parametrize("memory", [gpu.MEMORY, Memory(8, 6, 0, "sliding", 5), Memory(8, 4, 4, "sliding", 16)])
def test_counted_pairs_and_flex_attentions_mask_are_what_a_query_sees(memory):
    length = 45
    entries, positions = memory.entry_count(length), torch.arange(length)
    seen = torch.arange(entries) < memory.entries_seen(positions)[:, None]
    visible = torch.cat([seen, memory.local_visible(positions[:, None], positions[None, :])], dim=1)
    assert gpu.visible_pairs(memory, length) == visible.sum()
    assert gpu.visible_pairs(None, length) == length * (length + 1) / 2
    mask = gpu.flex_visible(memory, length)(0, 0, positions[:, None], torch.arange(entries + length)[None, :])
    assert torch.equal(mask, visible)


def test_compressed_attention_needs_about_one_stride_th_of_the_operations():
    compressed, full = (gpu.work(memory, 16384, 16, 1, 128)[0] for memory in (gpu.MEMORY, None))
    assert full.operations / compressed.operations == pytest.approx(8, rel=0.03)
    assert full.operations == 4 * 128 * 16 * (gpu.TOKENS // 16384) * 16384 * 16385 / 2


def test_a_missed_bar_is_named_with_the_next_step():
    assert gpu.missed({2048: 0.3, 4096: 1.0, 16384: 2.4}) == []
    assert gpu.missed({4096: 0.9, 16384: 1.5}) == [
        "T = 4096: 0.90 times SDPA's speed, the bar is 1.0",
        "T = 16384: 1.50 times SDPA's speed, the bar is 2.0",
    ]
    assert "next:" in gpu.NEXT_STEP
