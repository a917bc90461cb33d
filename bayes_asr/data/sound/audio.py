"""Samples from sound files: RIFF, RF64, W64, AIFF, CAF, AU, NIST SPHERE, FLAC, Ogg and MP3.

libsndfile decodes them, through soundfile; `containers` finds out whether they are complete.
"""

import io
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np
import scipy  # which imports its parts as they are used

from bayes_asr.base.errors import InputError, opening
from bayes_asr.base.files import check_settled
from bayes_asr.base.log import LOGGER
from bayes_asr.data.sound.containers import CONVERT_ANY, KINDS, NEEDED, check_complete, is_known
from bayes_asr.data.sound.file_bytes import FileBytes
from bayes_asr.kaldi_io.binary import open_bytes
from bayes_asr.kaldi_io.byte_reader import CHUNK, DAMAGED, ByteReader, OpenPipe
from bayes_asr.kaldi_io.rxfilename import is_pipe, refuse_pipe, strip_offset

STDIN = "-"
RATES = range(1000, 400_001)  # Hz
FULL_SCALE = np.float32(2**15)  # libsndfile's samples reach from -1 to 1, Kaldi's are of int16
FLOATS = ("FLOAT", "DOUBLE")  # libsndfile's types of samples that may be beyond full scale
LOUDEST = 1e6  # times full scale: more is damage, and its energy no float
BLOCK = 1 << 18  # samples that are decoded at once: a forged length costs no memory
LONGEST = 1 << 30  # samples of a file: 18 hours at 16 kHz
# samples that a file of any size may have, and for each byte: Opus at 6 kbit/s has 64, silence 1000
ALWAYS_DECODED, MOST_PER_BYTE = 1 << 26, 100
UNTOLD = 2**63 - 1  # samples that a file promises that was written into a pipe
LFS_POINTER = b"version https://"  # the first NEEDED bytes
LARGEST = 1 << 32  # bytes, as of RIFF
AT_SPEED = re.compile(r"(?P<file>.+)\[speed=(?P<factor>[0-9.]{1,12})\]", re.S)
SLOWEST, FASTEST = Fraction(1, 10), Fraction(10)
DIGITS = 3  # of a factor after the point: more would want filters of thousands of taps

Span = tuple[float, float]  # begin and end in seconds
Channel = int | Literal["mean"]
Announce = Callable[[str, str], None]


def warn(name: str, remark: str) -> None:
    """Say in the log what was done to a file."""
    LOGGER.warning("%s: %s", name, remark)


def be_silent(name: str, remark: str) -> None:
    """Say nothing of what was done to a file, where it was said of another part of it."""


def load_library() -> Any:
    """Import soundfile, or raise InputError that says how to get it."""
    try:
        import soundfile
    except (ImportError, OSError) as error:  # OSError: the library inside is of another machine
        raise InputError(
            f"reading sound needs soundfile: pip install soundfile ({error})"
        ) from error
    return soundfile


def read_audio(
    path: Path | str, channel: Channel | None = None, *, announce: Announce = warn
) -> tuple[np.ndarray, int]:
    """Read one channel of a file: samples float32 [N] in the range of int16, and their rate in Hz.

    channel: counted from 0, or their mean; None is the first, announced where there are more.
    Raises InputError as `read_channels`, and for a channel that is not there.
    """
    samples, rate = read_channels(path)
    return take_channel(samples, channel, str(path), announce), rate


def read_channels(path: Path | str, *, open_pipe: OpenPipe | None = None) -> tuple[np.ndarray, int]:
    """Read a file, or standard input (-): float32 [N, channels] as int16 has it, and the rate.

    open_pipe: runs what is a command; without it commands are refused. Raises InputError for what
    cannot be opened or decoded, truncated files, samples that are no numbers, and no samples.
    """
    with _open(str(path), open_pipe) as source:
        content = bytearray(read_head(source))
        while part := source.read_some(CHUNK):
            content += part
            if len(content) > LARGEST:
                raise source.fail(f"has more than {LARGEST} bytes; cut it into shorter files")
        decoding = open_decoding(io.BytesIO(content), len(content), source.name)
        return _join([*decoding.blocks], decoding.channels), decoding.rate


def read_head(source: ByteReader) -> bytes:
    """The first bytes of a file, by which alone a huge one of another kind is refused."""
    head = source.read_some(NEEDED)
    if not head:
        raise source.fail("is empty; make it again")
    if head == LFS_POINTER:
        raise source.fail("is a pointer of Git LFS, not the sound; fetch that: git lfs pull")
    if not is_known(head):
        raise source.fail(f"is none of {', '.join(KINDS)}; {CONVERT_ANY}")
    return head


def open_standard_input() -> BinaryIO:
    """Open standard input, which stays open when what is returned is closed."""
    return open(0, "rb", closefd=False)


def take_channel(
    samples: np.ndarray, channel: Channel | None, name: str, announce: Announce = warn
) -> np.ndarray:
    """One channel [N] of samples [N, channels], or the mean of all."""
    channels = samples.shape[1]
    if channel == "mean":
        return samples.mean(axis=1)
    if channel is None and channels > 1:
        announce(name, f"has {channels} channels; the first is taken")
    if channel is not None and not 0 <= channel < channels:
        raise InputError(
            f"{name}: channel {channel} is asked for, counted from 0; there are {channels}: take"
            " another, or a file that has it"
        )
    return np.ascontiguousarray(samples[:, channel or 0])


def bring_to_rate(
    samples: np.ndarray, rate: int, target_rate: int, name: str, announce: Announce = warn
) -> np.ndarray:
    """Samples [N, ...] at `rate` Hz brought to `target_rate` Hz; a change is announced."""
    if rate == target_rate:
        return samples
    empty = f"; there is nothing above {rate // 2} Hz in it: expect errors" * (rate < target_rate)
    announce(name, f"resampled from {rate} to {target_rate} Hz{empty}")
    return resample(samples, rate, target_rate)


def resample(samples: np.ndarray, rate: int, target_rate: int) -> np.ndarray:
    """Samples [N, ...] at `rate` Hz as float32 at `target_rate`, about N * target_rate / rate."""
    # Polyphase filters want the least whole factors up and down, such as 160 and 441.
    divisor = int(np.gcd(rate, target_rate))
    up, down = target_rate // divisor, rate // divisor
    return scipy.signal.resample_poly(samples, up, down).astype(np.float32)


def split_speed(name: str) -> tuple[str, Fraction]:
    """The file that wav.scp names, and how fast it is to be read; 1 where it does not say."""
    match = AT_SPEED.fullmatch(name)
    if not match:
        return name, Fraction(1)
    try:
        # A fraction keeps 0.9 exact: the factors of the resampling follow from it.
        factor = Fraction(match["factor"])
    except (ValueError, ZeroDivisionError):
        factor = Fraction(0)
    if not SLOWEST <= factor <= FASTEST or factor.limit_denominator(10**DIGITS) != factor:
        raise InputError(
            f"{name}: a speed is a number from {float(SLOWEST):g} to {float(FASTEST):g} with at"
            f" most {DIGITS} digits after the point"
        )
    return match["file"], factor


def change_speed(samples: np.ndarray, factor: Fraction) -> np.ndarray:
    """Samples [N] as they are when they are played `factor` times as fast [about N / factor]."""
    if factor == 1:
        return samples
    # Speech that is n/d as fast has d/n of the samples at the same rate.
    return resample(samples, factor.numerator, factor.denominator)


def check_is_there(name: str) -> None:
    """InputError as of `read_channels` for a file that is not there; commands are not looked at."""
    if name != STDIN and not is_pipe(name):
        _refuse_archive(name)
        with opening(f"{name}: cannot be opened"):
            check_settled(name)
            os.stat(name)


def _open(name: str, open_pipe: OpenPipe | None) -> ByteReader:
    with opening(f"{name}: cannot be opened"):
        if name == STDIN:  # may be read once more, and be empty then
            return ByteReader(open_standard_input(), "standard input", None)
        if is_pipe(name):
            refuse_pipe(name, "the sound", open_pipe)
            return ByteReader(cast(OpenPipe, open_pipe)(name.strip().strip("|")), name, None)
        _refuse_archive(name)
        return open_bytes(name)


def _refuse_archive(name: str) -> None:
    """InputError for a place in an archive of sounds, such as wav-copy writes."""
    archive = strip_offset(name)
    if archive != name and not os.path.exists(name) and os.path.exists(archive):
        raise InputError(
            f"{name}: a place in an archive, of which only features are read; write the sound into"
            f" a file of its own, or give the command `wav-copy {name} - |` with --allow-pipes"
        )


@dataclass(frozen=True)
class Decoding:
    """A file that is being decoded: its rate in Hz, channels, the samples that it promises of each,
    and its blocks float32 [n, channels] as int16 has them; InputError where these end too early.
    """

    rate: int
    channels: int
    promised: int
    blocks: Iterator[np.ndarray]


def open_decoding(file: BinaryIO, size: int, name: str) -> Decoding:
    """Decode a file of `size` bytes which can seek; raises InputError as `read_channels`."""
    soundfile, source = load_library(), ByteReader(file, name, size)

    class SequentialFile(soundfile.SoundFile):  # type: ignore[name-defined]
        """A file that is read once: soundfile seeks after each read, which some FLAC refuses."""

        def seekable(self) -> bool:
            return False

    content = FileBytes(file, size)
    possible = check_complete(content, name)
    try:
        decoder = SequentialFile(content.open())
    except soundfile.SoundFileError as error:
        raise _undecodable(source, error) from None
    blocks = _iter_blocks(decoder, possible, source, soundfile.SoundFileError)
    return Decoding(decoder.samplerate, decoder.channels, decoder.frames, blocks)


def _iter_blocks(
    decoder: Any, possible: range, source: ByteReader, fault: type[Exception]
) -> Iterator[np.ndarray]:
    """Yield blocks float32 [n, channels], each of numbers, as many as the file promises."""
    rate, promised, channels = decoder.samplerate, decoder.frames, decoder.channels
    # A block has BLOCK samples over all channels, and at least one moment of time.
    length, count = max(1, BLOCK // channels), 0
    most = min(LONGEST, max(ALWAYS_DECODED, MOST_PER_BYTE * (source.size or 0)))
    forged = promised < UNTOLD and promised * channels > most
    beyond, loudest = 0, 1.0
    with decoder:
        while not forged:
            try:
                block = decoder.read(length, "float32", always_2d=True)
            except fault as error:
                raise _undecodable(source, error) from None
            if not len(block):
                break
            _check_samples(block, count, source)
            if decoder.subtype in FLOATS:
                levels = np.abs(block)
                beyond += int(np.count_nonzero(levels > 1))
                loudest = max(loudest, float(levels.max()))
            count += len(block)
            forged = count * channels > most
            block *= FULL_SCALE
            yield block
    if forged:
        raise source.fail(
            f"has more than {most} samples in {source.size} bytes; cut it into shorter files"
        )
    if count < promised < UNTOLD:
        raise source.fail(f"{count} of its {promised} samples can be decoded: {DAMAGED}")
    if rate not in RATES or not count:
        raise source.fail(f"{count} samples at {rate} Hz: an empty or damaged file, make it again")
    # The decoder may end early without an error, so its count is held against the container's.
    if count not in possible:
        due = possible[0] if count < possible[0] else possible[-1]
        raise source.fail(
            f"{count} samples are decoded, but by its size {due} are due: {DAMAGED}, or"
            " convert it: sox IN OUT.wav"
        )
    if beyond:
        warn(
            source.name,
            f"{beyond} of {count * channels} samples are beyond full scale, the loudest"
            f" {loudest:.4g} times; they are taken as they are, where other programs clip them:"
            " sox -G IN OUT.wav scales all",
        )


def _undecodable(source: ByteReader, error: Exception) -> InputError:
    message = getattr(error, "error_string", str(error)).strip(" .")
    return source.fail(f"cannot be decoded: {message}; {DAMAGED}, or {CONVERT_ANY}")


def _check_samples(block: np.ndarray, begin: int, source: ByteReader) -> None:
    """Refuse a block that is no sound; begin: of its samples in the file."""
    # The comparison is negated because one with NaN is false.
    wrong = ~(np.abs(block) <= LOUDEST)
    if wrong.any():
        where = begin + int(np.argwhere(wrong)[0][0])
        raise source.fail(f"sample {where} is {block[wrong][0]:g} times full scale: {DAMAGED}")


def _join(blocks: list[np.ndarray], channels: int) -> np.ndarray:
    """The samples [N, channels] of blocks [n, channels], each freed once it is copied."""
    samples = np.empty((sum(map(len, blocks)), channels), np.float32)
    end = len(samples)
    while blocks:
        block = blocks.pop()
        samples[end - len(block) : end] = block
        end -= len(block)
    return samples
