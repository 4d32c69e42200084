"""Where a run is, as far as a loss knows: it counts the batches that it was trained with.

Random draws and schedules depend on seed and step alone, so they are the same on every rank. A run that resumes sets
`loss.position.step` to the batches before.
"""

from __future__ import annotations

from equipoise.types import StepInfo, UserError


class RunPosition:
    def __init__(self, steps: int, epoch_steps: int, seed: int):
        for name, value in (("steps", steps), ("epoch_steps", epoch_steps), ("seed", seed)):
            if value < 0:
                raise UserError(f"{name} must be at least 0, not {value}")
        self.steps, self.epoch_steps, self.seed = steps, epoch_steps, seed
        self.step = 0  # batches so far

    def advance(self) -> None:
        self.step += 1

    @property
    def moment(self) -> StepInfo:
        """This step; as at the end of a run where its length is not known, or it is over."""
        step = max(1, self.step)
        if not self.steps:
            return StepInfo(self.seed, step + 1, step + 1, self.epoch_steps or step + 1)
        return StepInfo(self.seed, step, max(step, self.steps), self.epoch_steps or max(step, self.steps))
