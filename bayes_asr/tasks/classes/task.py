"""The task of classes: one label an utterance, from a file of its data directory."""

from typing import Any, ClassVar

from bayes_asr.data.targets.classes import CLASSES
from bayes_asr.tasks.task import LabelSource, Measure, Task, refuse_labels_of_frames


class ClassesTask(Task):
    """The class of each utterance, as `data.classes` says."""

    recogniser: ClassVar[str] = "classify"
    measure: ClassVar[Measure] = Measure("error", "error of utterances", True)

    def _check(self) -> None:
        refuse_labels_of_frames(self.config)

    @property
    def labels(self) -> LabelSource:
        """Classes, in a file of each data directory."""
        opener = "data.corpus.classified:open_classes"
        file = str(self.config.data.classes)
        return LabelSource("class", "a class", "data.classes", opener, file)

    @property
    def weights(self) -> dict[str, float]:
        """One loss."""
        return {CLASSES: 1.0}

    @property
    def head_options(self) -> dict[str, Any]:
        """The head reads a layer that pools all frames."""
        return {"of_utterances": [CLASSES]}
