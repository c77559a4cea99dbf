"""When the learning rate rises and falls, when training moves to longer sequences, and when it ends."""

from __future__ import annotations

from dataclasses import dataclass

from weakspots.config import CurriculumStage, Training

_SMOOTHING = 0.9  # of the loss that decides when a stage ends
_SETTLE = 20  # steps before the smoothed loss of a new stage means anything


def learning_rate(step: int, training: Training, low_at: int | None = None) -> float:
    """The rate of step `step` (from 0): linear warm-up, constant, linear decay to the last of `step_count` steps.

    `low_at` is the number of steps after which the loss of the last stage was low; None where it has not been.
    """
    warm = min(1.0, (step + 1) / (training.warmup_steps + 1))
    decay_steps = _decay_steps(training)
    begin = step_count(training, low_at) - decay_steps
    done = max(0, step - begin) / decay_steps if decay_steps else 0.0
    return training.learning_rate * warm * (1 - done * (1 - training.final_rate))


def step_count(training: Training, low_at: int | None = None) -> int:
    """How many steps a run has: `steps`, or fewer if the last stage's loss was low before the decay was due.

    The decay then begins at once, and is as long as it always is: `decay_fraction` of `steps`.
    """
    return training.steps if low_at is None else min(training.steps, low_at + _decay_steps(training))


def _decay_steps(training: Training) -> int:
    return round(training.steps * training.decay_fraction)


@dataclass
class Progress:
    """Where training stands in its stages: stage number, steps done in it, its smoothed loss."""

    stage: int = 0
    stage_step: int = 0
    smoothed: float | None = None

    def advance(self, loss: float, stages: list[CurriculumStage]) -> bool:
        """Counts one step with this loss; True when it was the last of its stage and another stage follows."""
        self.stage_step += 1
        self.smoothed = loss if self.smoothed is None else _SMOOTHING * self.smoothed + (1 - _SMOOTHING) * loss
        stage = stages[self.stage]
        over = stage.max_steps is not None and self.stage_step >= stage.max_steps
        if self.stage + 1 == len(stages) or not (self._is_low(stage) or over):
            return False
        self.stage, self.stage_step, self.smoothed = self.stage + 1, 0, None
        return True

    def is_over(self, stages: list[CurriculumStage]) -> bool:
        """Whether the last stage has been reached, and its loss has fallen below its limit, if it has one."""
        return self.stage + 1 == len(stages) and self._is_low(stages[-1])

    def _is_low(self, stage: CurriculumStage) -> bool:
        if stage.until_loss is None or self.smoothed is None:
            return False
        return self.stage_step > _SETTLE and self.smoothed < stage.until_loss
