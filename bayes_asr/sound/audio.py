"""Samples from RIFF (.wav) and NIST SPHERE files of 16-bit linear PCM, the kinds that Kaldi reads.

A general library (libsndfile) reads both, but takes a truncated file for a shorter one.
"""

import re
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

from bayes_asr.log import LOGGER
from bayes_asr.tables.binary import ByteReader, open_bytes

PCM, EXTENSIBLE = 1, 0xFFFE  # format tags of RIFF
STREAMED = (0, 0x7FFFF000, 0xFFFFFFFF)  # sizes that say "to the end": written into a pipe
SPHERE_FIELD = re.compile(rb"^(\w+) -(?:i|r|s\d+) (.*?)\s*$", re.M)
SPHERE_HEADER = 1 << 16  # bytes; NIST's are of 1024
SPHERE_COUNTS = ("sample_count", "sample_rate", "channel_count", "sample_n_bytes")
RATES = range(1000, 400_001)  # Hz


def read_audio(path: Path | str, channel: int | None = None) -> tuple[np.ndarray, int]:
    """Read one channel of a file: samples float32 [N] in the range of int16, and their rate in Hz.

    channel: counted from 0; None is the first, with a warning where there are more. Raises
    InputError for other encodings, truncated files and files without samples.
    """
    with open_bytes(path) as source:
        magic = source.take(4, "the header") if source.size else b""
        if magic in (b"RIFF", b"RIFX"):
            samples, rate = _read_riff(source, ">" if magic == b"RIFX" else "<")
        elif magic == b"NIST":
            samples, rate = _read_sphere(source)
        else:
            raise source.fail("neither RIFF nor NIST SPHERE; convert it: sox IN -b 16 OUT.wav")
        if rate not in RATES or not samples.size:
            raise source.fail(f"{len(samples)} samples at {rate} Hz: an empty or damaged file")
        return _select_channel(samples, channel, source), rate


def resample(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Bring samples [N] at `rate` Hz to `wanted` Hz, float32 [about N * wanted / rate]."""
    divisor = int(np.gcd(rate, wanted))
    return resample_poly(samples, wanted // divisor, rate // divisor).astype(np.float32)


def _select_channel(samples: np.ndarray, channel: int | None, source: ByteReader) -> np.ndarray:
    channels = samples.shape[1]
    if channel is None and channels > 1:
        LOGGER.warning("%s: has %d channels; the first is taken", source.name, channels)
    if channel is not None and not channel < channels:
        raise source.fail(f"channel {channel} is asked for, counted from 0; there are {channels}")
    return samples[:, channel or 0].astype(np.float32)


def _unpack_samples(raw: bytes, channels: int, dtype: str, source: ByteReader) -> np.ndarray:
    """Interleaved bytes as int16 [N, channels]."""
    if not channels or len(raw) % (2 * channels):
        raise source.fail(f"{len(raw)} bytes of sound are no whole samples of {channels} channels")
    return np.frombuffer(raw, dtype).reshape(-1, channels)


def _read_riff(source: ByteReader, order: str) -> tuple[np.ndarray, int]:
    """Walk the chunks up to the sound; 'fmt ' says what it is."""
    endian = "little" if order == "<" else "big"
    size = _read_number(source, 4, endian)
    if source.take(4, "the form") != b"WAVE":
        raise source.fail("a RIFF file, but not of sound")
    channels = rate = 0
    while True:
        name, length = source.take(4, "the next chunk"), _read_number(source, 4, endian)
        if name == b"data":
            break
        body = source.take(length + length % 2, f"the chunk {name!r}")
        if name == b"fmt ":
            channels, rate = _read_riff_format(body, endian, source)
    if not channels:
        raise source.fail("the sound comes before its format: damaged, make it again")
    streamed = length in STREAMED or size in STREAMED
    raw = source.rest() if streamed else source.take(length, "the sound")
    return _unpack_samples(raw, channels, f"{order}i2", source), rate


def _read_riff_format(body: bytes, endian: str, source: ByteReader) -> tuple[int, int]:
    """Channels and rate of a 'fmt ' chunk; InputError unless it is 16-bit PCM."""
    if len(body) < 16:
        raise source.fail(f"the chunk 'fmt ' has {len(body)} bytes, not 16")
    fields = np.frombuffer(body[:16], "<u2" if endian == "little" else ">u2")
    tag, channels, bits = int(fields[0]), int(fields[1]), int(fields[7])
    if tag == EXTENSIBLE and len(body) >= 26:
        tag = int.from_bytes(body[24:26], endian)  # type: ignore[arg-type]
    if tag != PCM or bits != 16:
        raise source.fail(
            f"encoding {tag} of {bits} bits, but only 16-bit PCM ({PCM}) is read; convert it:"
            " sox IN.wav -b 16 -e signed OUT.wav"
        )
    return channels, int.from_bytes(body[4:8], endian)  # type: ignore[arg-type]


def _read_number(source: ByteReader, width: int, endian: str) -> int:
    return int.from_bytes(source.take(width, "a size"), endian)  # type: ignore[arg-type]


def _read_sphere(source: ByteReader) -> tuple[np.ndarray, int]:
    """Read the text header and the samples after it (SPHERE 2.7, sp.doc of NIST)."""
    head = source.line() + source.line()
    size = head.removeprefix(b"_1A\n").strip()
    if not head.startswith(b"_1A\n") or not size.isdigit() or int(size) > SPHERE_HEADER:
        raise source.fail("the header of a NIST SPHERE file is damaged")
    text = source.take(int(size) - source.position, "the header")
    fields = dict(SPHERE_FIELD.findall(text.partition(b"end_head")[0]))
    counts = {name: _parse_sphere_count(fields, name, source) for name in SPHERE_COUNTS}
    coding = fields.get(b"sample_coding", b"pcm").decode("latin-1")
    if coding != "pcm" or counts["sample_n_bytes"] != 2:
        raise source.fail(
            f"{counts['sample_n_bytes']}-byte samples coded as {coding!r}, but only 2-byte 'pcm'"
            " is read; convert it: sph2pipe -f wav IN OUT.wav"
        )
    order = {b"01": "<i2", b"10": ">i2"}.get(fields.get(b"sample_byte_format", b""))
    if order is None:
        raise source.fail(f"byte order {fields.get(b'sample_byte_format')!r}, not '01' or '10'")
    length = 2 * counts["sample_count"] * counts["channel_count"]
    samples = _unpack_samples(
        source.take(length, "the sound"), counts["channel_count"], order, source
    )
    return samples, counts["sample_rate"]


def _parse_sphere_count(fields: dict[bytes, bytes], name: str, source: ByteReader) -> int:
    value = fields.get(name.encode(), b"")
    if not value.isdigit() or len(value) > 12:
        raise source.fail(f"the header has no whole number {name}, but {value[:20]!r}")
    return int(value)
