#!/usr/bin/env python3
"""Prepare the Arabic Speech Commands: 40 words of 30 speakers, as Kaldi data directories.

CORPUS holds dataset/WORD/SPEAKER_NO_ROUND.wav and train.csv, val.csv and test.csv, as the corpus is
published (Ghandoura, Hjabo and Al Dakkak, 2021; CC BY 4.0). Its own split is taken: 18 speakers are
train, 6 dev and 6 test. Writes data/{train,dev,test} with filter banks and the word of each
utterance (utt2word).
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import argparse
import csv
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import real_path
from bayes_asr.data.sound.feature_directories import write_features
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.kaldi_io.text import write_mapping, write_speakers
from bayes_asr.recipe.scripts import checksum, prepare_once

SCRIPT = Path(__file__)
SETS = {"train": "train.csv", "dev": "val.csv", "test": "test.csv"}
FILE = re.compile(r"dataset/(?P<word>[^/]+)/(?P<speaker>\d+)_NO_(?P<round>\d+)\.wav")
ANALYSIS = Analysis("fbank", 16000, 40)


@dataclass(frozen=True)
class Utterance:
    """A word that a speaker said."""

    name: str
    speaker: str
    word: str
    file: Path


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything below --out; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "--corpus", type=Path, required=True, help="folder with dataset/ and its tables"
    )
    parser.add_argument("--out", type=Path, default=Path("exp/commands"), help="%(default)s")
    parser.add_argument("--force", action="store_true", help="prepare again what is complete")
    args = parser.parse_args(argv)
    corpus, out = real_path(args.corpus), real_path(args.out)
    made_of = {"corpus": str(corpus), "files": fingerprint(corpus), "version": checksum([SCRIPT])}
    return prepare_once(lambda: prepare(corpus, out), out, parser.prog, made_of, force=args.force)


def fingerprint(corpus: Path) -> int:
    """A number that changes with the names, sizes and times of the tables and sounds."""
    files = sorted(file for kind in ("*.csv", "dataset/*/*.wav") for file in corpus.glob(kind))
    known = [(str(file), file.stat()) for file in files if file.is_file()]
    listed = "".join(f"{name} {status.st_size} {status.st_mtime_ns}\n" for name, status in known)
    return zlib.crc32(os.fsencode(listed))


def prepare(corpus: Path, out: Path) -> None:
    """Write the three sets below `out`; InputError where a speaker is in two of them."""
    sets = {name: list(read_set(corpus, table)) for name, table in SETS.items()}
    heard: dict[str, str] = {}
    for name, utterances in sets.items():
        for speaker in {utt.speaker for utt in utterances}:
            if heard.setdefault(speaker, name) != name:
                raise InputError(
                    f"{corpus / SETS[name]}: speaker {speaker} is in {SETS[heard[speaker]]} too;"
                    " take the tables of the corpus as they are published"
                )
    for name, utterances in sets.items():
        directory = out / "data" / name
        write_mapping(((u.name, str(u.file)) for u in utterances), directory / "wav.scp")
        write_mapping(((u.name, u.word) for u in utterances), directory / "utt2word")
        write_speakers({u.name: u.speaker for u in utterances}, directory)
        write_features(directory, ANALYSIS)
        speakers, words = ({getattr(u, of) for u in utterances} for of in ("speaker", "word"))
        print(f"{name}: {len(speakers)} speakers, {len(words)} words, {len(utterances)} utterances")


def read_set(corpus: Path, table: str) -> Iterator[Utterance]:
    """The utterances of a table, in the order of their names."""
    path = corpus / table
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = []
    for number, row in enumerate(rows, 2):
        name = FILE.fullmatch(row.get("file") or "")
        if not name or name["word"] != row.get("class"):
            raise InputError(
                f"{path}, line {number}: not dataset/WORD/SPEAKER_NO_ROUND.wav and WORD:"
                f" {','.join(map(str, row.values()))[:60]}"
            )
        word = name["word"].replace(" ", "_")
        utterance = f"{name['speaker']}_{word}_{name['round']}"
        found.append(Utterance(utterance, name["speaker"], word, corpus / row["file"]))
    if not found:
        raise InputError(f"{path}: names no files; take the tables of the corpus")
    yield from sorted(found, key=lambda utt: utt.name)


if __name__ == "__main__":
    sys.exit(main())
