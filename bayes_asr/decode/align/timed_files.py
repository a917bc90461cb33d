"""Aligned words and phones as files: CTMs, confidences, and TextGrids."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import writing
from bayes_asr.decode.align.best_path import Result
from bayes_asr.decode.align.textgrid import (
    TextGrids,
    TimedAlignment,
    TimedResult,
    name_textgrid,
)
from bayes_asr.decode.lattices.ctm import CtmLine, Place, find_place, format_line, time_lines

FILES = ("words.ctm", "phones.ctm")
CONFIDENCES = "confidence.txt"


def list_files(out: Path | None, textgrid: Path | None, recordings: Iterable[str]) -> list[Path]:
    """The files of timed words and phones: CTMs and confidences in `out`, TextGrids in theirs."""
    tables = [out / name for name in (*FILES, CONFIDENCES)] if out else []
    return tables + [textgrid / name_textgrid(name) for name in recordings if textgrid]


@dataclass
class TimedFiles:
    """Writer of the timed words and phones of a data directory, as utterances are aligned.

    out: the folder of CTMs and confidences; textgrids: what writes TextGrids, if any; places: those
    of utterances in recordings, None where each is a recording; confidences: filled on the way.
    """

    out: Path
    frame_shift: float
    places: dict[str, Place] | None
    textgrids: TextGrids | None = None
    confidences: dict[str, float] = field(default_factory=dict)

    def collect(self, results: Iterable[TimedResult]) -> Iterator[Result]:
        """Yield the alignments of timed ones; CTMs are complete when all have passed."""
        lines: dict[str, list[CtmLine]] = defaultdict(list)
        with ExitStack() as stack:
            files = {name: stack.enter_context(writing(self.out / name)) for name in FILES}
            table = stack.enter_context(writing(self.out / CONFIDENCES))
            for utt, timed in results:
                if isinstance(timed, InputError):
                    yield utt, timed
                    continue
                self.confidences[utt] = timed.confidence
                table.write(f"{utt} {timed.confidence:.4f}\n".encode())
                for name, new in self._iter_lines(utt, timed):
                    # In recordings, lines are in the order of time, whatever that of utterances.
                    lines[name] += new
                    if self.places is None:
                        _write(lines.pop(name), files[name])
                if self.textgrids:
                    self.textgrids.add(utt, timed)
                yield utt, timed.alignment
            for name, file in files.items():
                _write(sorted(lines[name], key=lambda line: line[:3]), file)

    def write_textgrids(self) -> None:
        """Write what has been collected as TextGrids, where these are wanted."""
        if self.textgrids:
            self.textgrids.finish()

    def _iter_lines(self, utt: str, timed: TimedAlignment) -> Iterator[tuple[str, list[CtmLine]]]:
        place = find_place(utt, self.places)
        for name, labels in zip(FILES, (timed.words, timed.phones), strict=True):
            yield name, [*time_lines(place, labels, self.frame_shift)]


def _write(lines: Iterable[CtmLine], file: BinaryIO) -> None:
    file.write("".join(f"{format_line(line)}\n" for line in lines).encode())
