"""Reading sound: RIFF as the standard library writes it, NIST SPHERE as LDC ships it, damage."""

import logging
import struct
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.errors import InputError
from bayes_asr.sound.audio import read_audio, resample

SOUND = np.random.default_rng(1).integers(-(2**15), 2**15, (400, 2)).astype(np.int16)
MONO = SOUND[:, :1]


def riff(samples: np.ndarray, rate: int = 16000) -> bytes:
    """The file that Python's own writer makes of int16 samples [N, channels]."""
    import io

    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(samples.shape[1])
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


def sphere(samples: np.ndarray, rate: int = 16000, order: str = "01", more: str = "") -> bytes:
    """A file with the header of LDC's TIMIT."""
    head = (
        "NIST_1A\n   1024\ndatabase_id -s5 TIMIT\ndatabase_version -s3 1.0\n"
        f"utterance_id -s8 cjf0_sa1\nchannel_count -i {samples.shape[1]}\n"
        f"sample_count -i {len(samples)}\nsample_rate -i {rate}\nsample_min -i -2191\n"
        f"sample_max -i 2790\nsample_n_bytes -i 2\nsample_byte_format -s2 {order}\n"
        f"sample_sig_bits -i 16\n{more}end_head\n"
    )
    body = samples.astype("<i2" if order == "01" else ">i2").tobytes()
    return head.encode().ljust(1024) + body


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], Path]:
    """Write bytes to a file."""

    def write(content: bytes) -> Path:
        path = tmp_path / "sound"
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
@pytest.mark.parametrize(
    "writer",
    [
        riff,
        sphere,
        lambda x, rate: sphere(x, rate, "10"),
        lambda x, rate: sphere(x, rate, more="sample_coding -s3 pcm\n"),
    ],
    ids=["riff", "01", "10", "pcm"],
)
def test_samples_come_back(
    writer: Callable[[np.ndarray, int], bytes], rate: int, file: Callable[[bytes], Path]
) -> None:
    samples, found = read_audio(file(writer(MONO, rate)))
    assert found == rate
    assert samples.dtype == np.float32
    assert np.array_equal(samples, MONO[:, 0])


@pytest.mark.parametrize("writer", [riff, sphere])
def test_channels_are_told_apart(
    writer: Callable[[np.ndarray], bytes],
    file: Callable[[bytes], Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = file(writer(SOUND))
    for channel in (0, 1):
        assert np.array_equal(read_audio(path, channel)[0], SOUND[:, channel])
    with caplog.at_level(logging.WARNING, "bayes_asr"):
        assert np.array_equal(read_audio(path)[0], SOUND[:, 0])
    assert "has 2 channels; the first is taken" in caplog.text
    with pytest.raises(InputError, match="channel 2 is asked for, counted from 0; there are 2"):
        read_audio(path, 2)


def test_other_chunks_are_passed_over(file: Callable[[bytes], Path]) -> None:
    plain = riff(MONO)
    chunk = b"LIST" + struct.pack("<I", 3) + b"abc\0"  # of odd length: padded
    assert np.array_equal(read_audio(file(plain[:12] + chunk + plain[12:]))[0], MONO[:, 0])
    assert np.array_equal(read_audio(file(plain + chunk))[0], MONO[:, 0])


@pytest.mark.parametrize("size", [0, 0x7FFFF000, 0xFFFFFFFF])
def test_what_was_written_into_a_pipe_goes_to_the_end(
    size: int, file: Callable[[bytes], Path]
) -> None:
    plain = riff(MONO)
    streamed = plain[:40] + struct.pack("<I", size) + plain[44:]
    assert np.array_equal(read_audio(file(streamed))[0], MONO[:, 0])


def test_extensible_and_big_endian_riff(file: Callable[[bytes], Path]) -> None:
    plain = riff(MONO)
    guid = struct.pack("<HHIH", 22, 16, 4, 1) + b"\0\0\0\0\x10\0\x80\0\0\xaa\x00\x38\x9b\x71"
    extended = struct.pack("<I", 40) + b"\xfe\xff" + plain[22:36] + guid
    assert np.array_equal(read_audio(file(plain[:16] + extended + plain[36:]))[0], MONO[:, 0])
    swapped = b"RIFX" + struct.pack(">I", 0) + b"WAVEfmt " + struct.pack(">I", 16)
    swapped += struct.pack(">HHIIHH", 1, 1, 16000, 32000, 2, 16) + b"data"
    swapped += struct.pack(">I", 800) + MONO.astype(">i2").tobytes()
    assert np.array_equal(read_audio(file(swapped))[0], MONO[:, 0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "neither RIFF nor NIST SPHERE"),
        (b"OggS" + bytes(100), "neither RIFF nor NIST SPHERE; convert it: sox"),
        (riff(MONO)[:-1], "the sound needs 800 bytes at offset 44, the file has 843"),
        (riff(MONO)[:20] + b"\3\0" + riff(MONO)[22:], "encoding 3 of 16 bits, but only 16-bit"),
        (riff(MONO)[:34] + b"\x18\0" + riff(MONO)[36:], "encoding 1 of 24 bits, but only"),
        (riff(MONO[:0]), "0 samples at 16000 Hz"),
        (riff(MONO, 10), "400 samples at 10 Hz"),
        (riff(MONO)[:36], "the next chunk needs 4 bytes at offset 36, the file has 36"),
        (sphere(MONO)[:-2], "the sound needs 800 bytes at offset 1024, the file has 1822"),
        (
            sphere(MONO, more="sample_coding -s26 pcm,embedded-shorten-v2.00\n"),
            "coded as 'pcm,embedded-shorten-v2.00', .* convert it: sph2pipe -f wav",
        ),
        (sphere(MONO, more="sample_coding -s4 ulaw\n"), "2-byte samples coded as 'ulaw'"),
        (sphere(MONO, order="1"), "byte order b'1'"),
        (sphere(MONO).replace(b"sample_rate", b"sample_rage"), "no whole number sample_rate"),
        (b"NIST_1A\n 9999999\n" + bytes(99), "the header of a NIST SPHERE file is damaged"),
    ],
)
def test_what_cannot_be_read_is_explained(
    content: bytes, message: str, file: Callable[[bytes], Path]
) -> None:
    path = file(content)
    with pytest.raises(InputError, match=message) as caught:
        read_audio(path)
    assert str(caught.value).startswith(f"{path}: ")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_never_crashes_and_never_shortens(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Bytes of the header changed, ends cut off: all samples, or an error naming the file."""
    content = bytearray(data.draw(st.sampled_from([riff(SOUND), sphere(SOUND)])))
    header = 44 if content[:4] == b"RIFF" else 1024
    cut = data.draw(st.integers(1, len(content)) | st.just(len(content)))
    places = st.tuples(st.integers(0, min(header, 400) - 1), st.integers(0, 255))
    changes = data.draw(st.lists(places, max_size=4))
    for place, value in changes:
        content[place] = value
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content[:cut])
    try:
        samples, _ = read_audio(path, 0)
    except InputError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        assert np.isfinite(samples).all()
        assert changes or cut == len(content)


@pytest.mark.parametrize("rate", [8000, 22050, 44100])
def test_resampling_keeps_a_tone(rate: int) -> None:
    seconds = np.arange(rate) / rate
    tone = resample(1000 * np.sin(2 * np.pi * 440 * seconds), rate, 16000)
    expected = 1000 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    assert len(tone) == 16000
    assert np.abs(tone - expected)[200:-200].max() < 5
