"""The training loop, through Accelerate: the same code on a CPU core, on a GPU, and in many processes at once."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import pandas as pd
import torch
from accelerate import Accelerator
from transformers import AutoTokenizer, PreTrainedModel

from weakspots.config import Backbone, Corpus
from weakspots.data.shards import Sequences
from weakspots.errors import UserError
from weakspots.files.validation import Validation
from weakspots.machine import device as devices
from weakspots.machine import processes
from weakspots.mechanism import gate_statistics
from weakspots.model.configuration import WeakSpotsConfig
from weakspots.model.transformer import WeakSpotsForCausalLM
from weakspots.model_table import ModelRow
from weakspots.training import checkpoint, throughput
from weakspots.training.batches import Batches
from weakspots.training.gradient import diverged, gradient
from weakspots.training.observer import Observer
from weakspots.training.optimizers import optimizer_for
from weakspots.training.record import Clock, Publish, Record
from weakspots.training.schedule import learning_rate, step_count
from weakspots.training.validation import validation_loss

_log = logging.getLogger(__name__)
_PRECISIONS = {"float32": "no", "bfloat16": "bf16"}  # Accelerate's names


def train(
    row: ModelRow,
    backbone: Backbone,
    corpus: Corpus,
    data: Path,
    folder: Path,
    device: str = "cpu",
    flops_per_token: float | None = None,
    publish: Publish = None,
) -> dict[str, pd.DataFrame]:
    """`run` for a model of the table, from its initial weights.

    At `checkpoint_steps` gate statistics are taken, the table "gates" (empty for full attention), and the weights are
    kept under `checkpoints/` in `folder`.
    """
    tokenizer = AutoTokenizer.from_pretrained(data / "tokenizer")
    torch.manual_seed(row.seed)
    longest = max(stage.length for stage in corpus.stages)
    shape = WeakSpotsConfig.of(row, backbone, len(tokenizer), tokenizer.eos_token_id, longest)
    model = WeakSpotsForCausalLM(shape)
    observer = Observer(model, Sequences(data / "validation", corpus.stages[-1].length), corpus.training, folder)
    return run(
        model,
        row.seed,
        corpus,
        data,
        folder,
        device,
        flops_per_token=flops_per_token,
        observer=observer,
        publish=publish,
    )


def run(
    bare: PreTrainedModel,
    seed: int,
    corpus: Corpus,
    data: Path,
    folder: Path,
    device: str = "cpu",
    *,
    flops_per_token: float | None = None,
    observer: Observer | None = None,
    publish: Publish = None,
) -> dict[str, pd.DataFrame]:
    """Trains a causal language model on the shards in `data` and saves it, with its tokenizer, to `folder`.

    `bare` starts from the weights it has; those that need no gradient stay as they are. `seed` orders the sequences.
    Continues from the newest sound checkpoint in `folder`, if there is one. Returns the tables "training" (one row per
    logged step), "gates" (one row per step that `observer` looks at, gate and offset) and "validation" (one row: the
    columns of `files.validation`). On a CPU the result is bit-identical for a seed, interrupted or not.

    Training ends after `training.steps`, or before that, when the last stage has an `until_loss` and reaches it: the
    decay of the learning rate then begins at once. `checkpoint_steps` that are never reached are left out.

    Under a launcher all processes call this alike, with one `folder` that all of them see; they share every batch, and
    only the main process writes. `flops_per_token` (forward and backward) serves the logged utilisation, and `publish`
    is given every row of "training" as soon as it is there, those from before an interruption first.
    Raises UserError when the loss or its gradient is no longer finite, naming the step and the sequences, when the
    disk is full, and when the launcher's processes are not connected.
    """
    training = corpus.training
    accelerator = accelerator_for(device, training.precision)
    optimizer = optimizer_for(bare, training)
    record = Record()
    if state := checkpoint.restore(folder, bare, optimizer):
        record = Record.of(state)
        _log.info("resuming after step %d of %d", record.step, step_count(training, record.low_at))
    accelerator.wait_for_everyone()  # nobody removes a checkpoint that another still reads
    if training.recompute:
        bare.activation_checkpointing_enable({"use_reentrant": False})
    if training.compile:
        for layer in bare.base_model.layers:
            layer.compile()
    model, optimizer = accelerator.prepare(bare, optimizer)
    held_out = Sequences(data / "validation", corpus.stages[-1].length)
    if not accelerator.is_main_process:
        observer = None  # one process writes
    rate_of_products = throughput.matmul_rate(accelerator.device, training.precision) * accelerator.num_processes
    clock = Clock(record, accelerator.device, flops_per_token, rate_of_products, publish)
    _log.info(
        "%d parameters, %d steps of %d tokens; %d process(es) at %.2f TFLOP/s in all",
        bare.num_parameters(),
        training.steps,
        training.batch_tokens,
        accelerator.num_processes,
        rate_of_products / 1e12,
    )

    answers_only = training.loss_on == "answers"
    if observer and record.step == 0:
        observer.look(record)
    batches: Batches | None = None
    last_saved = record.step
    while record.step < (steps := step_count(training, record.low_at)):
        stage = record.progress.stage
        if batches is None or batches.number != stage:
            sequences = Sequences(data / f"train-{stage}", corpus.stages[stage].length)
            batches = Batches(sequences, stage, training.batch_tokens, seed, answers_only)
        rate = learning_rate(record.step, training, record.low_at)
        for group in optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        loss = gradient(accelerator, model, batches, record, training.micro_batch_tokens)
        norm = accelerator.clip_grad_norm_(model.parameters(), training.clip_norm).item()
        if not math.isfinite(norm):
            raise diverged("gradient", norm, record, batches, batches.indices(record.progress.stage_step))
        optimizer.step()
        optimizer.zero_grad()
        record.count(loss, batches.tokens)
        if record.progress.advance(loss, corpus.stages):
            _log.info("step %d: stage %d begins", record.step, record.progress.stage)
        if record.low_at is None and record.progress.is_over(corpus.stages):
            record.low_at = record.step
            steps = step_count(training, record.low_at)
            _log.info("step %d: the loss of the last stage is low, and step %d is the last", record.step, steps)
        if record.step % training.log_every == 0 or record.step == steps:
            clock.report(rate, stage, steps)
        if observer:
            observer.look(record, is_last=record.step == steps)
        if record.step - last_saved >= training.resume_every and record.step < steps:
            if accelerator.is_main_process:
                checkpoint.save(folder, record.step, bare, optimizer.optimizer, record.state())
            last_saved = record.step

    if (stages := len(corpus.stages)) > record.progress.stage + 1:
        _log.warning(
            "training ended in stage %d of 0..%d: the last one was never seen; raise steps or lower max_steps",
            record.progress.stage,
            stages - 1,
        )
    validation = validation_loss(accelerator, bare, held_out, training.batch_tokens, answers_only)
    if accelerator.is_main_process:
        bare.save_pretrained(folder)
        AutoTokenizer.from_pretrained(data / "tokenizer").save_pretrained(folder)
        checkpoint.clear(folder)
    # Not only for company. Gloo's thread drops the tensors of its last operation under a lock and wants the GIL for it;
    # the destructor of DDP wants that lock and has the GIL. Who waits here gives the GIL away until the thread is done.
    accelerator.wait_for_everyone()
    accelerator.end_training()
    found = Validation(validation["loss"], training.learnt_below)
    level = logging.WARNING if found.learnt is False else logging.INFO
    _log.log(level, "done: validation loss %.4f%s", found.loss, f" ({found})" if str(found) else "")
    row = {**validation, "learnt_below": found.learnt_below, "learnt": found.learnt}
    gates = pd.DataFrame(record.gates, columns=["step", *gate_statistics.COLUMNS])
    return {"training": pd.DataFrame(record.rows), "gates": gates, "validation": pd.DataFrame([row])}


def accelerator_for(device: str, precision: str) -> Accelerator:
    """Accelerate on `device` (cpu, cuda), with products in `precision` (float32, bfloat16).

    Raises UserError where the device is missing, and where the launcher's processes are not connected.
    """
    devices.check(device)
    accelerator = Accelerator(cpu=device == "cpu", mixed_precision=_PRECISIONS[precision])
    if accelerator.num_processes != processes.count():  # else each would train the model on its own
        raise UserError(
            f"the launcher started {processes.count()} processes, and Accelerate connects {accelerator.num_processes}: "
            "launch with one of the files in workflow/accelerate/"
        )
    return accelerator
