"""The task of lattices: pdfs of frames, by a criterion of whole utterances on lattices."""

from typing import Any, ClassVar

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import find
from bayes_asr.tasks.task import (
    LOSS,
    FramesTask,
    Measure,
    refuse_labels_of_utterances,
    refuse_pieces,
)


class LatticesTask(FramesTask):
    """MMI, boosted MMI, MPE or sMBR; a training is judged by its loss.

    Such a criterion may lower the errors of words and raise those of frames.
    """

    measure: ClassVar[Measure] = LOSS

    def _check(self) -> None:
        data, train = self.config.data, self.config.train
        refuse_pieces(train, "lattices")
        folders = data.train.lattices
        if not folders:
            raise InputError(
                f"train.criterion is {train.criterion}, which wants data.train.lattices; make"
                " them by bayes-asr denlats, and name their folder there"
            )
        if train.sequence.lattices == "each-epoch" and len(folders) > 1:
            raise InputError(
                f"train.sequence.lattices is each-epoch, but data.train.lattices has {len(folders)}"
                " folders; give one, as bayes-asr denlats makes it"
            )
        refuse_labels_of_utterances(data, "data.train.lattices")
        super()._check()

    def training(self) -> Any:
        """Training on sets that have lattices."""
        return find("tasks.lattices.training:LatticesTraining")(self)
