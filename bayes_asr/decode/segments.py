"""Recordings of hours as segments of speech, each small enough for a network and a search.

Speech is found by silero-vad, or by the silence posteriors of the network of a run. What a run
adapts to or normalises by is estimated on some minutes that are spread over a recording.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.data.sound.audio import Announce, Channel, Span, be_silent, warn
from bayes_asr.data.sound.long import LEAST_STRETCH, LongSound, leave_out
from bayes_asr.data.sound.speech import RATE, WINDOW, detect_speech, find_segments, load_detector
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.decode.graph.lang import read_silence_ids
from bayes_asr.decode.lattices.ctm import FRAME_SHIFT
from bayes_asr.decode.speakers import RecordedSegment, RecordingFeatures, Speaker
from bayes_asr.kaldi_io.transition_model import TransitionModel

Segmenter = Literal["vad", "network", "none"]
SEGMENTERS = get_args(Segmenter)
LONG = 60.0  # seconds: what is longer is cut into segments unless the user says otherwise
SAMPLE = 180.0  # seconds of a long recording by which a run adapts to its speaker
STRETCH = 30.0  # seconds that a network reads at once to find silence
CONTEXT = 1.0  # seconds that it reads before and behind them
QUIET = 3.0  # seconds without speech: a shorter file with so many is cut as well


ComputeStreams = Callable[[str, np.ndarray, int, Announce], RecordingFeatures]
"""(name, samples [N], rate in Hz, what is told of resampling) -> the streams that a run reads."""


@dataclass(frozen=True)
class SilenceModel:
    """The probability that a frame is speech, by the silence phones of a run."""

    network: LogLikelihoods
    pdfs: np.ndarray

    @classmethod
    def open(cls, network: LogLikelihoods, graph: Path, model: TransitionModel) -> "SilenceModel":
        """Take the silence phones that a graph folder lists; InputError where there are none."""
        of_silence = np.isin(model.tuples[:, 0], read_silence_ids(graph))
        pdfs = np.unique(model.tuples[of_silence, 2:])
        if not len(pdfs):
            raise InputError(
                f"{graph}: its silence phones are none of the model's; take --segments vad"
            )
        return cls(network, pdfs)

    @property
    def step(self) -> float:
        """Seconds of a frame of the output."""
        return FRAME_SHIFT * self.network.model.output_stride

    def __call__(self, recording: RecordingFeatures) -> np.ndarray:
        """Probabilities of speech [T] of a recording that is adapted to its speaker."""
        loglikes = self.network(recording.features, recording.statistics)
        logits = loglikes.double() + self.network.log_priors
        return 1 - logits.softmax(1)[:, self.pdfs].sum(1).numpy()


def choose_segmenter(
    sound: LongSound, segmenter: Segmenter | None, automatic: Segmenter = "network"
) -> Segmenter:
    """The cutter of a file into segments: that which the user names, or else its length says."""
    return segmenter or (automatic if sound.seconds > LONG else "none")


@dataclass(frozen=True)
class Segmentation:
    """Segmentation of the files of a call; a network that detects speech is opened when needed.

    segmenter: None is `automatic` for what is longer than LONG, or holds QUIET seconds in which the
    network hears silence, otherwise `none`.
    """

    compute: ComputeStreams
    segmenter: Segmenter | None
    automatic: Segmenter
    open_silence: Callable[[], SilenceModel]

    @cached_property
    def silence(self) -> SilenceModel:
        """The detector of speech by the network of the run."""
        return self.open_silence()

    @cached_property
    def detector(self) -> Any:
        """The network of silero-vad."""
        return load_detector("none" if self.automatic == "vad" else self.automatic)

    def prepare(self, segmenter: Segmenter | None) -> None:
        """Open what a segmenter detects speech by; InputError where that cannot be had."""
        if segmenter == "vad":
            _ = self.detector
        elif segmenter == "network":
            _ = self.silence

    def open(self, name: str, channel: Channel | None) -> "SegmentedFile":
        """Open a file; InputError where it is no sound, or speech in it cannot be detected."""
        return self.take(LongSound.open(name, channel))

    def take(self, sound: LongSound) -> "SegmentedFile":
        """Take an open file; InputError where speech in it cannot be detected."""
        segmenter = choose_segmenter(sound, self.segmenter, self.automatic)
        try:
            self.prepare(segmenter)
        except InputError as error:
            raise InputError(f"{sound.name}: {error}") from None
        return SegmentedFile(sound, self, segmenter)


@dataclass(frozen=True)
class SegmentedFile:
    """A sound file as segments of speech, or as one where the segmenter is `none`.

    Digital silence is in none of them, nor in the sample of its speaker.
    """

    sound: LongSound
    segmentation: Segmentation
    segmenter: Segmenter

    def sample(self) -> list[RecordingFeatures]:
        """Sound to estimate the speaker from: all of the file, or some minutes, spread evenly."""
        spans = self._audible
        if self.segmenter != "none":
            # Every n-th span, so that about SAMPLE seconds are taken.
            step = math.ceil(sum(end - begin for begin, end in spans) / SAMPLE)
            spans = spans[:: max(1, step)]
        return [segment.recording for segment in self._cut(spans)]

    def find_speech(self, speaker: Speaker) -> list[Span]:
        """The segments of speech; a warning where there is none."""
        # Where nothing is audible, nothing is known of the speaker either.
        speech = self._find_speech(speaker) if self._audible else []
        spans = self.sound.leave_out_silence(speech)
        if self.segmenter != "none":
            LOGGER.info("%s: %d segments by %s", self.sound.name, len(spans), self.segmenter)
        if not spans:
            LOGGER.warning("%s: no speech is heard in it", self.sound.name)
        return spans

    def read(self, spans: Sequence[Span], speaker: Speaker) -> Iterator[RecordedSegment]:
        """Yield what is recorded in spans, in the order of their begins, adapted to the speaker."""
        for segment in self._cut(spans):
            yield replace(segment, recording=speaker.apply(segment.recording))

    @cached_property
    def _entire(self) -> RecordingFeatures:
        compute = self.segmentation.compute
        return compute(self.sound.name, self.sound.read(), self.sound.rate, warn)

    @cached_property
    def _audible(self) -> list[Span]:
        """What may have speech, as far as one knows without the speaker."""
        if self.segmenter == "none":
            spans = [self.sound.whole]
        else:
            spans = self._detected if self.segmenter == "vad" else self._stretches(0.0)
        return self.sound.leave_out_silence(spans) if self.sound.silences else spans

    @cached_property
    def _detected(self) -> list[Span]:
        probabilities = detect_speech(
            self.sound.blocks(), self.sound.rate, self.segmentation.detector
        )
        return self._find(probabilities, WINDOW / RATE)

    def _find_speech(self, speaker: Speaker) -> list[Span]:
        """The segments of speech, digital silence among them."""
        if self.segmenter == "vad":
            return self._detected
        if self.segmenter == "network":
            silence = self.segmentation.silence
            return self._find(self._detect_speech(speaker, silence), silence.step)
        if self.segmentation.segmenter or self.segmentation.automatic != "network":
            return [self.sound.whole]
        return self._look_for_quiet(speaker)

    def _look_for_quiet(self, speaker: Speaker) -> list[Span]:
        """The whole file, or its segments of speech where it has QUIET seconds without."""
        try:
            silence = self.segmentation.silence
        except InputError:  # a model without silence phones
            return [self.sound.whole]
        spans = self._find([silence(speaker.apply(self._entire))], silence.step)
        quiet = [*leave_out([self.sound.whole], spans, QUIET)]
        for begin, end in quiet:
            LOGGER.warning(
                "%s: no speech is heard from %.2f to %.2f s; --segments none looks for words there",
                *(self.sound.name, begin, end),
            )
        return spans if quiet else [self.sound.whole]

    def _find(self, probabilities: Iterable[np.ndarray], step: float) -> list[Span]:
        end = self.sound.seconds
        return [(max(0.0, a), min(b, end)) for a, b in find_segments(probabilities, step)]

    def _cut(self, spans: Sequence[Span]) -> Iterator[RecordedSegment]:
        """Yield what is recorded in spans, adapted to nobody."""
        if [*spans] == [self.sound.whole]:
            yield RecordedSegment(self.sound.whole, self._entire)
            return
        announce = warn
        for span, samples in zip(spans, self.sound.cut(spans), strict=True):
            name = f"{self.sound.name}, {span[0]:.2f} to {span[1]:.2f} s"
            streams = self.segmentation.compute(name, samples, self.sound.rate, announce)
            yield RecordedSegment(span, streams)
            announce = be_silent  # resampling is the same of all

    def _stretches(self, context: float) -> list[Span]:
        """All of the sound in stretches of STRETCH seconds, with context on both sides."""
        count = math.ceil(self.sound.seconds / STRETCH)
        length = self.sound.seconds
        begins = (STRETCH * number for number in range(count))
        spans = [(max(0.0, t - context), min(t + STRETCH + context, length)) for t in begins]
        return [(begin, end) for begin, end in spans if end - begin > LEAST_STRETCH]

    def _detect_speech(self, speaker: Speaker, silence: SilenceModel) -> Iterator[np.ndarray]:
        """Yield probabilities of speech [n] in frames of the whole file, a stretch at a time."""
        for number, segment in enumerate(self.read(self._stretches(CONTEXT), speaker)):
            probabilities = silence(segment.recording)
            # Frame i of the file begins at i * step; those of this stretch alone are taken.
            begin, end = (
                math.ceil(STRETCH * n / silence.step - 1e-6) for n in (number, number + 1)
            )
            end = min(end, int(self.sound.seconds / silence.step))
            frames = np.arange(begin, end) - round(segment.span[0] / silence.step)
            yield probabilities[frames.clip(0, len(probabilities) - 1)]
