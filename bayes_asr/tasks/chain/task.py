"""The task of lattice-free MMI: Kaldi's chain models."""

from pathlib import Path
from typing import Any, ClassVar

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import find
from bayes_asr.data.directories import locate
from bayes_asr.tasks.task import (
    LOSS,
    FramesTask,
    Measure,
    refuse_labels_of_utterances,
    refuse_pieces,
)

CHAIN = "tree and graph of LF-MMI"
"""The folder `data.chain`, in messages."""

XENT = "xent"
"""The head that is trained by cross entropy, beside that of LF-MMI."""


class ChainTask(FramesTask):
    """Pdfs of a tree of its own, at one of `train.chain.frame_subsampling_factor` frames."""

    measure: ClassVar[Measure] = LOSS

    def _check(self) -> None:
        data, train = self.config.data, self.config.train
        refuse_pieces(train, "numerators")
        for key in ("monophone_weight", "target_weights"):
            if value := getattr(train, key):
                raise InputError(
                    f"train.{key} is {value}, but {train.criterion} has outputs of one of"
                    f" {self.output_stride} frames, and learns no labels of frames; set it to"
                    f" {'0' if key == 'monophone_weight' else '{}'}"
                )
        if not data.chain:
            raise InputError(
                f"train.criterion is {train.criterion}, which wants data.chain; make its tree"
                " and graph by bayes-asr gmm chain-tree, and name their folder there"
            )
        refuse_labels_of_utterances(data, "data.chain")
        super()._check()

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the losses: LF-MMI, and cross entropy where it regularises."""
        xent_weight = self.config.train.chain.xent_regularize
        return {"pdfs": 1.0, **({XENT: xent_weight} if xent_weight else {})}

    @property
    def head_options(self) -> dict[str, Any]:
        """The output stride, where it is not 1."""
        return {"output_stride": self.output_stride} if self.output_stride > 1 else {}

    @property
    def output_stride(self) -> int:
        """Of how many frames the network has outputs of one."""
        return self.config.train.chain.frame_subsampling_factor

    def locate_model(self, *, announce: bool = True) -> Path:
        """The final.mdl of the tree."""
        chain = locate(self.config.data.chain, self.config.data, CHAIN, announce=announce)
        return chain / "final.mdl"

    def training(self) -> Any:
        """Training on numerators, against a denominator graph."""
        return find("tasks.chain.training:ChainTraining")(self)
