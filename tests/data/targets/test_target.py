"""What is advised where an utterance has more or fewer labels than frames."""

import pytest

from bayes_asr.data.targets.target import advise_lengths


@pytest.mark.parametrize(
    ("frames", "labels", "subsampled"),
    [(50, 17, True), (50, 25, True), (50, 100, False), (3, 2, False), (50, 49, False)],
)
def test_only_far_fewer_labels_than_frames_suggest_lf_mmi(
    frames: int, labels: int, subsampled: bool
) -> None:
    assert ("LF-MMI" in advise_lengths(frames=frames, labels=labels)) == subsampled
