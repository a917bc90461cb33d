"""Forced alignment with the times and confidences of words and phones."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.confidence import ConfidenceModel
from bayes_asr.decode.align.forced import align_utterance, word_spans
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.align.textgrid import TimedAlignment, TimedResult
from bayes_asr.decode.align.transcripts import PronouncerFiles, read_pronouncer
from bayes_asr.decode.lattices.ctm import TimedLabel
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.utterance import ENGINES
from bayes_asr.kaldi_io.transition_model import phone_spans


@dataclass(frozen=True)
class TimingAligner:
    """Aligner of utterances, with times and confidences of their words and phones.

    output_stride: frames of 10 ms of each log-likelihood.
    """

    pronouncer: Pronouncer
    options: AlignOptions
    engine: Engine
    output_stride: int = 1

    def align(self, utt: str, words: Sequence[str], loglikes: np.ndarray) -> TimedAlignment:
        """Align log-likelihoods [T, P] with `words`; InputError as of `align_utterance`."""
        pronouncer = self.pronouncer
        aligned = align_utterance(utt, words, loglikes, pronouncer, self.options, self.engine)
        tids = aligned.transition_ids
        try:
            posteriors = self._confidence.frame_posteriors(utt, words, loglikes, tids)
        except InputError as error:
            # The alignment stands without them; its utterance is named, as where text and sound
            # disagree.
            LOGGER.warning("%s; its confidences are 0", error)
            posteriors = np.zeros(len(tids))
        phone_ids, start, end = (x.tolist() for x in phone_spans(pronouncer.model, tids))
        labels = [pronouncer.phone_names[phone] for phone in phone_ids]
        phones = zip(labels, start, end, strict=True)
        spans = word_spans(words, tids, pronouncer)
        # Silence agrees with almost any sound that is quiet: it says little about the text.
        silence = pronouncer.phones.get(pronouncer.lang.silence or "")
        of_speech = pronouncer.model.phone[tids] != silence
        return TimedAlignment(
            aligned,
            [_time(word, *span, posteriors) for word, span in zip(words, spans, strict=True)],
            [_time(*phone, posteriors) for phone in phones],
            float(posteriors[of_speech].mean() if of_speech.any() else posteriors.mean()),
        )

    @cached_property
    def _confidence(self) -> ConfidenceModel:
        return ConfidenceModel(self.pronouncer, self.engine, self.output_stride)


def _time(label: str, start: int, end: int, posteriors: np.ndarray) -> TimedLabel:
    return TimedLabel(label, start, end, float(posteriors[start:end].mean()))


@cache  # once in each process
def _open_aligner(
    files: PronouncerFiles, options: AlignOptions, engine: str, output_stride: int
) -> TimingAligner:
    return TimingAligner(read_pronouncer(*files), options, ENGINES[engine], output_stride)


def align_item(
    files: PronouncerFiles,
    options: AlignOptions,
    engine: str,
    output_stride: int,
    utt: str,
    inputs: tuple[list[str] | None, np.ndarray],
) -> TimedResult:
    """Align the words and log-likelihoods [T, P] of one utterance, here or in a worker process."""
    words, loglikes = inputs
    try:
        if words is None:
            raise InputError(f"{utt}: there is no transcript; write what is said into text")
        return utt, _open_aligner(files, options, engine, output_stride).align(utt, words, loglikes)
    except InputError as error:
        return utt, error
