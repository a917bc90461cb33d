"""The sound of utterances that a page lists, as files beside it."""

import wave
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bayes_asr.base.files import replacing
from bayes_asr.base.log import LOGGER
from bayes_asr.data.sound.audio import warn
from bayes_asr.data.sound.spectrum import Recordings, list_recordings, read_utterances

RATE = 16000  # Hz
FOLDER = "sounds"


def write_sounds(data: Path, stems: Mapping[str, str], out: Path) -> dict[str, str]:
    """Write `out`/sounds/STEM.wav of utterances; their paths below `out`, by utterance.

    data: a directory with wav.scp and perhaps segments; stems: what the files of utterances are
    called. Those that `data` lacks are counted. InputError for sound that cannot be read.
    """
    recordings = Recordings(data, RATE, None, None)
    files: dict[str, str] = {}
    for recording, segments in list_recordings(data, recordings, len(stems), 1.0):
        listed = [segment for segment in segments if segment[0] in stems]
        if not listed and (segments or recording not in stems):
            continue
        for utt, samples in read_utterances(recordings, recording, listed, warn):
            files[utt] = f"{FOLDER}/{stems[utt]}.wav"
            _write_wave(samples, out / files[utt])
    if len(files) < len(stems):
        absent = len(stems) - len(files)
        LOGGER.warning("%s: lacks %d of the %d utterances of the page", data, absent, len(stems))
    return files


def _write_wave(samples: np.ndarray, path: Path) -> None:
    """Write samples [N] in the range of int16."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, wave.open(str(temporary), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(samples.round().clip(-(2**15), 2**15 - 1).astype("<i2").tobytes())
