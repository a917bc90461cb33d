"""Online recognition: partial results from the best path so far, final results after pauses."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.data.sound.long import DIGITAL_SILENCE, LongSound
from bayes_asr.data.sound.online import OnlineFeatures, SilenceGate
from bayes_asr.data.sound.spectrum import FRAME_SHIFT, Analysis
from bayes_asr.decode.forward.log_likelihoods import load
from bayes_asr.decode.graph.lang import read_silence_ids
from bayes_asr.decode.recognise import (
    OF_RUN,
    RecognisedWord,
    Recogniser,
    RecogniserOptions,
    open_recogniser,
)
from bayes_asr.decode.recordings import RecordingFrontEnd
from bayes_asr.decode.search.inputs import check_loglikes
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.configuration import read_configuration

PAUSE = 0.6  # seconds of silence behind words that end an utterance
QUIET = 10.0  # seconds without a word after which an utterance begins anew
LOOK = 1.0  # seconds between two readings of what is settled
LONGEST = 30.0  # seconds of an utterance: a speaker who makes no pause is interrupted there


@dataclass(frozen=True)
class PartialResult:
    """The words so far of an utterance that begins at `begin` s: `settled` ones, which later sound
    cannot change, and `open` ones, which it can.

    read: the first words of the end, read at its weights as soon as later sound cannot change them
    (none with `decode.mbr`); their confidences are of the sound so far, their times are rough.
    """

    begin: float
    settled: list[str]
    open: list[str]
    read: list[RecognisedWord] = field(default_factory=list)


@dataclass(frozen=True)
class FinalResult:
    """The words of an utterance that has ended, from `begin` to `end` s."""

    begin: float
    end: float
    words: list[RecognisedWord]


class LiveRecogniser:
    """Recogniser of samples that arrive in pieces, with a result after each piece.

    An utterance ends where its best path has words and behind them `pause` seconds of silence,
    after LONGEST, or where digital silence begins, which is not heard. Its words are those that the
    sound between its begin and its end has offline.
    """

    def __init__(
        self,
        recogniser: Recogniser,
        analyses: Mapping[str, Analysis],
        statistics: Mapping[str, np.ndarray],
        silent: np.ndarray,
        pause: float = PAUSE,
    ) -> None:
        """Wait for the first sound.

        analyses: of each stream that the network reads; statistics: of the speaker, where the run
        normalises by these; silent: bool by transition-id, whether its phone is silence. InputError
        for a network that reads what comes later, and for features that do.
        """
        self._recogniser = recogniser
        self._stream = recogniser.network.stream(statistics)
        self._sounds = {name: OnlineFeatures(analysis) for name, analysis in analyses.items()}
        self._silent, self._pause = silent, pause
        (self._rate,) = {analysis.sample_rate for analysis in analyses.values()}
        self._gate = SilenceGate(self._rate, DIGITAL_SILENCE)
        self._arrived = 0  # samples
        self._start = 0.0  # seconds, of the utterance
        self._begin()

    @property
    def rate(self) -> int:
        """Sampling rate in Hz of the sound that it takes."""
        return self._rate

    @property
    def latency(self) -> int:
        """The frames by which the search is behind the sound, besides the frame of 25 ms itself."""
        return self._stream.latency

    def push(self, samples: np.ndarray) -> PartialResult | FinalResult:
        """Take the next samples [N]; the result is final where the utterance has ended."""
        self._arrived += len(samples)
        self._compute(self._gate.push(samples))
        if self._gate.is_shut:
            return self._pass_silence()
        path = self._session.trace()
        words = [self._recogniser.words[word] for word in path.word.tolist()]
        silence = FRAME_SHIFT * self._count_silence(path.tid)
        if silence >= (self._pause if words else QUIET) or self._frames >= LONGEST / FRAME_SHIFT:
            return self._end()
        settled, unsettled = words[: path.fixed], words[path.fixed :]
        return PartialResult(self._seconds(0), settled, unsettled, self._read_settled())

    def finish(self) -> FinalResult:
        """End the utterance; the next one may begin, also after the InputError of one in which
        nothing is recognised.
        """
        self._compute(self._gate.flush())
        return self._end()

    def _compute(self, samples: np.ndarray) -> None:
        features = {name: sound.push(samples) for name, sound in self._sounds.items()}
        self._frames += min(map(len, features.values()))
        self._advance(self._stream(features).numpy())

    def _pass_silence(self) -> PartialResult | FinalResult:
        """End the utterance, if there is one; the next begins behind what has arrived."""
        try:
            news = self._end() if self._frames else PartialResult(self._seconds(0), [], [])
        finally:
            self._start = self._arrived / self._rate
            for sound in self._sounds.values():
                sound.skip()
        return news

    def _end(self) -> FinalResult:
        """The utterance that is over; the next begins behind it."""
        begin, end = self._seconds(0), self._seconds(self._frames)
        try:
            self._advance(self._stream.finish().numpy())
            words = self._read() if self._frames else []
        finally:
            self._start += self._frames * FRAME_SHIFT
            self._begin()
        return FinalResult(begin, end, shift_words(words, begin))

    def _begin(self) -> None:
        for sound in self._sounds.values():
            sound.begin()
        self._frames = 0  # of this utterance
        self._session = self._recogniser.open(self._name)
        self._loglikes: list[np.ndarray] = []
        self._words: list[RecognisedWord] = []  # which have been read
        self._has_grown, self._looked = False, 0  # the lattice, and the frames when it was read

    def _seconds(self, frames: int) -> float:
        return round(self._start + frames * FRAME_SHIFT, 3)

    def _advance(self, loglikes: np.ndarray) -> None:
        if not len(loglikes):
            return
        checked = check_loglikes(self._recogniser.graph, self._name, loglikes)
        self._loglikes.append(checked)
        self._has_grown |= self._session.advance(checked)

    def _count_silence(self, tids: np.ndarray) -> int:
        """The frames of silence at the end of a path."""
        speech = np.flatnonzero(~self._silent[tids])
        return len(tids) - 1 - int(speech[-1]) if len(speech) else len(tids)

    def _read(self) -> list[RecognisedWord]:
        """The words of the utterance that is over, as of one that was there from the beginning."""
        loglikes = np.concatenate(self._loglikes)
        return self._recogniser.name_words(self._name, loglikes, *self._session.finish())

    def _read_settled(self) -> list[RecognisedWord]:
        """The first words of the end, looked for once in LOOK seconds.

        None of least expected error, which any later sound may change.
        """
        if self._recogniser.mbr:
            return []
        if self._has_grown and self._frames >= self._looked + LOOK / FRAME_SHIFT:
            words = self._recogniser.name_settled(self._name, self._session.read_pieces())
            self._words = shift_words(words, self._seconds(0))
            self._has_grown, self._looked = False, self._frames
        return self._words

    @property
    def _name(self) -> str:
        return f"the utterance from {self._seconds(0):.2f} s"


def shift_words(words: list[RecognisedWord], begin: float) -> list[RecognisedWord]:
    """Return words of an utterance with times of the sound in which it begins at `begin` s."""
    return [replace(w, start=round(begin + w.start, 3), end=round(begin + w.end, 3)) for w in words]


def open_live(
    run: Path,
    speaker: Path | None = None,
    options: RecogniserOptions = OF_RUN,
    *,
    pause: float = PAUSE,
) -> LiveRecogniser:
    """Open a run for sound that arrives, at the rate `LiveRecogniser.rate`.

    speaker: a recording of the speaker, for a run that normalises by speaker, and for no other.
    InputError for a run that needs all of a sound, or two rates, or that is adapted to speakers.
    """
    config = read_configuration(run)
    if task_of(config).recogniser == "generate":
        raise InputError(f"{run}: its decoder reads all of an utterance, and cannot hear it arrive")
    network = load(run)
    front_end = RecordingFrontEnd.open(run, network.front_ends, config)
    _check_features(run, front_end, speaker)
    statistics: Mapping[str, np.ndarray] = {}
    if speaker is not None:
        statistics = front_end.read(LongSound.open(str(speaker), None)).statistics
    recogniser = open_recogniser(run, network, config, options)
    search_weights = 1 / recogniser.options.acoustic_scale, 0.0
    if not np.allclose(search_weights, recogniser.weights):
        LOGGER.info(
            "while one speaks words are those of the search, at LM weight %g; at the end they are"
            " read anew at %g, penalty %g, and may change",
            *(search_weights[0], *recogniser.weights),
        )
    phones = read_transition_model(recogniser.model).phone
    silent = np.isin(phones, read_silence_ids(recogniser.graph_dir))
    return LiveRecogniser(recogniser, front_end.analyses, statistics, silent, pause)


def _check_features(run: Path, front_end: RecordingFrontEnd, speaker: Path | None) -> None:
    """Raise InputError for features that cannot be made of one sound and what is known of him who
    speaks.
    """
    if front_end.adapters:
        raise InputError(
            f"{run}: its features are adapted (fMLLR) to speakers by all that they say; train a run"
            " with --features mfcc or fbank"
        )
    rates = sorted({analysis.sample_rate for analysis in front_end.analyses.values()})
    if len(rates) > 1:
        raise InputError(
            f"{run}: its streams are of sound at {' and '.join(map(str, rates))} Hz, and one rate"
            " is heard; transcribe files, or train on streams of one rate"
        )
    normalises = any(stream.cmvn != "none" for stream in front_end.front_ends.values())
    if normalises and speaker is None:
        raise InputError(
            f"{run}: normalises by the speaker; give --speaker FILE, a recording of whoever"
            " will speak, or train with features.cmvn: none"
        )
    if speaker is not None and not normalises:
        raise InputError(f"{run}: normalises by no speaker; leave out --speaker {speaker}")
