"""How frames of streams at different rates go together, against lists by hand."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.data.features.front_end import FrontEnd
from bayes_asr.kaldi_io.ark import iter_matrices, read_matrix, read_shape

rates = st.one_of(st.integers(1, 9), st.integers(-9, -2), st.just("utterance"))


def slower(frames: int, rate: int) -> list[int]:
    """The frames that Kaldi's subsample-feats --n=RATE keeps of so many."""
    return [frame for frame in range(frames) if frame % rate == 0]


@given(rate=st.integers(1, 9), frames=st.integers(1, 50))
def test_a_slower_stream_has_what_subsampling_leaves(rate: int, frames: int) -> None:
    front_end = FrontEnd(subsampling=rate)
    kept = slower(frames, rate)
    assert [own for own in range(60) if front_end.fits(own, frames)] == [len(kept)]
    found = front_end.spread(np.array(kept)[:, None], frames)[:, 0].tolist()
    assert found == [max(frame for frame in kept if frame <= t) for t in range(frames)]


@given(rate=st.integers(2, 9), own=st.integers(1, 50))
def test_a_faster_stream_is_what_subsampling_would_leave_of_it(rate: int, own: int) -> None:
    front_end = FrontEnd(subsampling=-rate)
    kept = slower(own, rate)
    assert [frames for frames in range(60) if front_end.fits(own, frames)] == [len(kept)]
    assert front_end.spread(np.arange(own)[:, None], len(kept))[:, 0].tolist() == kept


@given(rate=rates, own=st.integers(0, 50))
def test_reach_is_the_most_frames_that_all_find_their_own(rate: int | str, own: int) -> None:
    front_end = FrontEnd(subsampling=rate)  # type: ignore[arg-type]
    reach = front_end.reach(own)
    frames = np.arange(600)
    found = front_end.place(frames) < own
    assert found[: int(min(reach, 600))].all()
    assert not found[int(min(reach, 600)) :].any()


def test_one_vector_goes_with_all_frames() -> None:
    front_end = FrontEnd(subsampling="utterance")
    assert [own for own in range(5) if front_end.fits(own, 7)] == [1]
    np.testing.assert_array_equal(front_end.spread(np.ones((1, 3)), 7), np.ones((7, 3)))


@pytest.mark.parametrize("text", [True, False])
def test_kaldis_vectors_are_matrices_of_one_row(text: bool, tmp_path: Path) -> None:
    kaldiio = pytest.importorskip("kaldiio")
    vectors = {"a": np.array([1.5, -2, 3], np.float32), "b": np.array([4.0], np.float64)}
    path, index = f"{tmp_path}/v.ark", f"{tmp_path}/v.scp"
    kaldiio.save_ark(path, vectors, scp=index, text=text)
    for utt, matrix in iter_matrices(index):
        np.testing.assert_array_equal(matrix, vectors[utt][None])
    for line in Path(index).read_text().splitlines():
        utt, where = line.split()
        assert read_shape(where, utt) == (1, len(vectors[utt]))
        np.testing.assert_array_equal(read_matrix(where, utt), vectors[utt][None])
