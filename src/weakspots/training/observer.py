"""What is looked at while a model trains: its gates, and its weights, at chosen steps (the paths of Figure 4)."""

from __future__ import annotations

from pathlib import Path

import torch

from weakspots.config.corpus import Training
from weakspots.data.shards import Sequences
from weakspots.mechanism.gate_statistics import gate_statistics
from weakspots.model.transformer import WeakSpotsForCausalLM
from weakspots.training.record import Record


class Observer:
    """Keeps what is asked for at chosen steps: gate statistics in the run's record, weights on disk.

    Statistics are taken over the first sequences of `held_out` that hold `gate_windows` windows, as far as there are so
    many.
    """

    def __init__(self, model: WeakSpotsForCausalLM, held_out: Sequences, training: Training, folder: Path):
        self.model, self.folder, self.steps = model, folder, set(training.checkpoint_steps)
        memories = [layer.attention.memory for layer in model.layers]
        windows_each = min(memory.entry_count(held_out.length) if memory else 1 for memory in memories)
        count = min(len(held_out), -(-training.gate_windows // max(1, windows_each)))
        self.tokens = torch.from_numpy(held_out.read(range(count))[0])

    def look(self, record: Record, is_last: bool = False) -> None:
        """Keep what is asked for at the step that `record` stands at, if it is one of the chosen steps or the last."""
        step = record.step
        if not (is_last or step in self.steps):
            return
        with torch.compiler.set_stance("force_eager"):  # compiled layers would pass over the hooks
            table = gate_statistics(self.model, self.tokens.to(self.model.device))
        record.gates += table.assign(step=step).to_dict("records")
        if not is_last:  # the last one is the model itself
            self.model.save_pretrained(self.folder / "checkpoints" / f"step-{step:06d}")
