"""What a run remembers besides weights and optimiser: where it stands, and the rows of its tables."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import torch

from weakspots.training.schedule import Progress
from weakspots.training.throughput import peak_memory

Publish = Callable[[dict], object] | None
"""What is told every row of training.parquet; None: nobody."""

_log = logging.getLogger(__name__)


@dataclass
class Record:
    """Everything that resuming needs; all of it can be JSON.

    `low_at` is the step after which the loss of the last stage first was low: from there on the rate falls. `rows` are
    those of training.parquet, `gates` those of gates.parquet, `pending` the losses since the last row.
    """

    progress: Progress = field(default_factory=Progress)
    step: int = 0
    tokens: int = 0
    low_at: int | None = None
    rows: list[dict] = field(default_factory=list)
    gates: list[dict] = field(default_factory=list)
    pending: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, state: dict) -> Record:
        """The record of a checkpoint's `state`."""
        return cls(**state | {"progress": Progress(**state["progress"])})

    def state(self) -> dict:
        """The record as JSON holds it."""
        return asdict(self)

    def count(self, loss: float, tokens: int) -> None:
        """One more step."""
        self.step += 1
        self.tokens += tokens
        self.pending.append(loss)


class Clock:
    """The speed of a run, and how long it will take at most; measured from when this process began, never resumed.

    `flops_per_token` are the operations that the model needs for one token, forward and backward, `flops_per_second`
    what the hardware of all processes can do; without the former there is no utilisation. `publish` is told every row,
    those that a resumed run already has at once.
    """

    def __init__(
        self,
        record: Record,
        device: torch.device,
        flops_per_token: float | None,
        flops_per_second: float,
        publish: Publish = None,
    ):
        self.record, self.device = record, device
        self.utilised_per_token = flops_per_token and flops_per_token / flops_per_second
        self._began = self._then = time.monotonic()
        self._first_step, self._tokens_then = record.step, record.tokens
        self._publish = publish or (lambda row: None)
        for row in record.rows:
            self._publish(row)

    def report(self, rate: float, stage: int, steps: int) -> None:
        """One row of training.parquet: the mean loss since the row before; the same in the log, of so many steps."""
        record, now = self.record, time.monotonic()
        speed = (record.tokens - self._tokens_then) / max(now - self._then, 1e-9)
        left = (now - self._began) / (record.step - self._first_step) * (steps - record.step)
        utilised = self.utilised_per_token and speed * self.utilised_per_token
        record.rows.append(
            {
                "step": record.step,
                "tokens": record.tokens,
                "loss": sum(record.pending) / len(record.pending),
                "learning_rate": rate,
                "tokens_per_second": speed,
                "flop_utilisation": utilised,
                "peak_memory_gib": peak_memory(self.device),
                "stage": stage,
            }
        )
        self._publish(record.rows[-1])
        record.pending = []
        self._then, self._tokens_then = now, record.tokens
        _log.info(
            "step %d/%d  loss %.3f  %.1fk tokens/s%s  %.1f GiB  %d:%02d left",
            record.step,
            steps,
            record.rows[-1]["loss"],
            speed / 1e3,
            "" if utilised is None else f"  {100 * utilised:.0f} % MFU",
            record.rows[-1]["peak_memory_gib"],
            *divmod(round(left), 60),
        )
