#!/usr/bin/env python3
"""Prepare TIMIT, or the sample that NLTK distributes: Kaldi data directories, dictionary, bigram.

Writes below OUT data/{train,dev,test}, data/local/dict and data/local/lm.arpa, as Kaldi's
egs/timit/s5 does; in each set also the hand-marked times of the phones, phones.ctm.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from corpus import PARTS, SETS, Phone, Recording, chosen, read_phones, recordings

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import real_path
from bayes_asr.data.sound.audio import read_audio
from bayes_asr.decode.graph.dictionary import write_dictionary
from bayes_asr.decode.graph.ngram import estimate_witten_bell, write_arpa
from bayes_asr.kaldi_io.text import write_lines, write_mapping, write_speakers, write_text
from bayes_asr.recipe.scripts import exit_status

SILENCE = "sil"
OWN_LISTS = {name: Path(__file__).with_name(f"{name}_speakers.txt") for name in ("dev", "test")}
UNITS = ("utterances", "phones")
COMPLETE = {"train": (3696, None), "dev": (400, 15057), "test": (192, 7215)}
STM_HEAD = (
    ';; LABEL "O" "Overall" "Overall"',
    ';; LABEL "F" "Female" "Female speakers"',
    ';; LABEL "M" "Male" "Male speakers"',
)
GLM = (
    ";; empty.glm",
    "  [FAKE]     =>  %HESITATION     / [ ] __ [ ] ;; hesitation token",
)


@dataclass(frozen=True)
class Sentence:
    """A recording with its phones and its length in samples, at `rate` a second."""

    recording: Recording
    phones: list[Phone]
    samples: int
    rate: int

    @property
    def transcript(self) -> list[str]:
        """The phones without their times."""
        return [phone for _, phone in self.phones]

    @property
    def duration(self) -> str:
        """Seconds."""
        return f"{self.samples / self.rate:.6f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything below --out; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "--corpus", type=Path, required=True, help="folder of LDC's TRAIN and TEST, or the sample"
    )
    parser.add_argument("--out", type=Path, default=Path("exp/timit"), help="default %(default)s")
    for name in SETS:
        parser.add_argument(
            f"--{name}-speakers", type=Path, metavar="FILE", help="one in a line, your own choice"
        )
    args = parser.parse_args(argv)
    lists = {name: getattr(args, f"{name}_speakers") for name in SETS}
    lists = {name: path for name, path in lists.items() if path}
    return exit_status(
        parser.prog,
        lambda: prepare(real_path(args.corpus), args.out, lists),
    )


def prepare(corpus: Path, out: Path, lists: Mapping[str, Path]) -> None:
    """Write everything below `out`, of the speakers in `lists` or those of Kaldi's recipe."""
    spoken = recordings(corpus)
    as_published = spoken[0].part in PARTS
    complete = as_published and not lists
    sets = {}
    for name, members in chosen(spoken, {**(OWN_LISTS if as_published else {}), **lists}).items():
        sets[name] = [read(recording) for recording in members]
        tokens = sum(len(sentence.phones) for sentence in sets[name])
        if complete:
            check_counts(name, len(members), tokens, corpus)
        write_data(sets[name], out / "data" / name)
        speakers = len({recording.speaker for recording in members})
        print(f"{name}: {speakers} speakers, {len(members)} utterances, {tokens} phones")
    transcripts = [sentence.transcript for sentence in sets["train"]]
    phones = sorted({phone for transcript in transcripts for phone in transcript})
    speech = [phone for phone in phones if phone != SILENCE]
    local = out / "data" / "local"
    write_dictionary(
        [(phone, [phone]) for phone in phones],
        local / "dict",
        silence=[SILENCE],
        questions=[[SILENCE], speech],
    )
    write_arpa(estimate_witten_bell(transcripts, 2), local / "lm.arpa")


def check_counts(name: str, utterances: int, phones: int, corpus: Path) -> None:
    """Refuse a set of the complete corpus that has not as many utterances and phones as it has."""
    for found, due, what in zip((utterances, phones), COMPLETE[name], UNITS, strict=True):
        if due is not None and found != due:
            raise InputError(
                f"{corpus}: {name} has {found} {what}, but in the complete TIMIT {due}: copy the "
                f"corpus again, or name the speakers of a part of it by --{name}-speakers FILE"
            )


def read(recording: Recording) -> Sentence:
    """Read the marks of a recording and how long it is."""
    phones = read_phones(recording.marks)
    samples, rate = read_audio(recording.wav)
    if phones[-1][0] >= len(samples):
        raise InputError(
            f"{recording.marks}: {phones[-1][1]} begins at sample {phones[-1][0]}, but "
            f"{recording.wav.name} has {len(samples)}: copy both again"
        )
    return Sentence(recording, phones, len(samples), rate)


def write_data(sentences: Sequence[Sentence], directory: Path) -> None:
    """Write a Kaldi data directory with stm, glm, durations and times of phones."""
    spoken = [sentence.recording for sentence in sentences]
    sexes = {recording.speaker: recording.sex for recording in spoken}
    write_mapping(((r.name, str(r.wav)) for r in spoken), directory / "wav.scp")
    write_speakers({r.name: r.speaker for r in spoken}, directory)
    write_mapping(sorted(sexes.items()), directory / "spk2gender")
    write_mapping(((s.recording.name, s.duration) for s in sentences), directory / "utt2dur")
    write_lines([*STM_HEAD, *map(stm_line, sentences)], directory / "stm")
    write_lines(GLM, directory / "glm")
    write_lines((line for s in sentences for line in ctm_lines(s)), directory / "phones.ctm")
    write_text(((s.recording.name, s.transcript) for s in sentences), directory / "text")


def stm_line(sentence: Sentence) -> str:
    """`utterance 1 speaker start end <label> phones`, times in seconds."""
    spoken, phones = sentence.recording, " ".join(sentence.transcript)
    label = f"<O,{spoken.sex.upper()}>"
    return f"{spoken.name} 1 {spoken.speaker} 0.0 {sentence.duration} {label} {phones}"


def ctm_lines(sentence: Sentence) -> Iterator[str]:
    """`utterance 1 start duration phone` of each phone, in seconds and exact to the sample."""
    starts = [0, *(first for first, _ in sentence.phones[1:]), sentence.samples]
    for (_, phone), (start, end) in zip(sentence.phones, pairwise(starts), strict=True):
        times = f"{start / sentence.rate:.7f} {(end - start) / sentence.rate:.7f}"
        yield f"{sentence.recording.name} 1 {times} {phone}"


if __name__ == "__main__":
    sys.exit(main())
