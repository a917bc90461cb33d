"""Kaldi's tables of recordings: segments, reco2file_and_channel."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.kaldi_io.binary import iter_lines, refuse_repeated
from bayes_asr.kaldi_io.byte_reader import parse_real

FIRST_SIDES = ("A", "a", "0", "1")
Segment = tuple[str, str, int | None, float, float]
"""Utterance, recording, channel or None, start and end in seconds (-1: to the end)."""


def read_segments(path: Path) -> Iterator[Segment]:
    """Yield the segments of a file, which have a place in a recording."""
    utterances: set[str] = set()
    for number, fields in iter_lines(path):
        try:
            (utt, recording), (start, end) = fields[:2], map(parse_real, fields[2:4])
            # Kaldi's channel -1 means that none is named.
            channel = int(fields[4]) if len(fields) == 5 and fields[4] != "-1" else None
        except (ValueError, IndexError):
            raise segment_error(path, number, fields) from None
        times = 0 <= start < end < np.inf or (0 <= start < np.inf and end == -1.0)
        if len(fields) > 5 or (channel or 0) < 0:
            raise segment_error(path, number, fields)
        if not times:
            raise InputError(
                f"{path}, line {number}: {utt} from {start:g} to {end:g} s; correct it"
            )
        refuse_repeated(utterances, utt, path, number)
        utterances.add(utt)
        yield utt, recording, channel, start, end


def segment_error(path: Path, number: int, fields: Sequence[str]) -> InputError:
    """The error that says what a line of segments must be."""
    return InputError(
        f"{path}, line {number}: not `utt recording start end`, with times in seconds, and a"
        f" channel counted from 0 where one is named: {' '.join(fields)[:80]}"
    )


def read_sides(path: Path) -> dict[str, str]:
    """The sides of a conversation (reco2file_and_channel) other than the first, by recording."""
    if not is_there(path):
        return {}
    sides: dict[str, str] = {}
    for number, fields in iter_lines(path):
        refuse_repeated(sides, fields[0], path, number)
        sides[fields[0]] = fields[-1]
    return {recording: side for recording, side in sides.items() if side not in FIRST_SIDES}
