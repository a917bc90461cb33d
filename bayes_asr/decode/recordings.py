"""Sound files as the streams of features that a run reads, each made as those of its training."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.base.log import LOGGER
from bayes_asr.config.catalogue import find
from bayes_asr.config.schema import Config
from bayes_asr.data.directories import locate_all
from bayes_asr.data.features.fmllr_record import FmllrRecord, find_record
from bayes_asr.data.features.front_end import FEATURES, FrontEnd, cmvn_statistics
from bayes_asr.data.sound.audio import Announce, be_silent, bring_to_rate, warn
from bayes_asr.data.sound.long import LongSound
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.decode.speakers import RecordingFeatures, Speaker
from bayes_asr.kaldi_io.side_files import CONFIG

ADAPTER = "gmm.adaptation:SpeakerAdapter"
"""The `Adapter` of runs whose features our GMMs have adapted."""


class Adapter(Protocol):
    """Adaptation to speakers whose cepstra are at hand."""

    def estimate(
        self, speaker: str, cepstra: Mapping[str, np.ndarray]
    ) -> Callable[[np.ndarray], np.ndarray]:
        """The map from cepstra [T, F] to adapted features [T, D] of a speaker, by utterances."""


@dataclass(frozen=True)
class RecordingFrontEnd:
    """All that lies between sound and the streams of a run.

    analyses: of each stream; adapters: of those that are adapted to the speaker.
    """

    front_ends: Mapping[str, FrontEnd]
    analyses: Mapping[str, Analysis]
    adapters: Mapping[str, Adapter]

    @classmethod
    def open(
        cls, run: Path, front_ends: Mapping[str, FrontEnd], config: Config
    ) -> "RecordingFrontEnd":
        """The front end of a run; InputError where a stream cannot be made of sound."""
        analyses, adapters = {}, {}
        for name, front_end in front_ends.items():
            fields, record = front_end.sound, None
            if fields is None and (record := find_maker(name, config)):
                fields = record.sound
            analyses[name] = _make_analysis(run, name, front_end, fields, config)
            if record:
                adapters[name] = _open_adapter(run, record.model_dir, front_end)
        return cls(front_ends, analyses, adapters)

    def read(self, sound: LongSound) -> RecordingFeatures:
        """Compute all streams of a file, adapted to its speaker, of whom digital silence tells
        nothing unless there is nothing else.
        """
        entire = self.compute(sound.name, sound.read(), sound.rate)
        audible = sound.leave_out_silence([sound.whole]) if sound.silences else []
        parts = [
            self.compute(sound.name, samples, sound.rate, be_silent)
            for samples in sound.cut(audible)
        ]
        return self.estimate(sound.name, parts or [entire]).apply(entire)

    def compute(
        self, file: str, samples: np.ndarray, rate: int, announce: Announce = warn
    ) -> RecordingFeatures:
        """Compute all streams of samples [N] at `rate` Hz, as far as all go, adapted to nobody."""
        rates = dict.fromkeys(analysis.sample_rate for analysis in self.analyses.values())
        resampled = {
            target: bring_to_rate(samples, rate, target, file, announce) for target in rates
        }
        features = {name: make(resampled[make.sample_rate]) for name, make in self.analyses.items()}
        frames = min(map(len, features.values()))
        if not frames:
            raise InputError(
                f"{file}: {len(samples) / rate:.3f} s of sound hold no frame of 0.025 s"
            )
        # Streams may differ by a frame at the end, where windows have other lengths.
        features = {name: x[:frames] for name, x in features.items()}
        return RecordingFeatures(file, len(samples) / rate, features)

    def estimate(self, who: str, recordings: Sequence[RecordingFeatures]) -> Speaker:
        """The speaker of recordings, as far as the run adapts to him, and his statistics.

        who: in messages. Nobody is adapted to where no speech was found.
        """
        if not recordings:
            return Speaker({}, {})
        adapted = {}
        for name, adapter in self.adapters.items():
            # Numbers tell recordings apart, as a file may be given twice.
            cepstra = {str(i): sound.features[name] for i, sound in enumerate(recordings)}
            adapted[name] = adapter.estimate(who, cepstra)
        speaker = Speaker(adapted, {})
        features = [speaker.apply(sound).features for sound in recordings]
        return Speaker(
            adapted,
            {
                name: cmvn_statistics(streams[name] for streams in features)
                for name in self.front_ends
            },
        )

    def describe_speakers(self, whose: str) -> None:
        """Say of whom statistics and transforms are."""
        for name in self.adapters:
            LOGGER.info("%s: fMLLR of %s, where there is enough speech", name, whose)
        for front_end in self.front_ends.values():
            if front_end.cmvn != "none":
                LOGGER.info("normalised (%s) over %s", front_end.cmvn, whose)


def find_maker(name: str, config: Config) -> FmllrRecord | None:
    """The maker of the fMLLR features of a stream's training data; None where it is not known."""
    where = ("features",) if name == FEATURES else ("streams", name)
    try:
        directories = locate_all(config.data, "train", *where, announce=False)
    except InputError:
        return None  # the run was trained elsewhere
    return find_record(directories)


def _make_analysis(
    run: Path, name: str, front_end: FrontEnd, fields: Mapping[str, Any] | None, config: Config
) -> Analysis:
    """The analysis that makes a stream of sound, or InputError saying what is missing."""
    if front_end.subsampling != 1:
        raise InputError(
            f"{run}: its stream {name} is of subsampling {front_end.subsampling}, and sound is"
            " analysed at one rate here: compute its features as those of training were, then"
            " bayes-asr forward RUN --data --stream and bayes-asr decode"
        )
    if fields is None and name != FEATURES:
        raise InputError(
            f"{run}: its network also reads the stream {name}, whose features are not of the"
            " built-in front end (there was no frontend.json beside them when it was trained):"
            " compute them, then bayes-asr forward RUN --data --stream and bayes-asr decode"
        )
    if fields is None and not is_there(Path(config.data.dir)):
        raise InputError(
            f"{run}: its network reads features that are not of the built-in front end, and"
            f" data.dir, {config.data.dir}, where they and their models were, is not there; where"
            f" it has moved, write its new place in {run / CONFIG}"
        )
    if fields is None:
        inputs = ", ".join((*config.data.train.features, *config.data.train.features_all_of))
        raise InputError(
            f"{run}: its network reads features that are not of the built-in front end (none of"
            f" {inputs} had a frontend.json when it was trained, nor has one an fmllr.json); if"
            " they are Kaldi's fMLLR, what is missing to make them of a file is the LDA+MLLT matrix"
            " (final.mat) and an fMLLR transform of its speaker, which Kaldi estimates: dump such"
            " features with Kaldi, then bayes-asr forward RUN --data and bayes-asr decode; or train"
            " a run on filter banks, ./run.sh --features fbank"
        )
    try:
        return Analysis(**fields)
    except TypeError:
        raise InputError(
            f"{run / 'best.pt'}: made with a front end of {', '.join(fields)}, which this version"
            " does not know; train with the version that is to transcribe"
        ) from None
    except InputError as error:
        raise InputError(
            f"{run / 'best.pt'}: its features cannot be made of sound here: {error}; train a run on"
            " features that `bayes-asr features` has made"
        ) from None


def _open_adapter(run: Path, model_dir: Path, front_end: FrontEnd) -> Adapter:
    """The models whose features the network reads; InputError where these are others now."""
    adapter = find(ADAPTER).open(model_dir)
    if adapter.models.mixtures.dim != front_end.stored_size:
        raise InputError(
            f"{model_dir}: the model reads features of {adapter.models.mixtures.dim} values now,"
            f" but the network of {run} was trained on {front_end.stored_size}; train it again"
        )
    opened: Adapter = adapter
    return opened
