#!/usr/bin/env python3
"""Copy a prepared data directory for Kaldi's programs, whatever they could not read converted.

usage: kaldi_data.py DATA COPY

Sound other than 16-bit RIFF of 16 kHz becomes such below COPY/wav. Without wav.scp, feats.scp is
copied.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import shutil
import sys
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import replacing
from bayes_asr.base.programs import open_pipe
from bayes_asr.kaldi_io.ark import read_scp
from bayes_asr.kaldi_io.rxfilename import is_pipe
from bayes_asr.kaldi_io.text import write_mapping
from bayes_asr.recipe.scripts import exit_status

TABLES = [
    *("text", "utt2spk", "spk2utt", "segments", "reco2file_and_channel", "spk2gender"),
    *("stm", "glm"),
]

RATE = 16000  # Hz, the only one that compute-mfcc-feats takes without an option


def main(data: Path, copy: Path) -> int:
    """Copy; return 0, or 1 after one line that says what is wrong."""
    return exit_status(Path(__file__).name, lambda: copy_data(data, copy))


def copy_data(data: Path, copy: Path) -> None:
    """Copy; InputError where there are neither sounds nor features."""
    copy.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        if (data / name).exists():
            shutil.copy(data / name, copy / name)
    if (data / "wav.scp").exists():
        write_mapping(readable(read_files(data / "wav.scp"), copy / "wav"), copy / "wav.scp")
    elif (data / "feats.scp").exists():
        features = read_files(data / "feats.scp").items()
        absolute = ((utt, str(Path(file).absolute())) for utt, file in features)
        write_mapping(absolute, copy / "feats.scp")
    else:
        raise InputError(f"{data}: neither wav.scp nor feats.scp: prepare the recipe's data")


def read_files(scp: Path) -> dict[str, str]:
    """An index without commands: here nothing runs them, and nobody can say --allow-pipes."""
    files = read_scp(scp, open_pipe=open_pipe)
    for name, file in files.items():
        if is_pipe(file):
            raise InputError(f"{scp}: {name} is the command {file!r}; write its output to a file")
    return files


def readable(files: dict[str, str], folder: Path) -> Iterator[tuple[str, str]]:
    """Absolute names of the files, in `folder` those that had to be converted."""
    folder = folder.absolute()
    remarks: list[tuple[str, str]] = []
    for name, file in files.items():
        if is_kaldis(file):
            yield name, str(Path(file).absolute())
            continue
        folder.mkdir(exist_ok=True)
        target = folder / f"{quote(name, safe='')}.wav"  # a recording may be called ../a/b
        convert(Path(file), target, lambda *remark: remarks.append(remark))
        yield name, str(target)
    if remarks:
        from bayes_asr.data.sound.feature_directories import report_remarks

        report_remarks(remarks)


def is_kaldis(file: str) -> bool:
    """Whether Kaldi reads the file as it is: RIFF of 16-bit linear samples at 16 kHz."""
    try:
        with wave.open(file, "rb") as sound:
            return (sound.getsampwidth(), sound.getframerate()) == (2, RATE)
    except (wave.Error, EOFError):
        return False


def convert(source: Path, target: Path, announce: Callable[[str, str], None]) -> None:
    """Write all channels as RIFF of 16 bits at 16 kHz; another rate of the source is announced."""
    import numpy as np  # these are slow to import, and seldom needed

    from bayes_asr.data.sound.audio import bring_to_rate, read_channels

    samples = bring_to_rate(*read_channels(source), RATE, str(source), announce)
    whole = np.clip(np.rint(samples), -(2**15), 2**15 - 1).astype("<i2")
    with replacing(target) as temporary, wave.open(str(temporary), "wb") as file:
        file.setnchannels(whole.shape[1])
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(whole.tobytes())


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
