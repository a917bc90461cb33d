"""Report of a text against a long recording: the times of its lines, and what either lacks."""

import json
import os
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, groupby, pairwise
from pathlib import Path

from bayes_asr.base.errors import count_of
from bayes_asr.base.files import discard, is_there, read_bytes, replacing, together
from bayes_asr.base.log import LOGGER
from bayes_asr.base.places import refuse_foreign
from bayes_asr.data.sound.audio import STDIN, Channel
from bayes_asr.data.sound.feature_directories import FILES
from bayes_asr.decode.align_long import LongAlignment
from bayes_asr.kaldi_io.text import write_lines, write_speakers

MARK = "lines.json"  # of a folder of ours
DATA_DIR = ("segments", "text", "wav.scp", "utt2spk", "spk2utt")


def list_report(out: Path) -> list[Path]:
    """The files of the report that a folder holds, if any, and the features of its lines."""
    return [out / name for name in (MARK, *DATA_DIR, *FILES)] if (out / MARK).exists() else []


def refuse_data_directory(out: Path) -> None:
    """InputError where a report would be written among the files of a data directory."""
    if not list_report(out):
        refuse_foreign(out, DATA_DIR, "align")


@dataclass(frozen=True)
class PlacedLine:
    """A line of a text, counted from 1, of so many words, of which `spoken` are in the recording.

    together: the most of them between which nothing else is said; `start` and `end` in seconds are
    those of these words, None where none is spoken.
    """

    line: int
    words: int
    spoken: int
    together: int
    start: float | None
    end: float | None


@dataclass(frozen=True)
class UnsaidPassage:
    """Words in a row that are not in the recording, from a line to another; counted from 1."""

    first_line: int
    last_line: int
    words: list[str]


@dataclass(frozen=True)
class LongReport:
    """A text against a recording.

    extra: [begin, end] in seconds of speech that is not in the text; order: [first, last] lines of
    passages, as they follow each other in the recording.
    """

    lines: list[PlacedLine]
    unsaid: list[UnsaidPassage]
    extra: list[list[float]]
    order: list[list[int]]

    @classmethod
    def of(cls, aligned: LongAlignment, lines: Sequence[Sequence[str]]) -> "LongReport":
        """The report of an alignment of the lines of a text."""
        firsts = [0, *accumulate(map(len, lines))]
        text = [word for line in lines for word in line]

        def line_of(index: int) -> int:
            return bisect_right(firsts, index)

        parts = defaultdict[int, list[list[int]]](list)
        for run in _find_runs(aligned):
            for number, part in groupby(run, line_of):
                parts[number].append([*part])
        placed = [
            _place_line(aligned, number, len(line), parts[number])
            for number, line in enumerate(lines, 1)
        ]
        unsaid = [
            UnsaidPassage(line_of(begin), line_of(end - 1), text[begin:end])
            for begin, end in aligned.find_unsaid(len(text))
        ]
        extra = [[round(begin, 2), round(end, 2)] for begin, end in aligned.find_extra()]
        return cls(placed, unsaid, extra, _list_passages(placed))

    @property
    def words(self) -> int:
        """The words of the text."""
        return sum(line.words for line in self.lines)

    @property
    def spoken(self) -> int:
        """Those of them that are in the recording."""
        return sum(line.spoken for line in self.lines)

    def summarise(self) -> list[str]:
        """Lines that name what is missing on either side, and what is elsewhere."""
        lines = count_of(len(self.lines), "line")
        parts = [f"{self.spoken} of {count_of(self.words, 'word')} of {lines} are in the sound"]
        parts += [
            f"{_name_lines(passage.first_line, passage.last_line)}:"
            f" {count_of(len(passage.words), 'word is', 'words are')} not in the sound:"
            f" {' '.join(passage.words)}"
            for passage in self.unsaid
        ]
        parts += [f"{begin:.2f} to {end:.2f} s: speech without text" for begin, end in self.extra]
        parts += [
            f"{_name_lines(*later)}: said behind {_name_lines(*passage)}"
            for passage, later in pairwise(self.order)
        ]
        return parts

    def write(
        self,
        recording: str,
        file: Path,
        lines: Sequence[Sequence[str]],
        out: Path,
        channel: Channel | None = None,
    ) -> None:
        """Write lines.json, and a data directory of the lines that are said from end to end.

        Features that were computed there of other lines go. channel: of the file, from 0.
        """
        entire = [
            (f"{recording}-{line.line:06}", line)
            for line in self.lines
            if line.together == line.words and line.words
        ]
        side = f" {channel}" if isinstance(channel, int) else ""
        # A relative path would be one of wherever the folder is read.
        sound = STDIN if str(file) == STDIN else os.path.abspath(file)
        tables = {
            "segments": [f"{u} {recording} {x.start:.2f} {x.end:.2f}{side}" for u, x in entire],
            "text": [" ".join((u, *lines[x.line - 1])) for u, x in entire],
            "wav.scp": [f"{recording} {sound}"],
        }
        stale = () if all(_holds(out / name, rows) for name, rows in tables.items()) else FILES
        with together(out):
            for name in stale:
                discard(out / name)
            with replacing(out / MARK) as temporary:
                temporary.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
            for name, rows in tables.items():
                write_lines(rows, out / name)
            write_speakers({utt: recording for utt, _ in entire}, out)
        if channel == "mean":
            LOGGER.warning(
                "%s: segments names no mean of channels; say it again: features %s --channel mean",
                *(out, out),
            )


def _holds(path: Path, rows: Sequence[str]) -> bool:
    """Whether a file is there that has these lines."""
    return is_there(path) and read_bytes(path) == "".join(f"{row}\n" for row in rows).encode()


def _name_lines(first: int, last: int) -> str:
    """A line, or lines that follow each other."""
    return f"lines {first} to {last}" if last > first else f"line {first}"


def _find_runs(aligned: LongAlignment) -> list[list[int]]:
    """Runs of words of the text between which nothing else is said, in the order of the sound."""
    words, shift = aligned.words, aligned.frame_shift
    extra = [begin for begin, _ in aligned.find_extra()]

    def joined(word: int, later: int) -> bool:
        begin, end = words[word].end * shift, words[later].start * shift
        return bisect_left(extra, begin) == bisect_left(extra, end)

    return _split_runs({index: word.start for index, word in words.items()}, joined)


def _place_line(
    aligned: LongAlignment, number: int, words: int, parts: Sequence[Sequence[int]]
) -> PlacedLine:
    """A line of so many words, whose spoken ones are in parts, between which other things are."""
    if not parts:
        return PlacedLine(number, words, 0, 0, None, None)
    largest = max(parts, key=len)
    start, end = (
        round(frames * aligned.frame_shift, 3)
        for frames in (aligned.words[largest[0]].start, aligned.words[largest[-1]].end)
    )
    return PlacedLine(number, words, sum(map(len, parts)), len(largest), start, end)


def _list_passages(lines: Sequence[PlacedLine]) -> list[list[int]]:
    """Runs [first, last] of lines that follow each other in the recording as in the text.

    A line of which less than half is together is at no place.
    """
    starts = {
        line.line: line.start
        for line in lines
        if line.start is not None and 2 * line.together >= line.words
    }
    return [[run[0], run[-1]] for run in _split_runs(starts)]


def _split_runs(
    starts: Mapping[int, float], joined: Callable[[int, int], bool] = lambda _, __: True
) -> list[list[int]]:
    """Runs of numbers that follow each other by size and by their starts, and are joined."""
    following = dict(pairwise(sorted(starts)))
    runs: list[list[int]] = []
    for number in sorted(starts, key=lambda number: (starts[number], number)):
        if runs and following.get(runs[-1][-1]) == number and joined(runs[-1][-1], number):
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs
