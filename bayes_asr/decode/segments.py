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
from bayes_asr.data.sound.long import LongSound
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
LEAST_STRETCH = 0.1  # seconds: a shorter rest of a file has hardly a frame
CONTEXT = 1.0  # seconds that it reads before and behind them


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


@dataclass(frozen=True)
class Segmentation:
    """Segmentation of the files of a call; a network that detects speech is opened when needed.

    segmenter: None is `automatic` for what is longer than LONG, otherwise `none`.
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
        return load_detector()

    def open(self, name: str, channel: Channel | None) -> "SegmentedFile":
        """Open a file; InputError where it is no sound."""
        sound = LongSound.open(name, channel)
        segmenter = self.segmenter or (self.automatic if sound.seconds > LONG else "none")
        detector = self.detector if segmenter == "vad" else None
        silence = self.silence if segmenter == "network" else None
        return SegmentedFile(sound, self.compute, segmenter, detector, silence)


@dataclass(frozen=True)
class SegmentedFile:
    """A sound file as segments of speech, or as one where the segmenter is `none`.

    detector: silero-vad's network, for `vad`; silence: the model of the run, for `network`.
    """

    sound: LongSound
    compute: ComputeStreams
    segmenter: Segmenter
    detector: Any = None
    silence: SilenceModel | None = None

    def sample(self) -> list[RecordingFeatures]:
        """Sound to estimate the speaker from: all of the file, or some minutes, spread evenly."""
        if self.segmenter == "none":
            return [self._entire]
        spans = self._detected if self.segmenter == "vad" else self._stretches(0.0)
        # Every n-th span, so that about SAMPLE seconds are taken.
        step = math.ceil(sum(end - begin for begin, end in spans) / SAMPLE)
        return [segment.recording for segment in self._cut(spans[:: max(1, step)])]

    def find_speech(self, speaker: Speaker) -> list[Span]:
        """The segments of speech."""
        if self.segmenter == "none":
            return [(0.0, self.sound.seconds)]
        if self.silence:
            return self._find(self._detect_speech(speaker, self.silence), self.silence.step)
        return self._detected

    def read(self, spans: Sequence[Span], speaker: Speaker) -> Iterator[RecordedSegment]:
        """Yield what is recorded in spans, in the order of their begins, adapted to the speaker."""
        entire = self.segmenter == "none"
        segments = [RecordedSegment(spans[0], self._entire)] if entire else self._cut(spans)
        for segment in segments:
            yield replace(segment, recording=speaker.apply(segment.recording))

    @cached_property
    def _entire(self) -> RecordingFeatures:
        return self.compute(self.sound.name, self.sound.read(), self.sound.rate, warn)

    @cached_property
    def _detected(self) -> list[Span]:
        return self._find(
            detect_speech(self.sound.blocks(), self.sound.rate, self.detector), WINDOW / RATE
        )

    def _find(self, probabilities: Iterable[np.ndarray], step: float) -> list[Span]:
        end = self.sound.seconds
        spans = [(max(0.0, a), min(b, end)) for a, b in find_segments(probabilities, step)]
        LOGGER.info("%s: %d segments by %s", self.sound.name, len(spans), self.segmenter)
        return spans

    def _cut(self, spans: Sequence[Span]) -> Iterator[RecordedSegment]:
        """Yield what is recorded in spans, adapted to nobody."""
        announce = warn
        for span, samples in zip(spans, self.sound.cut(spans), strict=True):
            name = f"{self.sound.name}, {span[0]:.2f} to {span[1]:.2f} s"
            yield RecordedSegment(span, self.compute(name, samples, self.sound.rate, announce))
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
