"""CTM files: each recognised word with its recording, channel, time and confidence."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.base.safe_pickle import loadable
from bayes_asr.decode.lattices.mbr import TimedWord
from bayes_asr.kaldi_io.binary import iter_lines, refuse_repeated
from bayes_asr.kaldi_io.segments import read_segments
from bayes_asr.kaldi_io.text import write_lines

FILES = "reco2file_and_channel"
FRAME_SHIFT = 0.01
CtmLine = tuple[str, str, float, float, str, float]
"""Recording, channel, begin and duration in seconds, label, confidence."""


@loadable
class TimedLabel(NamedTuple):
    """A word or phone with its times in frames and its posterior."""

    label: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True)
class Place:
    """The place of an utterance: file and channel by the names that an STM uses, and its begin."""

    recording: str
    channel: str
    begin: float


def read_places(data_dir: Path) -> dict[str, Place] | None:
    """The places of the utterances of a data directory; None without `segments`.

    `reco2file_and_channel` (`recording file channel`) gives recordings the names that the STM has;
    without it they keep theirs, in the channel of `segments`.  Kaldi: utils/convert_ctm.pl.
    """
    segments = data_dir / "segments"
    if not is_there(segments):
        return None
    files = read_files_and_channels(data_dir)
    places = {}
    for utt, recording, side, begin, _ in read_segments(segments):
        if files is not None and recording not in files:
            raise InputError(
                f"{data_dir / FILES}: lacks {recording}, the recording of {utt}; add it"
            )
        file, channel = files[recording] if files is not None else (recording, name_channel(side))
        places[utt] = Place(file, channel, begin)
    return places


def name_channel(channel: int | str | None) -> str:
    """The channel of a CTM or RTTM, counted from 1, of one counted from 0; 1 where none is named,
    or the mean of all.
    """
    return str(channel + 1) if isinstance(channel, int) else "1"


def read_files_and_channels(data_dir: Path) -> dict[str, tuple[str, str]] | None:
    """File and channel of each recording of a data directory; None without FILES."""
    path = data_dir / FILES
    if not is_there(path):
        return None
    files: dict[str, tuple[str, str]] = {}
    for number, fields in iter_lines(path):
        if len(fields) != 3:
            raise InputError(f"{path}, line {number}: not `recording file channel`")
        recording, file, channel = fields
        refuse_repeated(files, recording, path, number)
        files[recording] = file, channel
    return files


def write_ctm(
    transcripts: Iterable[tuple[str, list[TimedWord]]],
    symbols: Mapping[int, str],
    path: Path,
    frame_shift: float = FRAME_SHIFT,
    places: Mapping[str, Place] | None = None,
) -> None:
    """Write `recording channel begin duration word confidence` lines, times in seconds.

    Without `places` each utterance is a recording of its own, in channel 1, as lattice-to-ctm-conf
    writes it; with them the words of all are in the order of their times.
    """
    lines: Iterable[CtmLine] = (
        line
        for utt, words in transcripts
        for line in time_lines(
            find_place(utt, places),
            (TimedLabel(symbols[w.word], w.start, w.end, w.confidence) for w in words),
            frame_shift,
        )
    )
    # As `sort +0 -1 +1 -2 +2nb -3` of convert_ctm.pl: by recording, channel and time.
    if places is not None:
        lines = sorted(lines, key=lambda line: line[:3])
    write_lines(map(format_line, lines), path)


def format_line(line: CtmLine) -> str:
    """A line as text."""
    recording, channel, begin, length, label, confidence = line
    return f"{recording} {channel} {begin:.2f} {length:.2f} {label} {confidence:.2f}"


def find_place(utt: str, places: Mapping[str, Place] | None) -> Place:
    """The place of an utterance; without `places` it is a recording of its own."""
    if places is None:
        return Place(utt, "1", 0.0)
    if utt not in places:
        raise InputError(f"{utt} was decoded, but segments lacks it; score with the data decoded")
    return places[utt]


def time_lines(place: Place, labels: Iterable[TimedLabel], frame_shift: float) -> Iterator[CtmLine]:
    """The lines of the words, or phones, of an utterance."""
    shift = np.float32(frame_shift)  # Kaldi's precision: durations are rounded from it
    for timed in labels:
        start, end = np.float32(timed.start), np.float32(timed.end)
        begin = place.begin + float(f"{shift * start:.2f}")  # rounded first, as by Kaldi
        length = float(shift * (end - start))
        yield place.recording, place.channel, begin, length, timed.label, timed.confidence
