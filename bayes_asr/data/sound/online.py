"""Online sound: samples of a pipe, and the features that are complete so far."""

import math
import signal
import struct
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.data.sound.containers import has_magic
from bayes_asr.data.sound.spectrum import FRAME_SHIFT, Analysis

PCM, EXTENSIBLE = 1, 0xFFFE  # format tags of RIFF: plain samples; the tag is at SUBFORMAT
SUBFORMAT = 24
UNKNOWN_SIZE = 0x7FFFF000  # what arecord, sox and ffmpeg write into a pipe is no less
SAMPLE = np.dtype("<i2")
FORMAT = struct.Struct("<HHIIHH")  # of the chunk `fmt `
LARGEST_CHUNK = 1 << 20  # bytes, of those before the samples


def read_pipe(file: BinaryIO, rate: int, seconds: float) -> Iterator[np.ndarray]:
    """Yield samples [N] of a pipe, int16, at most so many seconds at once, as they come.

    Plain samples of `rate` Hz, in one channel, or a RIFF header before them. InputError where that
    says otherwise.
    """
    beginning = _read(file, 12)
    due: float = math.inf  # bytes of samples
    if beginning[:4] == b"RIFF":
        due = _check_header(file, rate)
        beginning = b""
    elif has_magic(beginning):
        raise InputError(
            "standard input: a sound file that is not plain RIFF; convert it: sox IN -t raw -e"
            f" signed -b 16 -c 1 -r {rate} -"
        )
    # A pipe gives what is there, also half a sample.
    size = max(1, int(rate * seconds)) * SAMPLE.itemsize
    pending = beginning
    while True:
        whole = len(pending) - len(pending) % SAMPLE.itemsize
        if whole:
            yield np.frombuffer(pending[:whole], SAMPLE)
        # Behind the samples of a file there may be other chunks.
        part = getattr(file, "read1", file.read)(int(min(size, due)))
        if not part:
            return
        due -= len(part)
        pending = pending[whole:] + part


def iter_until_interrupt(pieces: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield pieces until Ctrl-C, which ends the wait for one, but not what is done with it."""
    is_waiting = is_over = False

    def end(number: int, frame: object) -> None:
        nonlocal is_over
        is_over = True
        if is_waiting:
            raise KeyboardInterrupt

    handler = signal.signal(signal.SIGINT, end)
    try:
        while not is_over:
            is_waiting = True
            piece = next(pieces, None)
            is_waiting = False
            if piece is None:
                return
            yield piece
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGINT, handler)


def _check_header(file: BinaryIO, rate: int) -> float:
    """The bytes of the samples behind a RIFF header, infinite where it was written before them;
    InputError unless they are as wanted.
    """
    is_checked = False
    while True:
        name, size = struct.unpack("<4sI", _read(file, 8).ljust(8, b"\0"))
        if name == b"data" and is_checked:
            return size if 0 < size < UNKNOWN_SIZE else math.inf
        content = _read(file, min(size + size % 2, LARGEST_CHUNK))
        if len(content) < max(size, FORMAT.size * (name == b"fmt ")) or name == b"\0" * 4:
            raise InputError("standard input: its RIFF header is damaged; record it again")
        if name == b"fmt ":
            form, channels, its_rate, _, _, bits = FORMAT.unpack(content[: FORMAT.size])
            if form == EXTENSIBLE and len(content) > SUBFORMAT:
                form = content[SUBFORMAT]
            is_checked = True
            if (form, channels, its_rate, bits) != (PCM, 1, rate, 8 * SAMPLE.itemsize):
                raise InputError(
                    f"standard input: {channels} channels of {bits} bits at {its_rate} Hz; give one"
                    f" of 16 bits at {rate} Hz: arecord -q -f S16_LE -c 1 -r {rate}"
                )


def _read(file: BinaryIO, size: int) -> bytes:
    """So many bytes, or all that there are."""
    parts = bytearray()
    while len(parts) < size and (part := file.read(size - len(parts))):
        parts += part
    return bytes(parts)


class OnlineFeatures:
    """The features of an `Analysis`, of samples that arrive in pieces."""

    def __init__(self, analysis: Analysis) -> None:
        """Begin a sound; InputError for features that depend on what comes later."""
        if analysis.kind == "samples" or analysis.kind.endswith("pitch"):
            raise InputError(
                f"features of the kind {analysis.kind} are known when all of a sound is there;"
                " train a run on mfcc, fbank or plp"
            )
        self._analysis = analysis
        self._shift = int(analysis.sample_rate * FRAME_SHIFT)
        self._pending, self._place = np.empty(0, np.float32), 0  # its first sample in the sound

    def push(self, samples: np.ndarray) -> np.ndarray:
        """The frames [T, F], T >= 0, that samples [N] in the range of int16 complete."""
        self._pending = np.concatenate([self._pending, samples.astype(np.float32)])
        features = self._analysis(self._pending, self._place)
        # A frame begins each shift and sees more than that: the rest is of the frames to come.
        over = len(features) * self._shift
        self._pending, self._place = self._pending[over:], self._place + over
        return features

    def begin(self) -> None:
        """Begin another sound behind the last frame."""
        self._place = 0

    def skip(self) -> None:
        """Forget samples of frames that are not complete: what comes does not follow them."""
        self._pending = np.empty(0, np.float32)
        self.begin()


class SilenceGate:
    """Samples that arrive in pieces, without digital silence: stretches of equal samples.

    A stretch is held back until it is known whether it lasts so long.
    """

    def __init__(self, rate: int, least: float) -> None:
        """Begin a sound; least: seconds of a stretch that is silence."""
        self._least = round(least * rate)
        self._stretch = np.empty(0)
        self.is_shut = False

    def push(self, samples: np.ndarray) -> np.ndarray:
        """The samples to hear now; behind them the gate `is_shut` where there is silence."""
        joined = np.concatenate([self._stretch, samples])
        changes = np.flatnonzero(np.diff(joined))
        begin = int(changes[-1]) + 1 if len(changes) else 0  # of the last stretch
        # Of a silence one sample is held, to compare with what comes.
        heard = joined[1 if self.is_shut else 0 : begin]
        goes_on = self.is_shut and begin == 0
        self.is_shut = goes_on or len(joined) - begin >= self._least
        self._stretch = joined[-1:] if self.is_shut else joined[begin:]
        return heard

    def flush(self) -> np.ndarray:
        """The samples that are held back, unless they are silence."""
        held, self._stretch = self._stretch, np.empty(0)
        return held[:0] if self.is_shut else held
