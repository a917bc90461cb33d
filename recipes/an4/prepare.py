#!/usr/bin/env python3
"""Prepare CMU's AN4 corpus: Kaldi data directories, dictionary and bigram, from audio or cepstra.

CORPUS holds etc/ and, as CMU publishes the corpus, either wav/ (NIST SPHERE) or feat/ (Sphinx's
cepstra, 13 a frame, which then are the features). Six of the training speakers make the dev set.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import real_path
from bayes_asr.data.features.front_end import cmvn_statistics
from bayes_asr.decode.graph.dictionary import write_dictionary
from bayes_asr.decode.graph.ngram import estimate_witten_bell, write_arpa
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.text import write_lines, write_mapping, write_speakers, write_text
from bayes_asr.recipe.scripts import exit_status

DEV_SPEAKERS = Path(__file__).with_name("dev_speakers.txt")
CEPSTRA = 13  # a frame
UNKNOWN, SILENCE = "<UNK>", "SIL"
MARKS = {"<s>", "</s>", "<sil>"}  # in some releases of the transcripts
TRANSCRIPT = re.compile(r"(.*)\((\S+)\)\s*")


@dataclass(frozen=True)
class Utterance:
    """What a line of .fileids and one of .transcription say; `file` is below wav/ or feat/."""

    name: str
    speaker: str
    words: tuple[str, ...]
    file: str


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything below --out; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "--corpus", type=Path, required=True, help="folder with etc/ and wav/ or feat/"
    )
    parser.add_argument("--out", type=Path, default=Path("exp/an4"), help="default %(default)s")
    args = parser.parse_args(argv)
    return exit_status(parser.prog, lambda: prepare(real_path(args.corpus), args.out))


def prepare(corpus: Path, out: Path) -> None:
    """Write data/{train,dev,test}, data/local/dict and data/local/lm.arpa below `out`."""
    spoken = [line[0] for _, line in iter_lines(DEV_SPEAKERS)]
    known = list(utterances(corpus, "train"))
    absent = {*spoken} - {utt.speaker for utt in known}
    if absent:
        raise InputError(
            f"{corpus}: speakers of {DEV_SPEAKERS.name} are not there: {sorted(absent)}"
        )
    sets = {
        "train": [utt for utt in known if utt.speaker not in spoken],
        "dev": [utt for utt in known if utt.speaker in spoken],
        "test": list(utterances(corpus, "test")),
    }
    for name, members in sets.items():
        write_data(members, corpus, out / "data" / name)
        words = sum(len(utt.words) for utt in members)
        speakers = len({utt.speaker for utt in members})
        print(f"{name}: {speakers} speakers, {len(members)} utterances, {words} words")
    local = out / "data" / "local"
    lexicon = list(pronunciations(corpus / "etc" / "an4.dic"))
    phones = sorted({phone for _, spelled in lexicon for phone in spelled})
    entries = [(UNKNOWN, [SILENCE]), *lexicon]
    write_dictionary(entries, local / "dict", silence=[SILENCE], questions=[[SILENCE], phones])
    bigram = estimate_witten_bell(
        (utt.words for utt in sets["train"]), 2, [word for word, _ in lexicon]
    )
    write_arpa(bigram, local / "lm.arpa")


def utterances(corpus: Path, name: str) -> Iterator[Utterance]:
    """The utterances of one of CMU's two sets; `an4_clstk/fash/an251-fash-b` is spoken by fash."""
    etc = corpus / "etc"
    transcripts = {}
    for number, (line,) in iter_lines(etc / f"an4_{name}.transcription", splits=0):
        match = TRANSCRIPT.fullmatch(line)
        if not match:
            raise InputError(f"{etc}/an4_{name}.transcription, line {number}: no (file) at its end")
        transcripts[match[2]] = tuple(word for word in match[1].split() if word not in MARKS)
    for number, (file, *_) in iter_lines(etc / f"an4_{name}.fileids"):
        *_, speaker, stem = ("", "", *file.split("/"))
        if not speaker or stem not in transcripts:
            raise InputError(
                f"{etc}/an4_{name}.fileids, line {number}: {file} has no transcript or no speaker"
            )
        yield Utterance(f"{speaker}-{stem}", speaker, transcripts[stem], file)


def pronunciations(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The words of a Sphinx dictionary and their phones; `WORD(2)` is WORD."""
    for number, (word, *phones) in iter_lines(path):
        if not phones:
            raise InputError(f"{path}, line {number}: {word} has no phones")
        yield re.sub(r"\(\d+\)$", "", word), phones


def write_data(members: Sequence[Utterance], corpus: Path, directory: Path) -> None:
    """Write a data directory that names the audio or, where there is none, holds the cepstra."""
    members = sorted(members, key=lambda utt: utt.name)
    write_speakers({utt.name: utt.speaker for utt in members}, directory)
    write_text(((utt.name, utt.words) for utt in members), directory / "text")
    audio = [(utt.name, corpus / "wav" / f"{utt.file}.sph") for utt in members]
    if (corpus / "wav").is_dir():
        for utt, file in audio:
            if not file.is_file():
                raise InputError(f"{file} is missing: the audio of {utt}")
        write_mapping(((utt, str(file)) for utt, file in audio), directory / "wav.scp")
        return
    cepstra = {utt.name: read_cepstra(corpus / "feat" / f"{utt.file}.mfc") for utt in members}
    by_speaker: dict[str, list[np.ndarray]] = {}
    for utt in members:
        by_speaker.setdefault(utt.speaker, []).append(cepstra[utt.name])
    sums = (
        (speaker, cmvn_statistics(matrices)) for speaker, matrices in sorted(by_speaker.items())
    )
    write_matrices(cepstra.items(), directory / "feats.ark", directory / "feats.scp")
    write_matrices(sums, directory / "cmvn.ark", directory / "cmvn.scp")
    write_lines([json.dumps({"kind": "Sphinx MFCC"})], directory / "frontend.json")  # for tables


def read_cepstra(path: Path) -> np.ndarray:
    """Read a Sphinx file, a big-endian count of values and the values, as float32 [T, 13]."""
    content = path.read_bytes()
    count = int.from_bytes(content[:4], "big")
    if len(content) != 4 + 4 * count or not count or count % CEPSTRA:
        raise InputError(
            f"{path}: {len(content)} bytes for {count} values in frames of {CEPSTRA}: copy it again"
        )
    return np.frombuffer(content, ">f4", offset=4).reshape(-1, CEPSTRA).astype(np.float32)


if __name__ == "__main__":
    sys.exit(main())
