"""The small corpus with a second stream of features, at any rate."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.support.small_corpus import SETS, made_up, write_corpus, write_data_dir

OTHER, WIDTH = "pitch", 3
BOTH = [f"data.{name}.streams.{OTHER}=other/{name}" for name in SETS]
"""Settings that name the second stream."""


def other_features(name: str, rate: int | str = 1) -> dict[str, np.ndarray]:
    """What the second stream has of a set [T, WIDTH]; rate: its subsampling."""
    rng = np.random.default_rng(len(name))
    features, _ = made_up(name, SETS[name])
    return {
        utt: (7 + 2 * rng.standard_normal((frames_at(rate, len(x)), WIDTH))).astype(np.float32)
        for utt, x in features.items()
    }


def frames_at(rate: int | str, frames: int) -> int:
    """How many frames a stream of this subsampling has where the first has `frames`."""
    if isinstance(rate, str):
        return 1
    return frames * -rate if rate < 0 else -(-frames // rate)


def at_frames(rate: int | str, x: np.ndarray, frames: int) -> np.ndarray:
    """What of a stream goes with each frame of the first, one by one."""
    if isinstance(rate, str):
        return np.stack([x[0] for _ in range(frames)])
    return np.stack([x[t // rate if rate > 0 else t * -rate] for t in range(frames)])


def write_both(root: Path, rate: int | str = 1) -> Path:
    """Write a corpus with the second stream in `other`."""
    write_corpus(root)
    for name in SETS:
        write_data_dir(root / "other" / name, other_features(name, rate))
    return root


def write_side_by_side(root: Path, rate: int | str = 1) -> Path:
    """Write a corpus whose features are those of both streams, frame by frame."""
    write_corpus(root)
    for name, count in SETS.items():
        features, other = made_up(name, count)[0], other_features(name, rate)
        write_data_dir(root / "data" / name, lay(features, other, rate))
    return root


def lay(
    features: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray], rate: int | str
) -> dict[str, np.ndarray]:
    """Both streams [T, 5 + WIDTH] of each utterance."""
    return {utt: np.hstack([x, at_frames(rate, other[utt], len(x))]) for utt, x in features.items()}
