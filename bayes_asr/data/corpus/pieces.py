"""Long utterances in pieces: what a curriculum of sequence lengths trains on.

A piece is named `UTTERANCE BEGIN END`, by its frames. Names of utterances have no spaces.
"""

from collections.abc import Mapping
from itertools import pairwise


def cut(lengths: Mapping[str, int], most: int) -> dict[str, int]:
    """The frames of utterances, of which those longer than `most` are cut into pieces.

    As few pieces as there must be, of equal length but for one frame: together they are the
    utterance. So an epoch has every frame once, and pdfs are as frequent as without.
    """
    pieces = {}
    for utt, frames in lengths.items():
        count = -(-frames // most)
        if count == 1:
            pieces[utt] = frames
            continue
        for begin, end in pairwise(frames * number // count for number in range(count + 1)):
            pieces[f"{utt} {begin} {end}"] = end - begin
    return pieces


def find_piece(name: str) -> tuple[str, slice]:
    """The utterance of a piece, or of its own name, and which of its frames it has."""
    utt, *ends = name.split(" ")
    return utt, slice(*map(int, ends)) if ends else slice(None)
