"""Sound in pieces: samples are those that were sent, features those of the whole."""

import io
import signal
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.data.sound.online import (
    OnlineFeatures,
    SilenceGate,
    iter_until_interrupt,
    read_pipe,
)
from bayes_asr.data.sound.spectrum import Analysis
from tests.support.sounds import riff

RATE = 16000


class Pipe(io.BytesIO):
    """A pipe that gives an odd number of bytes at a time."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(min(size or 0, 333))


@pytest.mark.parametrize("header", [True, False])
def test_samples_are_those_that_were_sent(header: bool) -> None:
    samples = np.random.default_rng(0).integers(-(2**15), 2**15, 5000).astype(np.int16)
    content = riff(samples[:, None]) if header else samples.tobytes()
    parts = [*read_pipe(Pipe(content), RATE, 0.1)]
    assert len(parts) > 10
    np.testing.assert_array_equal(np.concatenate(parts), samples)


def test_chunks_behind_the_samples_are_no_samples() -> None:
    samples = np.arange(100, dtype=np.int16)
    content = riff(samples[:, None]) + b"LIST\x04\0\0\0abcd"
    np.testing.assert_array_equal(np.concatenate([*read_pipe(Pipe(content), RATE, 1)]), samples)
    # A size that was not known when it was written is that of all that comes.
    place = content.index(b"data") + 4
    endless = content[:place] + b"\xff" * 4 + content[place + 4 :]
    assert len(np.concatenate([*read_pipe(Pipe(endless), RATE, 1)])) == 100 + 6


def test_extensible_headers_of_plain_samples_are_read() -> None:
    samples = np.arange(50, dtype=np.int16)
    head, rest = riff(samples[:, None]).split(b"fmt ")
    size, form, tail = rest[:4], rest[4:20], rest[20:]
    assert size == b"\x10\0\0\0"
    extended = b"\xfe\xff" + form[2:] + b"\x16\0\x10\0" + bytes(4) + b"\1\0" + bytes(14)
    content = head + b"fmt \x28\0\0\0" + extended + tail
    np.testing.assert_array_equal(np.concatenate([*read_pipe(Pipe(content), RATE, 1)]), samples)


@pytest.mark.parametrize("head", [b"fLaC", b"OggS", b"ID3\3", b"caff\0\1"])
def test_packed_sound_is_no_noise(head: bytes) -> None:
    with pytest.raises(InputError, match="sox IN -t raw"):
        next(read_pipe(io.BytesIO(head + bytes(100)), RATE, 0.1))


def test_nothing_is_no_samples() -> None:
    assert [*read_pipe(io.BytesIO(), RATE, 0.1)] == []


def test_other_sound_is_refused_with_what_to_do() -> None:
    stereo = riff(np.zeros((10, 2), np.int16), 8000)
    with pytest.raises(InputError, match=r"2 channels of 16 bits at 8000 Hz; give one .*-r 16000"):
        next(read_pipe(io.BytesIO(stereo), RATE, 0.1))
    with pytest.raises(InputError, match="header is damaged"):
        next(read_pipe(io.BytesIO(stereo[:30]), RATE, 0.1))
    with pytest.raises(InputError, match="header is damaged"):
        next(read_pipe(io.BytesIO(stereo[:12] + b"LIST" + b"\xff" * 4), RATE, 0.1))


@settings(deadline=None, max_examples=20)
@given(
    kind=st.sampled_from(["mfcc", "fbank", "plp"]),
    sizes=st.lists(st.integers(0, 900), min_size=1, max_size=12),
    seed=st.integers(0, 99),
    dither=st.sampled_from([0.0, 1.0]),
)
def test_features_in_pieces_are_those_of_the_whole(
    kind: str, sizes: list[int], seed: int, dither: float
) -> None:
    pytest.importorskip("kaldi_native_fbank")
    analysis = Analysis(kind, dither=dither)  # type: ignore[arg-type]
    samples = np.random.default_rng(seed).normal(0, 1000, sum(sizes)).astype(np.float32)
    arriving = OnlineFeatures(analysis)
    parts = [arriving.push(part) for part in np.split(samples, np.cumsum(sizes)[:-1])]
    np.testing.assert_array_equal(np.concatenate(parts), analysis(samples))


def test_a_sound_that_begins_behind_another_has_the_dither_of_its_own_begin() -> None:
    pytest.importorskip("kaldi_native_fbank")
    analysis = Analysis(dither=1.0)
    samples = np.zeros(8000, np.float32)
    arriving = OnlineFeatures(analysis)
    first = arriving.push(samples[:4000])
    arriving.begin()
    second = arriving.push(samples[4000:])
    np.testing.assert_array_equal(second, analysis(samples[len(first) * RATE // 100 :]))
    assert not np.array_equal(second, analysis(samples)[len(first) :])


@pytest.mark.parametrize("kind", ["samples", "pitch", "mfcc-pitch"])
def test_features_of_the_whole_are_refused(kind: str) -> None:
    with pytest.raises(InputError, match="known when all of a sound is there"):
        OnlineFeatures(Analysis(kind))  # type: ignore[arg-type]


def test_an_interrupt_lets_the_last_piece_be_done() -> None:
    done = []
    for piece in iter_until_interrupt(iter(np.arange(6).reshape(3, 2))):
        signal.raise_signal(signal.SIGINT)
        done.append(piece.tolist())
    assert done == [[0, 1]]


def test_an_interrupt_ends_the_wait_for_a_piece() -> None:
    def wait() -> Iterator[np.ndarray]:
        yield np.zeros(1)
        signal.raise_signal(signal.SIGINT)
        yield np.ones(1)

    handler = signal.getsignal(signal.SIGINT)
    assert [piece.tolist() for piece in iter_until_interrupt(wait())] == [[0]]
    assert signal.getsignal(signal.SIGINT) is handler


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 400)), min_size=1, max_size=6),
    st.integers(1, 60),
)
def test_a_gate_passes_all_but_digital_silence(runs: list[tuple[int, int]], size: int) -> None:
    """At 1000 Hz 100 equal samples are silence."""
    samples = np.concatenate([np.full(length, value, np.int16) for value, length in runs])
    gate, heard = SilenceGate(1000, 0.1), [np.empty(0)]
    for part in np.split(samples, range(size, len(samples), size)):
        heard.append(gate.push(part))
    passed = np.concatenate([*heard, gate.flush()])
    edges = [0, *(np.flatnonzero(np.diff(samples)) + 1), len(samples)]
    lengths = np.diff(edges)
    # Of silence passes what is in the piece in which it ends; it is known where a piece ends in it.
    is_silent = lengths >= 100 + size
    assert len(passed) >= lengths[lengths < 100].sum()
    assert len(passed) <= lengths[~is_silent].sum() + size * is_silent.sum()
    position = iter(samples.tolist())
    assert all(value in position for value in passed.tolist())
