"""Alignments with the times and confidences of their words and phones."""

from dataclasses import dataclass

from bayes_asr.base.errors import InputError
from bayes_asr.base.safe_pickle import loadable
from bayes_asr.decode.align.best_path import Alignment
from bayes_asr.decode.lattices.ctm import TimedLabel


@loadable
@dataclass(frozen=True)
class TimedAlignment:
    """An alignment with its words and phones, and the mean posterior of the frames of speech."""

    alignment: Alignment
    words: list[TimedLabel]
    phones: list[TimedLabel]
    confidence: float


TimedResult = tuple[str, TimedAlignment | InputError]
