"""Sound in blocks: the samples of the whole file, of which no more than some seconds are held."""

import io
import os
import threading
from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.data.sound import long
from bayes_asr.data.sound.audio import read_audio
from bayes_asr.data.sound.file_bytes import FileBytes
from bayes_asr.data.sound.long import LongSound, leave_out
from tests.support.sounds import riff

RATE = 8000
SAMPLES = np.random.default_rng(0).integers(-9000, 9000, (47_001, 2)).astype(np.int16)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Not quite six seconds of two channels."""
    path = tmp_path / "x.wav"
    path.write_bytes(riff(SAMPLES, RATE))
    return path


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a second."""
    monkeypatch.setattr(long, "BLOCK_SECONDS", 1)


def test_blocks_are_the_file(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    sound = LongSound.open(str(file), None)
    assert sound.seconds == len(SAMPLES) / RATE
    blocks = [*sound.blocks()]
    assert [len(block) for block in blocks] == [RATE] * 5 + [len(SAMPLES) - 5 * RATE]
    np.testing.assert_array_equal(np.concatenate(blocks), read_audio(file, 0)[0])
    np.testing.assert_array_equal(LongSound.open(str(file), 1).read(), read_audio(file, 1)[0])
    assert caplog.text.count("has 2 channels; the first is taken") == 1
    with pytest.raises(InputError, match="channel 2 is asked for"):
        assert LongSound.open(str(file), 2).seconds


@given(st.lists(st.tuples(st.floats(0, 6.5), st.floats(0, 3)), max_size=5))
def test_spans_are_cut_wherever_they_lie(spans: list[tuple[float, float]]) -> None:
    sound = LongSound("x", 0, io.BytesIO(riff(SAMPLES, RATE)))
    cut = sorted((begin, begin + length) for begin, length in spans)
    for (begin, end), samples in zip(cut, sound.cut(cut), strict=True):
        whole = SAMPLES[round(begin * RATE) : round(end * RATE), 0]
        np.testing.assert_array_equal(samples, whole)


def test_no_more_than_a_span_and_a_block_is_held(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = LongSound.open(str(file), 0)
    taken: list[int] = []
    blocks = sound.blocks

    def count() -> Iterator[np.ndarray]:
        for block in blocks():
            taken.append(len(block))
            yield block

    monkeypatch.setattr(LongSound, "blocks", lambda _: count())
    for number, _ in enumerate(sound.cut([(i, i + 0.5) for i in range(5)])):
        assert len(taken) == number + 1  # a block is read when a span needs it


def test_a_pipe_is_read_twice(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(riff(SAMPLES, RATE)))
    writer.start()
    sound = LongSound.open(str(fifo), 1)
    writer.join()
    for _ in range(2):
        np.testing.assert_array_equal(sound.read(), SAMPLES[:, 1])


def test_a_file_that_ends_too_early_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(riff(SAMPLES, RATE)[:-100])
    with pytest.raises(InputError, match="the sound needs"):
        LongSound.open(str(path), 0).read()


@given(st.binary(max_size=40), st.integers(0, 40), st.integers(0, 40), st.binary(max_size=4))
def test_bytes_of_a_file_are_those_of_a_bytearray(
    content: bytes, begin: int, end: int, change: bytes
) -> None:
    expected, ours = bytearray(content), FileBytes(io.BytesIO(content), len(content))
    change = change[: max(0, len(content) - 2)]
    for x in (expected, ours):
        x[2 : 2 + len(change)] = change
        del x[:begin]
        del x[max(1, end) :]
    assert (len(ours), ours[:], ours[1:3]) == (len(expected), expected, expected[1:3])
    assert ours.open().read() == expected
    assert ours.count_zeros() == len(expected) - len(expected.lstrip(b"\0"))
    assert ours.startswith((b"\0\0", b"\1")) == expected.startswith((b"\0\0", b"\1"))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5000)), min_size=1, max_size=8))
def test_digital_silence_is_wherever_samples_stay(runs: list[tuple[int, int]]) -> None:
    samples = np.concatenate([np.full(length, value, np.int16) for value, length in runs])
    sound = LongSound("x", 0, io.BytesIO(riff(samples[:, None], RATE)))
    joined = [(value, sum(n for _, n in group)) for value, group in groupby(runs, lambda r: r[0])]
    ends = [*accumulate(length for _, length in joined)]
    expected = [
        ((end - length) / RATE, end / RATE)
        for (_, length), end in zip(joined, ends, strict=True)
        if length >= 0.25 * RATE
    ]
    assert [*sound.find_digital_silence(0.25)] == expected


SPANS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=6)


def place(parts: list[tuple[int, int]]) -> list[tuple[float, float]]:
    """Spans of (gap before, length), one behind the other."""
    ends = [*accumulate(gap + length for gap, length in parts)]
    return [(end - length, end) for (_, length), end in zip(parts, ends, strict=True)]


@given(SPANS, SPANS)
def test_what_is_left_out_is_in_no_span(
    parts: list[tuple[int, int]], holes: list[tuple[int, int]]
) -> None:
    def seconds(spans: Iterable[tuple[float, float]]) -> set[int]:
        return {second for begin, end in spans for second in range(int(begin), int(end))}

    spans, gaps = place(parts), place(holes)
    remaining = [*leave_out(spans, gaps, 1)]
    assert seconds(remaining) == seconds(spans) - seconds(gaps)
    assert all(end - begin >= 3 for begin, end in leave_out(spans, gaps, 3))
