#!/usr/bin/env python3
"""Copy a prepared data directory for Kaldi's programs, whatever they could not read converted.

usage: kaldi_data.py DATA COPY

Sound other than RIFF becomes RIFF files below COPY/wav. Without wav.scp, feats.scp is copied.
"""

import shutil
import sys
import wave
from collections.abc import Iterator
from pathlib import Path

from bayes_asr.errors import InputError
from bayes_asr.files import replacing
from bayes_asr.tables.scp import read_scp
from bayes_asr.tables.text import write_mapping

TABLES = [
    *("text", "utt2spk", "spk2utt", "segments", "reco2file_and_channel", "spk2gender"),
    *("stm", "glm"),
]


def main(data: Path, copy: Path) -> int:
    """Copy; return 0, or 1 after one line that says what is wrong."""
    copy.mkdir(parents=True, exist_ok=True)
    try:
        for name in TABLES:
            if (data / name).exists():
                shutil.copy(data / name, copy / name)
        if (data / "wav.scp").exists():
            write_mapping(readable(read_scp(data / "wav.scp"), copy / "wav"), copy / "wav.scp")
        elif (data / "feats.scp").exists():
            features = read_scp(data / "feats.scp").items()
            absolute = ((utt, str(Path(file).absolute())) for utt, file in features)
            write_mapping(absolute, copy / "feats.scp")
        else:
            raise InputError(f"{data}: neither wav.scp nor feats.scp: prepare the recipe's data")
    except (InputError, OSError) as error:
        print(f"{Path(__file__).name}: error: {error}", file=sys.stderr)
        return 1
    return 0


def readable(files: dict[str, str], folder: Path) -> Iterator[tuple[str, str]]:
    """Absolute names of the files, in `folder` those that had to be converted."""
    folder = folder.absolute()
    for name, file in files.items():
        with Path(file).open("rb") as source:
            riff = source.read(4) == b"RIFF"
        target = Path(file).absolute() if riff else folder / f"{name}.wav"
        if not riff:
            folder.mkdir(exist_ok=True)
            convert(Path(file), target)
        yield name, str(target)


def convert(source: Path, target: Path) -> None:
    """Write the sound as RIFF of 16 bits, a channel."""
    from bayes_asr.sound.audio import read_audio  # slow to import, and seldom needed

    samples, rate = read_audio(source)
    with replacing(target) as temporary, wave.open(str(temporary), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
