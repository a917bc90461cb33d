"""Kaldi's segments: which parts of recordings the utterances are."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.binary import iter_lines

Segment = tuple[str, str, int | None, float, float]
"""Utterance, recording, channel or None, start and end in seconds (-1: to the end)."""


def read_segments(path: Path) -> Iterator[Segment]:
    """Yield the segments of a file, which have a place in a recording."""
    for number, fields in iter_lines(path):
        try:
            utt, recording, start, end = fields[0], fields[1], float(fields[2]), float(fields[3])
            # Kaldi's channel -1 means that none is named.
            channel = int(fields[4]) if len(fields) == 5 and fields[4] != "-1" else None
        except (ValueError, IndexError):
            raise InputError(f"{path}, line {number}: not `utt recording start end`") from None
        times = 0 <= start < end < np.inf or (0 <= start < np.inf and end == -1.0)
        if len(fields) > 5 or not times or (channel or 0) < 0:
            raise InputError(
                f"{path}, line {number}: {utt} from {start:g} to {end:g} s; correct it"
            )
        yield utt, recording, channel, start, end
