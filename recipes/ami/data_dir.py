"""A set of AMI as a Kaldi data directory, line by line what egs/ami/s5b makes of it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from transcripts import DISTANT, Utterance

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import real_path
from bayes_asr.evaluate.score.glm import ENGLISH
from bayes_asr.kaldi_io.text import write_lines, write_mapping, write_speakers, write_text
from bayes_asr.recipe.folder.sounds import find_files

SOUNDS = {
    "ihm": re.compile(r"(\w+)\.Headset-(\d)\.wav", re.IGNORECASE),
    DISTANT: re.compile(r"(\w+)\.Array1-0(1)\.wav", re.IGNORECASE),
}
LONGEST_SPEAKER = 3000  # hundredths of a second: Kaldi's run.sh has 30 s where it meant 120
Recording = tuple[str, int]
"""Meeting and headset, or number of the distant microphone."""


@dataclass(frozen=True)
class WrittenSet:
    """What was written: how many utterances, hundredths of a second, and which sound is missing."""

    utterances: int
    duration: int
    recordings: int
    missing: list[str]
    left_out: list[str]


def find_sounds(corpus: Path, mic: str = "ihm") -> dict[Recording, Path]:
    """The files MEETING.Headset-N.wav, or of distant microphones MEETING.Array1-01.wav, at any
    depth below `corpus`, through links as well.
    """
    found: dict[Recording, Path] = {}
    for file in find_files(real_path(corpus)):
        if match := SOUNDS[mic].fullmatch(file.name):
            found.setdefault((match[1], int(match[2])), file)
    return found


def distinct(utterances: Iterable[Utterance]) -> list[Utterance]:
    """Sorted by name, each line once; InputError where one name has two transcripts."""
    chosen: dict[str, Utterance] = {}
    for utterance in utterances:
        twin = chosen.setdefault(utterance.name, utterance)
        if twin.words != utterance.words:
            raise InputError(
                f"{utterance.name}: said to be both {' '.join(twin.words)!r} and "
                f"{' '.join(utterance.words)!r}: correct the annotation"
            )
    return [chosen[name] for name in sorted(chosen)]


def without_overlap(utterances: Sequence[Utterance]) -> dict[str, Utterance]:
    """Sorted utterances by name; one that begins before its speaker has ended begins then.

    Only its segment moves, its name stays. One that would end before it begins is left out.
    """
    moved = {utterances[0].name: utterances[0]} if utterances else {}
    for before, utterance in pairwise(utterances):
        same = (before.recording, before.speaker) == (utterance.recording, utterance.speaker)
        start = max(before.end, utterance.start) if same else utterance.start
        if start < utterance.end:
            moved[utterance.name] = replace(utterance, start=start)
    return moved


def speakers_of(utterances: Mapping[str, Utterance]) -> dict[str, str]:
    """Kaldi's speaker of each utterance: parts of at most half a minute, numbered from 1."""
    parts: dict[str, list[list[str]]] = {}
    lengths: dict[str, int] = {}
    for name, utterance in sorted(utterances.items()):
        speaker = utterance.person
        length = utterance.end - utterance.start
        groups = parts.setdefault(speaker, [])
        if not groups or lengths[speaker] + length > LONGEST_SPEAKER:
            groups.append([])
            lengths[speaker] = 0
        groups[-1].append(name)
        lengths[speaker] += length
    return {
        name: f"{speaker}-{number:0{len(str(len(groups)))}d}"
        for speaker, groups in parts.items()
        for number, group in enumerate(groups, 1)
        for name in group
    }


def write_set(
    utterances: Sequence[Utterance],
    found: Mapping[Recording, Path],
    directory: Path,
    *,
    mend_overlaps: bool,
) -> WrittenSet:
    """Write text, segments, speakers, stm, glm and wav.scp of a set.

    utterances: distinct and sorted. wav.scp names the recordings that are there.
    """
    segments = without_overlap(utterances) if mend_overlaps else {u.name: u for u in utterances}
    recordings = {u.recording: u for u in segments.values()}
    sounds = {
        name: found[key]
        for name, u in recordings.items()
        if (key := (u.meeting, 1 if u.mic == DISTANT else u.channel)) in found
    }
    write_text(((name, u.words) for name, u in segments.items()), directory / "text")
    write_lines(map(_segment, segments, segments.values()), directory / "segments")
    write_lines(map(_stm, segments.values()), directory / "stm")
    write_speakers(speakers_of(segments), directory)
    write_lines(
        (f"{name} {utterance.file} A" for name, utterance in recordings.items()),
        directory / "reco2file_and_channel",
    )
    write_lines(ENGLISH.read_text(encoding="utf-8").splitlines(), directory / "glm")
    write_mapping(((name, str(path)) for name, path in sounds.items()), directory / "wav.scp")
    return WrittenSet(
        len(segments),
        sum(u.end - u.start for u in segments.values()),
        len(recordings),
        [name for name in recordings if name not in sounds],
        [u.name for u in utterances if u.name not in segments],
    )


def _seconds(hundredths: int) -> str:
    return f"{hundredths / 100:.6g}"


def _segment(name: str, utterance: Utterance) -> str:
    """A line of `segments`; the space at its end is Kaldi's."""
    start, end = _seconds(utterance.start), _seconds(utterance.end)
    return f"{name} {utterance.recording} {start} {end} "


def _stm(utterance: Utterance) -> str:
    """A line of `stm`, in which the speaker is not cut into parts."""
    start, end = _seconds(utterance.start), _seconds(utterance.end)
    return f"{utterance.file} A {utterance.person} {start} {end} {' '.join(utterance.words)} "
