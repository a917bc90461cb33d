"""The task of numbers."""

from typing import ClassVar

from bayes_asr.tasks.task import LOSS, LabelSource, Measure, Recogniser, Task


class RegressionTask(Task):
    """The number of each frame, from `numbers.scp` of its data directory: matrices [T, 1]."""

    recogniser: ClassVar[Recogniser] = "forward"
    measure: ClassVar[Measure] = LOSS

    @property
    def labels(self) -> LabelSource:
        """Numbers, in a file of each data directory."""
        opener = "tasks.regression.numbers:open_numbers"
        return LabelSource("numbers", "numbers", "numbers.scp", opener, "numbers.scp")

    @property
    def weights(self) -> dict[str, float]:
        """One loss."""
        return {"number": 1.0}
