#!/usr/bin/env python3
"""Prepare the language recipe: numbers in twelve languages, spoken by eSpeak NG in noise.

Writes below OUT wav/ and data/{train,dev,test,test_several} as Kaldi lays them out, with features
and the language of each utterance (utt2lang). Train, dev and test share no voice. The utterances
of test are parts of 3, 10 and 30 seconds of its recordings; in those of test_several three of its
voices take turns. The same seed gives the same files.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
from with_mini import MINI  # before what it makes importable

# isort: split
import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from corpus import SAMPLE_RATE, write_wav
from espeak import Synthesiser
from languages import SETS, Part, cut, recordings

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import real_path
from bayes_asr.base.installed import find_missing, install_command
from bayes_asr.data.sound.feature_directories import write_features
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.kaldi_io.text import write_lines, write_mapping, write_speakers
from bayes_asr.recipe.scripts import checksum, prepare_once

BANDS = 40  # mel


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything below --out; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path("exp/language"), help="%(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of voices, numbers and noise")
    parser.add_argument("--voices", type=int, help="only the first few of each set")
    parser.add_argument("--force", action="store_true", help="prepare again what is complete")
    args = parser.parse_args(argv)
    recipe = {"seed": args.seed, "voices": args.voices, "version": version()}
    return prepare_once(
        lambda: prepare(real_path(args.out), args.seed, args.voices),
        *(args.out, parser.prog, recipe),
        force=args.force,
    )


def version() -> int:
    """A number that changes with the files that say what is spoken."""
    files = (*sorted(Path(__file__).parent.glob("*.py")), MINI / "corpus.py", MINI / "espeak.py")
    return checksum(files)


def prepare(out: Path, seed: int, voices: int | None = None) -> None:
    """Write the corpus below `out`; voices: of each set, by default all."""
    missing = find_missing("mini")
    if missing:
        raise InputError(f"the recipe needs {', '.join(missing)}: {install_command('mini')}")
    synthesiser = Synthesiser(seed)
    for name, kind in SETS.items():
        rng = np.random.default_rng([seed, *b"cuts"])
        parts: list[Part] = []
        for one in recordings(name, synthesiser, seed, voices):
            write_wav(one.samples, wav_of(out, one.name))
            parts += cut(one, kind.cuts, rng)
        directory = out / "data" / name
        write_data(out, directory, parts)
        write_features(directory, Analysis("fbank", SAMPLE_RATE, BANDS))
        print(summary(name, parts))


def wav_of(out: Path, recording: str) -> Path:
    """Where the sound of a recording is."""
    return out / "wav" / f"{recording}.wav"


def write_data(out: Path, directory: Path, parts: Sequence[Part]) -> None:
    """Write the tables of a data directory whose utterances are parts of recordings."""
    spoken = sorted({part.recording for part in parts})
    parts = sorted(parts, key=lambda part: part.name)
    write_mapping(((one, str(wav_of(out, one))) for one in spoken), directory / "wav.scp")
    write_lines(
        (
            f"{part.name} {part.recording} {part.start:.2f} {part.start + part.seconds:.2f}"
            for part in parts
        ),
        directory / "segments",
    )
    write_mapping(((p.name, f"{p.seconds:.2f}") for p in parts), directory / "utt2dur")
    write_mapping(((p.name, p.language) for p in parts), directory / "utt2lang")
    write_speakers({p.name: p.speaker for p in parts}, directory)


def summary(name: str, parts: Sequence[Part]) -> str:
    """One line: how much speech there is."""
    voices = len({part.speaker for part in parts})
    languages = len({part.language for part in parts})
    minutes = sum(part.seconds for part in parts) / 60
    return (
        f"{name}: {voices} voices, {languages} languages, {len(parts)} utterances,"
        f" {minutes:.1f} minutes"
    )


if __name__ == "__main__":
    sys.exit(main())
