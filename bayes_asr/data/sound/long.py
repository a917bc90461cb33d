"""Sound of hours: decoded in blocks of some seconds, one of which is in memory; cut to spans."""

import os
import shutil
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from tempfile import TemporaryFile
from typing import BinaryIO, cast

import numpy as np

from bayes_asr.base.errors import opening
from bayes_asr.base.files import open_to_read
from bayes_asr.data.sound.audio import (
    STDIN,
    UNTOLD,
    Channel,
    Decoding,
    Span,
    be_silent,
    open_decoding,
    open_standard_input,
    read_head,
    take_channel,
)
from bayes_asr.kaldi_io.byte_reader import ByteReader

DIGITAL_SILENCE = 0.5  # seconds of equal samples that are no speech
LEAST_STRETCH = 0.1  # seconds: a shorter rest of a file has hardly a frame
BLOCK_SECONDS = 10  # of a block; whole seconds are a whole number of samples at any rate


@dataclass(frozen=True)
class LongSound:
    """One channel of a file or of standard input, which is decoded anew whenever it is asked for.

    channel: counted from 0, or the mean of all; None is the first, announced where there are more.
    copy: of what cannot be read twice, on the disk.
    """

    name: str
    channel: Channel | None
    copy: BinaryIO | None

    @classmethod
    def open(cls, name: str, channel: Channel | None) -> "LongSound":
        """Look at a file, or standard input; InputError for what cannot be opened, or is no sound.

        What cannot seek, such as a pipe, is copied to a temporary file.
        """
        copy = None
        with _open(name) as file:
            if not file.seekable():
                copy = TemporaryFile()  # noqa: SIM115 - it is there as long as this value
                shutil.copyfileobj(file, copy)
        sound = cls(name, channel, cast(BinaryIO, copy))
        if copy:
            weakref.finalize(sound, copy.close)
        with sound._open_seekable() as (file, size):
            read_head(ByteReader(file, sound._title, size))
        return sound

    @cached_property
    def _length(self) -> tuple[int, int]:
        """Samples and their rate in Hz."""
        with self._decode() as decoding:
            take_channel(np.empty((0, decoding.channels)), self.channel, self.name)  # announces it
            is_known = decoding.promised < UNTOLD
            count = decoding.promised if is_known else sum(map(len, decoding.blocks))
            return count, decoding.rate

    @property
    def rate(self) -> int:
        """The rate in Hz."""
        return self._length[1]

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return self._length[0] / self.rate

    @property
    def whole(self) -> Span:
        """The span of all."""
        return 0.0, self.seconds

    @cached_property
    def silences(self) -> list[Span]:
        """The digital silence."""
        return [*self.find_digital_silence(max(LEAST_STRETCH, min(DIGITAL_SILENCE, self.seconds)))]

    def leave_out_silence(self, spans: Iterable[Span]) -> list[Span]:
        """The parts of spans outside of digital silence that last LEAST_STRETCH."""
        return [*leave_out(spans, self.silences, LEAST_STRETCH)]

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the samples float32 [N] in blocks of BLOCK_SECONDS, the last one shorter.

        InputError as of `audio.read_audio`, for a damaged file behind its last good block.
        """
        waiting = np.empty(0, np.float32)
        with self._decode() as decoding:
            length = BLOCK_SECONDS * decoding.rate
            for block in decoding.blocks:
                samples = take_channel(block, self.channel, self.name, be_silent)
                waiting = np.concatenate([waiting, samples])
                while len(waiting) >= length:
                    yield waiting[:length]
                    waiting = waiting[length:]
        if len(waiting):
            yield waiting

    def read(self) -> np.ndarray:
        """All samples float32 [N]."""
        return np.concatenate([*self.blocks()])

    def cut(self, spans: Iterable[Span]) -> Iterator[np.ndarray]:
        """Yield the samples [n] of each span, which are in the order of their begins."""
        samples, offset, blocks = np.empty(0, np.float32), 0, self.blocks()
        for begin, end in spans:
            start, stop = round(begin * self.rate), round(end * self.rate)
            while True:
                # What lies before the span goes, and blocks come until it is there.
                gone = min(max(0, start - offset), len(samples))
                samples, offset = samples[gone:], offset + gone
                block = next(blocks, None) if offset + len(samples) < stop else None
                if block is None:
                    break
                samples = np.concatenate([samples, block])
            yield samples[max(0, start - offset) : max(0, stop - offset)]

    def find_digital_silence(self, least: float) -> Iterator[Span]:
        """Yield the spans of at least so many seconds in which all samples are equal."""
        begin = position = 0
        last = np.empty(0, np.float32)
        for block in self.blocks():
            changes = np.flatnonzero(np.diff(block, prepend=last[-1:] if position else block[:1]))
            edges = np.concatenate([[begin], position + changes])
            for start in np.flatnonzero(np.diff(edges) >= least * self.rate):
                yield edges[start] / self.rate, edges[start + 1] / self.rate
            begin, position, last = int(edges[-1]), position + len(block), block
        if position - begin >= least * self.rate:
            yield begin / self.rate, position / self.rate

    @contextmanager
    def _open_seekable(self) -> Iterator[tuple[BinaryIO, int]]:
        """The file, at its begin, and its bytes."""
        with nullcontext(self.copy) if self.copy else _open(self.name) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            yield file, size

    @contextmanager
    def _decode(self) -> Iterator[Decoding]:
        with self._open_seekable() as (file, size):
            yield open_decoding(file, size, self._title)

    @property
    def _title(self) -> str:
        """The name in messages."""
        return "standard input" if self.name == STDIN else self.name


def leave_out(spans: Iterable[Span], gaps: Sequence[Span], least: float) -> Iterator[Span]:
    """Yield the parts of spans outside of gaps, both sorted, that last at least so many seconds."""
    for begin, end in spans:
        inside = (time for gap in gaps if gap[1] > begin and gap[0] < end for time in gap)
        edges = [begin, *inside, end]
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            if stop - start >= least:
                yield start, stop


def _open(name: str) -> BinaryIO:
    with opening(f"{name}: cannot be opened"):
        return open_standard_input() if name == STDIN else open_to_read(name)
