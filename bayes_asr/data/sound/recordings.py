"""Recordings of a Kaldi data directory: the samples of its utterances."""

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import is_there
from bayes_asr.base.log import LOGGER
from bayes_asr.data.features.skipped import check_limit
from bayes_asr.data.sound.audio import (
    Announce,
    Channel,
    bring_to_rate,
    change_speed,
    check_is_there,
    read_channels,
    split_speed,
    take_channel,
)
from bayes_asr.kaldi_io.ark import read_scp
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.segments import Segment, read_segments, read_sides

SHORTEST = float(np.float32(0.1))  # seconds of a segment, in the precision of extract-segments
OVERSHOOT = 0.5  # seconds of a segment past its recording, as there
MAX_SKIPPED = 0.05  # share of utterances: data.max_skipped of conf/base.yaml, without a run


class Recordings:
    """The sound of a data directory's wav.scp at one rate."""

    def __init__(
        self, data_dir: Path, rate: int, channel: Channel | None, open_pipe: OpenPipe | None
    ) -> None:
        """Read the tables."""
        self.table = data_dir / "wav.scp"
        self.files = read_scp(self.table, open_pipe=open_pipe)
        self.rate, self.channel, self.open_pipe = rate, channel, open_pipe
        self.sides = read_sides(data_dir / "reco2file_and_channel")

    def read(self, name: str, channel: int | None, announce: Announce) -> np.ndarray:
        """Samples [N] of a recording; channel: of `segments`, which precedes the general one."""
        what = f"{self.files[name]} ({name})"
        with self._naming(name):
            file, speed = split_speed(self.files[name])
            samples, rate = read_channels(file, open_pipe=self.open_pipe)
        selected = self.channel if channel is None else channel
        if selected is None and samples.shape[1] > 1 and name in self.sides:
            raise InputError(
                f"{what}: has {samples.shape[1]} channels, and reco2file_and_channel says"
                f" {self.sides[name]}, which only scoring reads; name the channel, from 0, in the"
                " fifth column of segments, or by --channel"
            )
        mono = take_channel(samples, selected, what, announce)
        return change_speed(bring_to_rate(mono, rate, self.rate, what, announce), speed)

    def check_is_there(self, name: str) -> None:
        """InputError where a recording is a file, and that is not there."""
        with self._naming(name):
            check_is_there(split_speed(self.files[name])[0])

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Say which line of the table an InputError is about."""
        try:
            yield
        except InputError as error:
            raise InputError(f"{self.table}: {name}: {error}") from None


def list_recordings(
    data_dir: Path,
    sounds: Recordings,
    total: int,
    limit: float,
    utterances: Container[str] | None = None,
) -> list[tuple[str, list[Segment]]]:
    """Each recording and, where `segments` is there, those that follow one another in it.

    Recordings that wav.scp lacks are named; InputError if more than `limit` of the `total`
    utterances are of these. utterances: those that are wanted; None for all.
    """
    if not is_there(data_dir / "segments"):
        return [(utt, []) for utt in sounds.files if utterances is None or utt in utterances]
    segments = (
        segment
        for segment in read_segments(data_dir / "segments")
        if utterances is None or segment[0] in utterances
    )
    # A group is a run of segments of one recording and channel, so its sound is read once.
    grouped = [(key[0], [*parts]) for key, parts in groupby(segments, key=lambda s: s[1:3])]
    absent: dict[str, list[Segment]] = {}
    for recording, parts in grouped:
        if recording not in sounds.files:
            absent.setdefault(recording, []).extend(parts)
    if absent:
        recording, (segment, *_) = next(iter(absent.items()))
        count = sum(map(len, absent.values()))
        message = (
            f"{sounds.table}: lacks {recording}, of the segment {segment[0]}; recordings of {count}"
            f" of {total} utterances are not there: {name_some([*absent])}"
        )
        check_limit(message, count, total, limit, "--max-skipped")
        LOGGER.warning("%s", message)
    return [(recording, parts) for recording, parts in grouped if recording in sounds.files]


def read_utterances(
    sounds: Recordings, recording: str, segments: Sequence[Segment], announce: Announce
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the samples [N] of a recording, or of its segments where there are some.

    There are none of what Kaldi's extract-segments passes over, and of digital silence.
    """
    samples = sounds.read(recording, segments[0][2] if segments else None, announce)
    entire: list[Segment] = [(recording, recording, None, 0.0, len(samples) / sounds.rate)]
    for utt, _, _, start, end in segments or entire:
        cut, fault = _cut(samples, sounds.rate, start, end) if segments else (samples, "")
        # A constant signal has no energy without its mean: features would be the floor of the log.
        if len(cut) and not np.ptp(cut):
            cut, fault = cut[:0], "is digital silence"
        if fault:
            place = f"{start:g} to {end:g} s of {recording}, which has {entire[0][4]:g} s"
            announce(f"{utt} ({place})", fault)
        yield utt, cut


def _cut(samples: np.ndarray, rate: int, start: float, end: float) -> tuple[np.ndarray, str]:
    """The samples of a segment, or none, and why."""
    length = len(samples) / rate
    if end > length + OVERSHOOT:
        return samples[:0], f"ends more than {OVERSHOOT:g} s after its recording"
    # A small overshoot is cut off, since times of segments are rounded.
    end = length if end < 0 else min(end, length)
    if end - start < SHORTEST:
        return samples[:0], f"is shorter than {SHORTEST:g} s"
    # Half is added because int cuts off: the nearest sample is taken.
    return samples[int(start * rate + 0.5) : int(end * rate + 0.5)], ""
