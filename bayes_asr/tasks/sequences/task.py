"""The task of sequences: the labels of an utterance in their order, which a decoder writes."""

from typing import Any, ClassVar

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import find
from bayes_asr.data.targets.sequences import SEQUENCE
from bayes_asr.tasks.task import LabelSource, Measure, Task, refuse_labels_of_frames


class SequencesTask(Task):
    """The labels of each utterance, as `data.sequences` says."""

    recogniser: ClassVar[str] = "generate"
    measure: ClassVar[Measure] = Measure("error", "error of labels", True, ("dev",))

    def _check(self) -> None:
        refuse_labels_of_frames(self.config)
        if max_frames := self.config.train.max_frames:
            raise InputError(
                f"train.max_frames is {max_frames}, but which of the labels of"
                " data.sequences a piece of an utterance has is not known; set it to 0"
            )

    @property
    def labels(self) -> LabelSource:
        """Label sequences, in a file of each data directory."""
        opener = "data.corpus.classified:open_sequences"
        file = str(self.config.data.sequences)
        return LabelSource("labels", "labels", "data.sequences", opener, file)

    @property
    def weights(self) -> dict[str, float]:
        """One loss."""
        return {SEQUENCE: 1.0}

    @property
    def head_options(self) -> dict[str, Any]:
        """Options of the decoder in place of a head."""
        return {"decoder": dict(vars(self.config.model.decoder))}

    def training(self) -> Any:
        """Training whose dev errors are those of a search."""
        return find("tasks.sequences.training:SequencesTraining")(self)
