"""The task of frames: pdfs of an alignment, its phones, and further label sets."""

from bayes_asr.base.errors import InputError
from bayes_asr.tasks.task import Task


class FramesTask(Task):
    """The pdf of each frame, by an alignment, and what else `train.target_weights` weighs."""

    def _check(self) -> None:
        # `tri2.pdfs` and `tri2.monophones` are targets of the label set tri2.
        trained = {target.partition(".")[0] for target in self.config.train.target_weights}
        for name in self.config.data.train.label_names:
            if name not in trained:
                raise InputError(
                    f"data.train.labels.{name} is learnt by no output: give"
                    f" train.target_weights.{name}.pdfs a weight, or .monophones, or {name} where"
                    " the labels are whole numbers"
                )

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the losses; that of the pdfs is 1."""
        options = self.config.train
        weights = {"pdfs": 1.0, "monophones": options.monophone_weight, **options.target_weights}
        return {name: weight for name, weight in weights.items() if weight}
