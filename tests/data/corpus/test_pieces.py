"""Pieces of long utterances: every frame once, none longer than allowed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.data.corpus.batches import cut_pieces, find_piece


@pytest.mark.slow
@given(
    st.dictionaries(st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True), st.integers(1, 400)),
    st.integers(1, 120),
)
def test_pieces_are_the_utterances(lengths: dict[str, int], most: int) -> None:
    pieces = cut_pieces(lengths, most)
    frames: dict[str, list[int]] = {utt: [] for utt in lengths}
    for name, length in pieces.items():
        utt, place = find_piece(name)
        own = np.arange(lengths[utt])[place].tolist()
        assert len(own) == length <= most
        frames[utt] += own
    assert frames == {utt: list(range(length)) for utt, length in lengths.items()}


def test_as_few_pieces_as_there_must_be_and_of_one_length() -> None:
    assert cut_pieces({"a": 100, "b": 101, "c": 7}, 100) == {
        "a": 100,
        "b 0 50": 50,
        "b 50 101": 51,
        "c": 7,
    }
    for length in range(1, 200):
        pieces = list(cut_pieces({"a": length}, 30).values())
        assert len(pieces) == -(-length // 30)
        assert max(pieces) - min(pieces) <= 1
