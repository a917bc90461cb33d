"""The measure on dev that chooses the best epoch of a training and drives its schedule."""

from typing import NamedTuple

from bayes_asr.config.catalogue import CRITERIA
from bayes_asr.config.schema import Config


class Measure(NamedTuple):
    """Of an epoch, the less the better.

    of: `dev_X` and `train_X` in the history; name: in words; is_share: whether it is of all that
    there are, and shown in per cent; parts: of which data the history has it. Of training data it
    lacks errors that compare with those of a decoder on dev: there the decoder is told the labels
    before the next one, on dev it writes them itself.
    """

    of: str
    name: str
    is_share: bool
    parts: tuple[str, ...] = ("train", "dev")

    @property
    def on_dev(self) -> str:
        """The name of the measure on dev in the history."""
        return f"dev_{self.of}"


FRAMES = Measure("error", "frame error", True)
UTTERANCES = Measure("error", "error of utterances", True)
LABELS = Measure("error", "error of labels", True, ("dev",))
LOSS = Measure("loss", "loss", False)


def measure_of(config: Config) -> Measure:
    """The measure of a training.

    Criteria of whole utterances may lower the errors of words and raise those of frames.
    """
    if CRITERIA[config.train.criterion].of_utterances:
        return LOSS
    if config.data.sequences:
        return LABELS
    return UTTERANCES if config.data.classes else FRAMES
