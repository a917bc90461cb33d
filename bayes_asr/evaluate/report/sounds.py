"""The sound of utterances that a page lists, as files beside it."""

import wave
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np

from bayes_asr.base.files import replacing
from bayes_asr.base.log import LOGGER
from bayes_asr.data.sound.audio import warn
from bayes_asr.data.sound.recordings import Recordings, list_recordings, read_utterances

RATE = 16000  # Hz
FOLDER = "sounds"


def iter_sounds(data: Path, utterances: Collection[str]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the samples [N] of utterances at 16 kHz; those that `data` lacks are counted.

    data: a directory with wav.scp and perhaps segments. InputError for sound that cannot be read.
    """
    recordings = Recordings(data, RATE, None, None)
    count = 0
    total = len(utterances)
    for recording, segments in list_recordings(data, recordings, total, 1.0, utterances):
        for sound in read_utterances(recordings, recording, segments, warn):
            count += 1
            yield sound
    if count < total:
        LOGGER.warning("%s: lacks %d of the %d utterances of the page", data, total - count, total)


def write_sounds(data: Path, stems: Mapping[str, str], out: Path) -> dict[str, str]:
    """Write `out`/sounds/STEM.wav of utterances; their paths below `out`, by utterance.

    stems: what the files of utterances are called. Other things as of `iter_sounds`.
    """
    files: dict[str, str] = {}
    for utt, samples in iter_sounds(data, stems):
        files[utt] = f"{FOLDER}/{stems[utt]}.wav"
        write_wave(samples, out / files[utt])
    return files


def write_wave(samples: np.ndarray, path: Path) -> None:
    """Write samples [N] in the range of int16."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, wave.open(str(temporary), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(samples.round().clip(-(2**15), 2**15 - 1).astype("<i2").tobytes())
