"""The training loop, through Accelerate: the same code on a CPU core and on a GPU, in one process."""

from __future__ import annotations

import json
import logging
import math
import time
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import torch
from accelerate import Accelerator
from transformers import AutoTokenizer

from weakspots import device as devices
from weakspots.config import Backbone, Corpus
from weakspots.data.shards import Sequences
from weakspots.errors import UserError
from weakspots.models import ModelRow
from weakspots.training import checkpoint
from weakspots.training.batches import Batches, labelled
from weakspots.training.schedule import Progress, learning_rate
from weakspots.training.trajectory import COLUMNS, gate_statistics
from weakspots.transformer import WeakSpotsConfig, WeakSpotsForCausalLM

_log = logging.getLogger(__name__)
_PRECISIONS = {"float32": "no", "bfloat16": "bf16"}  # Accelerate's names


def train(
    row: ModelRow, backbone: Backbone, corpus: Corpus, data: Path, folder: Path, device: str = "cpu"
) -> dict[str, pd.DataFrame]:
    """Trains one model of the table on the shards in `data` and saves it, with its tokenizer, to `folder`.

    At `checkpoint_steps` gate statistics are taken, and the weights are kept under `checkpoints/` there.
    Continues from the newest resumable state in `folder`, if there is one. Returns the tables "training" (one row per
    logged step), "gates" (one row per checkpoint step, gate and offset; empty for full attention) and "validation"
    (one row: loss and tokens). On a CPU the result is bit-identical for a seed, interrupted or not.
    Raises UserError when the loss is no longer finite, naming the step and the sequences.
    """
    training = corpus.training
    devices.check(device)
    accelerator = Accelerator(cpu=device == "cpu", mixed_precision=_PRECISIONS[training.precision])
    if accelerator.num_processes != 1:
        raise UserError("training runs in one process: start it without a launcher, or with one process")
    torch.manual_seed(row.seed)
    tokenizer = AutoTokenizer.from_pretrained(data / "tokenizer")
    shape = WeakSpotsConfig.of(row, backbone, len(tokenizer), tokenizer.eos_token_id)
    model = WeakSpotsForCausalLM(shape)
    optimizer = _optimizer(model, corpus)
    run = _Run(Progress())
    if state := checkpoint.restore(folder, model, optimizer):
        run = _Run.of(state)
        _log.info("resuming after step %d of %d", run.step, training.steps)
    model, optimizer = accelerator.prepare(model, optimizer)
    bare = accelerator.unwrap_model(model)

    answers_only = training.loss_on == "answers"
    held_out = Sequences(data / "validation", corpus.stages[-1].length)
    gate_tokens = torch.from_numpy(held_out.read(range(_gate_sequences(bare, held_out, training.gate_windows)))[0])
    _log.info("%d parameters, %d steps of %d tokens", bare.num_parameters(), training.steps, training.batch_tokens)

    def observe() -> None:
        if run.step not in {*training.checkpoint_steps, training.steps}:
            return
        table = gate_statistics(bare, gate_tokens.to(accelerator.device))
        run.gates += table.assign(step=run.step).to_dict("records")
        if run.step < training.steps:  # the last one is the model itself
            bare.save_pretrained(folder / "checkpoints" / f"step-{run.step:06d}")

    if run.step == 0:
        observe()
    batches: Batches | None = None
    last_saved = run.step
    while run.step < training.steps:
        stage = run.progress.stage
        if batches is None or batches.number != stage:
            part = data / f"train-{stage}"
            batches = Batches(part, corpus.stages[stage], stage, training.batch_tokens, row.seed, answers_only)
        where = run.progress.stage_step
        inputs, labels = batches.read(where)
        rate = learning_rate(run.step, training)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = model(inputs.to(accelerator.device), labels=labels.to(accelerator.device)).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), training.clip_norm)
        value = loss.item()
        if not math.isfinite(value):
            raise UserError(
                f"the loss is {value} at step {run.step + 1}, on sequences {batches.indices(where).tolist()} of "
                f"{batches.sequences.folder}: lower training.learning_rate; the last checkpoint is kept"
            )
        optimizer.step()
        optimizer.zero_grad()
        run.count(value, inputs.numel())
        if run.progress.advance(value, corpus.stages):
            _log.info("step %d: stage %d begins", run.step, run.progress.stage)
        if run.step % training.log_every == 0 or run.step == training.steps:
            run.report(rate, training.steps, stage)
        observe()
        if run.step - last_saved >= training.resume_every and run.step < training.steps:
            checkpoint.save(folder, run.step, bare, optimizer.optimizer, run.state())
            last_saved = run.step

    validation = _validation_loss(bare, held_out, training.batch_tokens, answers_only)
    bare.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    checkpoint.clear(folder)
    _log.info("done: validation loss %.4f", validation["loss"])
    gates = pd.DataFrame(run.gates, columns=["step", *COLUMNS])
    return {"training": pd.DataFrame(run.rows), "gates": gates, "validation": pd.DataFrame([validation])}


class _Run:
    """Everything of a run, beside weights and optimiser, that resuming needs."""

    def __init__(self, progress: Progress, step: int = 0, tokens: int = 0, rows=None, gates=None, pending=None):
        self.progress, self.step, self.tokens = progress, step, tokens
        self.rows, self.gates, self.pending = rows or [], gates or [], pending or []
        self._since, self._tokens_then, self._started, self._start_step = (
            time.monotonic(),
            tokens,
            time.monotonic(),
            step,
        )

    @classmethod
    def of(cls, state: dict) -> _Run:
        return cls(
            Progress(**state["progress"]), *(state[key] for key in ("step", "tokens", "rows", "gates", "pending"))
        )

    def state(self) -> dict:
        return {
            "progress": asdict(self.progress),
            **{key: getattr(self, key) for key in ("step", "tokens", "rows", "gates", "pending")},
        }

    def count(self, loss: float, tokens: int) -> None:
        self.step += 1
        self.tokens += tokens
        self.pending.append(loss)

    def report(self, rate: float, steps: int, stage: int) -> None:
        """One row of training.parquet: the mean loss since the row before; the same in the log."""
        now = time.monotonic()
        speed = (self.tokens - self._tokens_then) / max(now - self._since, 1e-9)
        left = (now - self._started) / (self.step - self._start_step) * (steps - self.step)
        loss = sum(self.pending) / len(self.pending)
        self.rows.append(
            {
                "step": self.step,
                "tokens": self.tokens,
                "loss": loss,
                "learning_rate": rate,
                "tokens_per_second": speed,
                "stage": stage,
            }
        )
        self.pending = []
        self._since, self._tokens_then = now, self.tokens
        _log.info(
            "step %d/%d  loss %.3f  %.1fk tokens/s  %d:%02d left",
            self.step,
            steps,
            loss,
            speed / 1e3,
            *divmod(round(left), 60),
        )


def _optimizer(model: torch.nn.Module, corpus: Corpus) -> torch.optim.AdamW:
    """AdamW; matrices and gate biases are decayed, norms are not."""
    training = corpus.training
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": training.weight_decay},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=training.learning_rate, betas=training.betas, fused=True)


def _gate_sequences(model: WeakSpotsForCausalLM, held_out: Sequences, windows: int) -> int:
    """How many sequences hold so many windows, as far as there are so many."""
    memory = model.layers[0].attention.memory
    each = memory.entry_count(held_out.length) if memory else 1
    return min(len(held_out), -(-windows // max(1, each)))


def _validation_loss(
    model: WeakSpotsForCausalLM, held_out: Sequences, batch_tokens: int, answers_only: bool
) -> dict[str, float]:
    """Mean loss per counted token over all held-out sequences."""
    size = max(1, batch_tokens // held_out.length)
    total, count = 0.0, 0
    model.eval()
    with torch.no_grad():
        for start in range(0, len(held_out), size):
            indices = range(start, min(start + size, len(held_out)))
            inputs, labels = labelled(*held_out.read(indices), answers_only)
            counted = int((labels[:, 1:] >= 0).sum())
            total += model(inputs.to(model.device), labels=labels.to(model.device)).loss.item() * counted
            count += counted
    return {"loss": total / count, "tokens": count}


def write_validation(path: Path, table: pd.DataFrame) -> None:
    """`validation.json`: loss and tokens of the validation part."""
    path.write_text(json.dumps(table.to_dict("records")[0]) + "\n")
