"""Reading sound: RIFF as the standard library writes it, NIST SPHERE as LDC ships it, damage.

Other formats are as libsndfile writes them.
"""

import io
import logging
import re
import struct
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bayes_asr.base.errors import InputError
from bayes_asr.base.programs import open_pipe
from bayes_asr.data.sound import audio
from bayes_asr.data.sound.audio import read_audio, read_channels
from tests.support.sounds import SOUND, riff, sphere, written

soundfile = pytest.importorskip("soundfile")
MONO = SOUND[:, :1]
TONE = np.sin(2 * np.pi * 440 * np.arange(32000) / 16000) * np.hanning(32000) / 2
LOSSLESS = [
    *(("WAV", e) for e in ("PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")),
    *(("FLAC", e) for e in ("PCM_16", "PCM_24")),
    *(("WAVEX", "PCM_16"), ("NIST", "PCM_16"), ("AIFF", "PCM_16"), ("AIFF", "FLOAT")),
    *((form, e) for form in ("RF64", "W64", "CAF", "AU") for e in ("PCM_16", "PCM_24", "FLOAT")),
]
LOSSY = [("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III"), ("WAV", "ULAW")]


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
    for channel in (2, -1):
        with pytest.raises(InputError, match=f"channel {channel} is asked for, counted from 0"):
            read_audio(path, channel)


def test_other_chunks_are_passed_over(file: Callable[[bytes], Path]) -> None:
    plain = riff(MONO)
    chunk = b"LIST" + struct.pack("<I", 3) + b"abc\0"  # of odd length: padded
    assert np.array_equal(read_audio(file(plain[:12] + chunk + plain[12:]))[0], MONO[:, 0])
    assert np.array_equal(read_audio(file(plain + chunk))[0], MONO[:, 0])


def test_what_follows_sphere_is_no_sound(file: Callable[[bytes], Path]) -> None:
    assert np.array_equal(read_audio(file(sphere(MONO) + bytes(99)))[0], MONO[:, 0])


@pytest.mark.parametrize(
    "size", [0, 0x7FFFEFFE, 0x7FFFF000, 2**31 - 1, 2**31, 0xFFFFFFDB, 0xFFFFFFFF]
)
def test_what_was_written_into_a_pipe_goes_to_the_end(
    size: int, file: Callable[[bytes], Path]
) -> None:
    plain = riff(MONO)
    streamed = plain[:40] + struct.pack("<I", size) + plain[44:]
    assert np.array_equal(read_audio(file(streamed))[0], MONO[:, 0])


@pytest.mark.parametrize(
    ("form", "mark", "at", "sizes"),
    [
        ("RF64", b"ds64", 16, (bytes(8),)),
        ("W64", b"data", 16, (bytes(8), b"\xff" * 7 + b"\x7f", b"\xff" * 8)),
        ("CAF", b"data", 4, (b"\xff" * 8,)),
        ("AU", b".snd", 8, (b"\xff" * 4,)),
    ],
)
def test_other_containers_of_a_pipe_go_to_the_end_too(
    form: str, mark: bytes, at: int, sizes: tuple[bytes, ...], file: Callable[[bytes], Path]
) -> None:
    plain = written(MONO, form, "PCM_16")
    place = plain.index(mark) + at
    for size in sizes:
        streamed = plain[:place] + size + plain[place + len(size) :]
        assert np.array_equal(read_audio(file(streamed))[0], MONO[:, 0])


def test_bw64_and_sound_of_suns_little_endian_are_read(file: Callable[[bytes], Path]) -> None:
    assert np.array_equal(
        read_audio(file(b"BW64" + written(MONO, "RF64", "PCM_16")[4:]))[0], MONO[:, 0]
    )
    little = struct.pack("<4s6I", b"dns.", 28, 800, 3, 16000, 1, 0) + MONO.tobytes()
    assert np.array_equal(read_audio(file(little + b"junk" * 9))[0], MONO[:, 0])


def test_what_follows_the_sound_of_w64_is_none(file: Callable[[bytes], Path]) -> None:
    assert np.array_equal(
        read_audio(file(written(MONO, "W64", "PCM_16") + bytes(99)))[0], MONO[:, 0]
    )


@pytest.mark.parametrize("form", ["WAV", "AIFF", "RF64", "W64", "CAF"])
def test_second_chunk_of_sound_is_refused(form: str, file: Callable[[bytes], Path]) -> None:
    """libsndfile calls its structure incomplete, sox takes the first alone."""
    plain = written(MONO, form, "PCM_16")
    sound = plain.index(b"SSND" if form == "AIFF" else b"data")
    twice = bytearray(plain + plain[sound:])
    if form in ("WAV", "AIFF"):
        twice[4:8] = (len(twice) - 8).to_bytes(4, "little" if form == "WAV" else "big")
    elif form != "CAF":
        at = 20 if form == "RF64" else 16
        twice[at : at + 8] = (len(twice) - 8 * (form == "RF64")).to_bytes(8, "little")
    with pytest.raises(InputError, match=f"a second chunk of sound is at offset {len(plain)}"):
        read_audio(file(bytes(twice)))


FORMATS = [
    *(("WAV", "PCM_16"), ("AIFF", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS")),
    *((form, "PCM_16") for form in ("RF64", "W64", "CAF", "AU")),
]


@pytest.mark.parametrize("second", [*FORMATS, ("OGG", "OPUS")])
@pytest.mark.parametrize("first", [*FORMATS, ("NIST", "PCM_16"), ("OGG", "OPUS")])
def test_files_that_cat_joined_are_refused(
    first: tuple[str, str], second: tuple[str, str], file: Callable[[bytes], Path]
) -> None:
    joined = file(written(TONE, *first) + written(TONE, *second))
    with pytest.raises(InputError, match=r"another file|streams of sound|sound: ") as caught:
        read_channels(joined)
    assert str(caught.value).startswith(f"{joined}: ")


def test_streams_of_ogg_side_by_side_are_refused(file: Callable[[bytes], Path]) -> None:
    """Both streams begin before either goes on (RFC 3533, grouping)."""
    vorbis, opus = (written(TONE, "OGG", kind) for kind in ("VORBIS", "OPUS"))
    cut_vorbis, cut_opus = (content.index(b"OggS", 4) for content in (vorbis, opus))
    grouped = vorbis[:cut_vorbis] + opus[:cut_opus] + vorbis[cut_vorbis:] + opus[cut_opus:]
    with pytest.raises(InputError, match=r"holds 2 streams of sound, .* ffmpeg -i IN OUT.wav"):
        read_channels(file(grouped))


@pytest.mark.parametrize("kind", ["VORBIS", "OPUS"])
def test_damaged_and_missing_pages_of_ogg_are_refused(
    kind: str, file: Callable[[bytes], Path]
) -> None:
    noise = np.random.default_rng(1).normal(0, 3000, (16000 * 3, 1))
    content = written(noise, "OGG", kind)
    assert len(read_channels(file(content))[0]) == len(noise)
    pages = [match.start() for match in re.finditer(b"OggS", content)]
    assert len(pages) > 4
    turned = bytearray(content)
    turned[len(content) // 2] ^= 16
    with pytest.raises(InputError, match=r"page \d+ of Ogg has another checksum: trunc"):
        read_channels(file(bytes(turned)))
    with pytest.raises(InputError, match=r"page \d+ of Ogg follows \d+: truncated or damaged"):
        read_channels(file(content[: pages[3]] + content[pages[4] :]))


def test_what_surrounds_mp3_is_passed_over_or_the_remedy_named(
    file: Callable[[bytes], Path],
) -> None:
    mp3 = written(TONE, "MP3", "MPEG_LAYER_III")
    tag = b"ID3\4\0\0\0\0\0\7" + bytes(7)
    plain = read_channels(file(mp3))[0]
    for content in (tag + tag + mp3, tag + bytes(300) + mp3, mp3 + bytes(500), tag + mp3 + b"\0"):
        assert np.array_equal(read_channels(file(content))[0], plain)
    middle = len(mp3) // 2
    for content in (bytes(417) + mp3, mp3[:middle] + b"\xaa" * 26 + mp3[middle:], tag + b"junk"):
        with pytest.raises(InputError, match=r"convert it: (sox|ffmpeg -i) IN OUT\.wav"):
            read_channels(file(content))


@pytest.mark.parametrize("counts_all", [False, True])
def test_sound_that_no_size_counts_is_refused(
    file: Callable[[bytes], Path], counts_all: bool
) -> None:
    sound = bytearray(written(TONE, "WAV", "PCM_16"))
    due = int.from_bytes(sound[40:44], "little")
    assert due > 3 * 4096
    sound[40:44] = (due // 3 & ~1).to_bytes(4, "little")
    if not counts_all:
        sound[4:8] = (36 + (due // 3 & ~1)).to_bytes(4, "little")
    with pytest.raises(InputError, match=r"bytes follow the sound, .*sox --ignore-length"):
        read_channels(file(bytes(sound)))
    for rest in (bytes(9000), b"TAG" + 125 * b"x"):
        read_channels(file(written(TONE, "WAV", "PCM_16") + rest))


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
        (b"", "is empty"),
        (b"R", "is none of RIFF, RF64, W64, AIFF, CAF, AU, NIST .*; convert it: ffmpeg -i"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "git lfs pull"),
        (
            b"Dear diary" * 99,
            "is none of RIFF, RF64, W64, AIFF, CAF, AU, NIST .*; convert it: ffmpeg -i",
        ),
        (b"OggS" + bytes(100), "no page of Ogg ends at offset 54"),
        (b"OggS" + bytes(23), "the stream does not end within its 27 bytes"),
        (b"fLaC" + bytes(100), "cannot be decoded: "),
        (b"ID3\4\0\0\0\0\0\1" + bytes(100), "no sound follows its tags"),
        (b"FORM" + bytes(100), "a FORM file, but not of sound"),
        (b"RF64" + riff(MONO)[4:], "its sizes, the chunk ds64, are missing"),
        (written(MONO, "AU", "PCM_16")[:7] + b"\1" + bytes(99), "the header has the size -23"),
        (
            written(MONO, "AU", "PCM_16")[:11] + b"\x21" + written(SOUND, "AU", "PCM_16")[12:],
            "801 bytes of sound are no whole samples of 4",
        ),
        (riff(MONO)[:-1], "the sound needs 800 bytes at offset 44, the file has 843"),
        (
            riff(MONO)[:20] + b"\x77\0" + riff(MONO)[22:],
            "cannot be decoded: .*; truncated or damaged",
        ),
        (
            riff(MONO)[:32] + b"\3\0" + riff(MONO)[34:],
            "800 bytes of sound are no whole samples of 3",
        ),
        (written(SOUND / 3e4, "WAV", "FLOAT", {5: np.nan}), "sample 5 is nan times full scale"),
        (written(SOUND / 3e4, "WAV", "DOUBLE", {6: 1e300}), "sample 6 is inf times full scale"),
        (written(SOUND / 3e4, "WAV", "FLOAT", {7: -1e9}), r"sample 7 is -1e\+09 times full scale"),
        (riff(MONO[:0]), "0 samples at 16000 Hz"),
        (riff(MONO, 10), "400 samples at 10 Hz"),
        (riff(MONO, 2**31 - 1), "400 samples at 2147483647 Hz: an empty or damaged file"),
        (riff(MONO)[:36], "the next chunk needs 4 bytes at offset 36, the file has 36"),
        (sphere(MONO)[:-2], "the sound needs 800 bytes at offset 1024, the file has 1822"),
        (
            sphere(MONO, more="sample_coding -s26 pcm,embedded-shorten-v2.00\n"),
            "coded as 'pcm,embedded-shorten-v2.00', .* convert it: sph2pipe -f wav",
        ),
        (sphere(MONO, more="sample_coding -s4 ulaw\n"), "800 samples are decoded, .* 400 are due"),
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
    assert re.search("make it again|convert it|git lfs pull|give its sound", str(caught.value))


@pytest.mark.slow
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


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_lossless_formats_give_every_sample(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    form, encoding = data.draw(st.sampled_from(LOSSLESS))
    shape = data.draw(st.tuples(st.integers(1, 300), st.integers(1, 3)))
    sound = data.draw(arrays(np.int16, shape))
    rate = data.draw(st.sampled_from([8000, 16000, 44100]))
    exact = sound if encoding == "PCM_16" else sound / 2**15
    path = tmp_path_factory.getbasetemp() / "lossless"
    path.write_bytes(written(exact, form, encoding, rate=rate))
    samples, found = read_channels(path)
    assert found == rate
    assert samples.dtype == np.float32
    assert np.array_equal(samples, sound)


@pytest.mark.parametrize(("form", "encoding"), LOSSY)
def test_lossy_formats_give_the_tone(
    form: str, encoding: str, file: Callable[[bytes], Path]
) -> None:
    samples, rate = read_audio(file(written(TONE, form, encoding)))
    assert (len(samples), rate) == (len(TONE), 16000)
    noise = samples / 2**15 - TONE
    assert 10 * np.log10((TONE**2).mean() / (noise**2).mean()) > 20


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_truncated_file_of_any_format_is_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    form, encoding = data.draw(st.sampled_from([*LOSSLESS, *LOSSY]))
    content = written(TONE, form, encoding)
    path = tmp_path_factory.getbasetemp() / "truncated"
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(InputError) as caught:
        read_channels(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("where", [0.3, 0.6, 0.9])
def test_a_flipped_bit_in_flac_is_found(where: float, file: Callable[[bytes], Path]) -> None:
    content = bytearray(written(TONE, "FLAC", "PCM_16"))
    content[int(where * len(content))] ^= 1
    with pytest.raises(InputError, match="sound: "):
        read_audio(file(bytes(content)))


def test_flac_that_was_written_into_a_pipe_is_read_to_its_end(
    file: Callable[[bytes], Path],
) -> None:
    """Its header (RFC 9639, 8.2) says 0 samples, which means that nobody knows."""
    content = bytearray(written(SOUND, "FLAC", "PCM_16"))
    content[21] &= 0xF0
    content[22:26] = bytes(4)
    assert np.array_equal(read_channels(file(bytes(content)))[0], SOUND)


def test_mp3_keeps_its_length_or_is_refused(file: Callable[[bytes], Path]) -> None:
    """Without its first frame, nothing says how many frames of varying length there are."""
    content = written(TONE, "MP3", "MPEG_LAYER_III")
    assert len(read_audio(file(b"ID3\4\0\0\0\0\0\7" + bytes(7) + content))[0]) == len(TONE)
    assert len(read_audio(file(content + b"TAG" + bytes(125)))[0]) == len(TONE)
    rest = content[content.index(content[:2], 4) :]
    with pytest.raises(InputError, match=r"samples are decoded, but by its size \d+ are due"):
        read_audio(file(rest))


def test_real_recordings_are_what_the_standard_library_reads(shared_data: Path) -> None:
    files = [*(shared_data / "timit_sample").glob("*/*.wav")]
    assert files
    for path in files:
        with wave.open(str(path), "rb") as sound:
            expected = np.frombuffer(sound.readframes(sound.getnframes()), "<i2")
        assert np.array_equal(read_audio(path)[0], expected)


def test_channels_are_averaged(file: Callable[[bytes], Path]) -> None:
    mean = read_audio(file(written(SOUND, "FLAC", "PCM_16")), "mean")[0]
    assert np.array_equal(mean, SOUND.astype(np.float32).mean(axis=1))


def test_standard_input_is_read() -> None:
    script = (
        "from bayes_asr.data.sound.audio import read_audio as r\n"
        "x, _ = r('-'); print(x.sum()); r('-')"
    )
    content = written(MONO, "FLAC", "PCM_16")
    done = subprocess.run([sys.executable, "-c", script], input=content, capture_output=True)
    assert float(done.stdout) == MONO.sum()
    assert b"standard input: is empty" in done.stderr


def test_commands_are_run_on_request_alone(file: Callable[[bytes], Path], tmp_path: Path) -> None:
    path = file(written(MONO, "FLAC", "PCM_16"))
    command = f"touch {tmp_path}/executed; cat {path} |"
    with pytest.raises(InputError, match="refusing to run the command"):
        read_channels(command)
    assert not (tmp_path / "executed").exists()
    assert np.array_equal(read_channels(command, open_pipe=open_pipe)[0], MONO)
    with pytest.raises(InputError, match="failed with status 3"):
        read_channels(f"cat {path}; exit 3 |", open_pipe=open_pipe)


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE", "PCM_16"])
@pytest.mark.parametrize("form", ["WAV", "AIFF", "CAF"])
def test_samples_beyond_full_scale_are_counted(
    form: str, subtype: str, file: Callable[[bytes], Path], caplog: pytest.LogCaptureFixture
) -> None:
    samples = np.random.default_rng(3).normal(0, 0.6, (400_000, 2))
    path = file(b"")
    soundfile.write(path, samples, 16000, subtype, format=form)
    with caplog.at_level(logging.WARNING):
        read, _ = read_channels(path)
    loud = np.abs(samples.astype(np.float32)) > 1
    remarks = [record.getMessage() for record in caplog.records]
    if subtype == "PCM_16":  # its writer has clipped them
        assert np.abs(read).max() <= 2**15
        assert remarks == []
        return
    assert f"{loud.sum()} of {samples.size} samples are beyond full scale" in remarks[0]
    assert f"the loudest {np.abs(samples).max():.4g} times" in remarks[0]
    assert np.array_equal(np.abs(read) > 2**15, loud), "they are taken as they are"


def test_an_absent_library_is_named(
    file: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(InputError, match="needs soundfile: pip install soundfile"):
        read_audio(file(riff(MONO)))


@pytest.mark.parametrize(("limit", "unit"), [("LARGEST", "bytes"), ("LONGEST", "samples")])
def test_what_never_ends_is_refused(
    limit: str, unit: str, file: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audio, limit, 300)
    with pytest.raises(InputError, match=f"has more than 300 {unit}.*; cut it"):
        read_audio(file(riff(MONO)))


def test_much_sound_in_few_bytes_is_refused_before_it_is_decoded(
    file: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As 14 hours of silence in a FLAC of 3 MB; sound of the same length has more bytes."""
    monkeypatch.setattr(audio, "ALWAYS_DECODED", 1000)
    monkeypatch.setattr(audio, "MOST_PER_BYTE", 1)
    silence, noise = io.BytesIO(), io.BytesIO()
    soundfile.write(silence, np.zeros(20000, np.int16), 16000, format="FLAC")
    loud = np.random.default_rng(0).integers(-9999, 9999, 20000).astype(np.int16)
    soundfile.write(noise, loud, 16000, format="FLAC")
    assert len(read_audio(file(noise.getvalue()))[0]) == 20000
    monkeypatch.setattr(audio, "_join", None)
    size = len(silence.getvalue())
    with pytest.raises(InputError, match=f"has more than 1000 samples in {size} bytes; cut it"):
        read_audio(file(silence.getvalue()))
