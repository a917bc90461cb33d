"""Report of a text against a long recording: the times of its lines, and what either lacks."""

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path

from bayes_asr.base.files import replacing
from bayes_asr.decode.align_long import LongAlignment
from bayes_asr.kaldi_io.text import write_lines, write_mapping, write_speakers, write_text


@dataclass(frozen=True)
class PlacedLine:
    """A line of a text, counted from 1, of so many words, of which `spoken` are in the recording,
    from `start` to `end`, in seconds; None where none is.
    """

    line: int
    words: int
    spoken: int
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

        placed = [
            _place_line(aligned, number, range(firsts[number - 1], firsts[number]))
            for number in range(1, len(lines) + 1)
        ]
        unsaid = [
            UnsaidPassage(line_of(begin), line_of(end - 1), text[begin:end])
            for begin, end in aligned.find_unsaid(len(text))
        ]
        extra = [[round(begin, 2), round(end, 2)] for begin, end in aligned.find_extra()]
        return cls(placed, unsaid, extra, _list_passages(placed))

    def summarise(self) -> list[str]:
        """Lines that name what is missing on either side, and what is elsewhere."""
        words = sum(line.words for line in self.lines)
        spoken = sum(line.spoken for line in self.lines)
        parts = [f"{spoken} of {words} words of {len(self.lines)} lines are in the sound"]
        parts += [
            f"lines {passage.first_line} to {passage.last_line}: {len(passage.words)} words are not"
            f" in the sound: {' '.join(passage.words)}"
            for passage in self.unsaid
        ]
        parts += [f"{begin:.2f} to {end:.2f} s: speech without text" for begin, end in self.extra]
        parts += [
            f"lines {later[0]} to {later[1]} come behind lines {passage[0]} to {passage[1]}"
            for passage, later in pairwise(self.order)
        ]
        return parts

    def write(self, recording: str, file: Path, lines: Sequence[Sequence[str]], out: Path) -> None:
        """Write lines.json, and a data directory of the lines that are said from end to end."""
        with replacing(out / "lines.json") as temporary:
            temporary.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        entire = [
            (f"{recording}-{line.line:06}", line)
            for line in self.lines
            if line.spoken == line.words and line.spoken
        ]
        rows = (f"{utt} {recording} {line.start:.2f} {line.end:.2f}" for utt, line in entire)
        write_lines(rows, out / "segments")
        write_text([(utt, lines[line.line - 1]) for utt, line in entire], out / "text")
        write_mapping([(recording, str(file))], out / "wav.scp")
        write_speakers({utt: recording for utt, _ in entire}, out)


def _place_line(aligned: LongAlignment, number: int, indices: range) -> PlacedLine:
    """A line whose words have the indices."""
    spoken = [aligned.words[index] for index in indices if index in aligned.words]
    if not spoken:
        return PlacedLine(number, len(indices), 0, None, None)
    start, end = min(word.start for word in spoken), max(word.end for word in spoken)
    shift = aligned.frame_shift
    return PlacedLine(
        number, len(indices), len(spoken), round(start * shift, 3), round(end * shift, 3)
    )


def _list_passages(lines: Sequence[PlacedLine]) -> list[list[int]]:
    """Runs [first, last] of lines that follow each other in the recording as in the text."""
    passages: list[list[int]] = []
    for line in sorted((x for x in lines if x.start is not None), key=lambda x: x.start or 0.0):
        if passages and line.line > passages[-1][1]:
            passages[-1][1] = line.line
        else:
            passages.append([line.line, line.line])
    return passages
