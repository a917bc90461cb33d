"""Tasks of labels of whole utterances, from a file of their data directories."""

from typing import Any, ClassVar

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import find
from bayes_asr.config.schema import Config
from bayes_asr.data.targets.classes import CLASSES
from bayes_asr.data.targets.sequences import SEQUENCE
from bayes_asr.tasks.task import LabelSource, Measure, Recogniser, Task, contradict, utterance_files


class ClassesTask(Task):
    """The class of each utterance, as `data.classes` says."""

    recogniser: ClassVar[Recogniser] = "classify"
    measure: ClassVar[Measure] = Measure("error", "error of utterances", True)

    def _check(self) -> None:
        _refuse_labels_of_frames(self.config)

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


class SequencesTask(Task):
    """The labels of each utterance, as `data.sequences` says."""

    recogniser: ClassVar[Recogniser] = "generate"
    measure: ClassVar[Measure] = Measure("error", "error of labels", True, ("dev",))

    def _check(self) -> None:
        _refuse_labels_of_frames(self.config)
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
        return find("tasks.utterances.training:SequencesTraining")(self)


def _refuse_labels_of_frames(config: Config) -> None:
    """InputError for keys of labels of frames, which a task of utterances has no use for."""
    ((key, file),) = utterance_files(config.data).items()
    for frame_key, value in (
        ("data.train.labels", config.data.train.label_names),
        ("train.target_weights", config.train.target_weights),
        ("data.train.lattices", config.data.train.lattices),
        ("data.chain", config.data.chain),
    ):
        if value:
            raise contradict(frame_key, key, file)
