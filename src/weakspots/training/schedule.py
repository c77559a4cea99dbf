"""When the learning rate rises and falls, and when training moves to longer sequences."""

from __future__ import annotations

from dataclasses import dataclass

from weakspots.config import CurriculumStage, Training

_SMOOTHING = 0.9  # of the loss that decides when a stage ends
_SETTLE = 20  # steps before the smoothed loss of a new stage means anything


def learning_rate(step: int, training: Training) -> float:
    """The rate of step `step` (from 0): linear warm-up, constant, linear decay over the last `decay_fraction`."""
    warm = min(1.0, (step + 1) / (training.warmup_steps + 1))
    decay_steps = round(training.steps * training.decay_fraction)
    done = max(0, step - (training.steps - decay_steps)) / decay_steps if decay_steps else 0.0
    return training.learning_rate * warm * (1 - done * (1 - training.final_rate))


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
        low = stage.until_loss is not None and self.stage_step > _SETTLE and self.smoothed < stage.until_loss
        over = stage.max_steps is not None and self.stage_step >= stage.max_steps
        if self.stage + 1 == len(stages) or not (low or over):
            return False
        self.stage, self.stage_step, self.smoothed = self.stage + 1, 0, None
        return True
