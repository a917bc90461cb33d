"""Questions: clusters of phones, against clusters that are plain to see."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.gmm.questions import cluster_phones, compile_questions, read_phone_sets
from bayes_asr.gmm.randomness import Random
from bayes_asr.gmm.tree_statistics import Context, TreeStatistics
from bayes_asr.kaldi_io.context_dependency import PDF_CLASS
from tests.support.event_sums import topology_of


def statistics_of(means: dict[int, float], pdf_class: int = 1) -> TreeStatistics:
    """100 frames of each phone, of variance one around its mean; without context."""
    events = np.array([[pdf_class, phone] for phone in means], np.int32)
    sums = np.array([[100, 100 * m, 100 * (m * m + 1)] for m in means.values()], np.float64)
    return TreeStatistics(Context(1, 0), events, sums)


def test_phones_that_sound_alike_are_asked_for_together() -> None:
    means = {1: 0.0, 2: 50.0, 3: 1.0, 4: 52.0, 5: 2.5}
    found = cluster_phones(statistics_of(means), [(p,) for p in means], Random())
    assert set(found) == {(1, 3, 5), (2, 4), (1, 3), (1,), (2,), (3,), (4,), (5,)}
    assert len(found[0]) > 1  # large clusters come first


def test_phones_of_a_set_stay_together() -> None:
    means = {1: 0.0, 2: 50.0, 3: 1.0, 4: 52.0}
    found = cluster_phones(statistics_of(means), [(2, 1), (3,), (4,)], Random())
    assert all((1 in phones) == (2 in phones) for phones in found)


def test_other_pdf_classes_are_not_heard(messages: Callable[[], str]) -> None:
    statistics = statistics_of({1: 0.0, 2: 9.0, 3: 1.0}, pdf_class=0)
    silent = cluster_phones(statistics, [(1,), (2,), (3,)], Random())
    assert set(silent) == {(1, 2, 3), (1,), (2,), (3,)}
    assert "compared by pdf-classes [1]" in messages()
    heard = cluster_phones(statistics, [(1,), (2,), (3,)], Random(), pdf_classes=(0, 1))
    assert (1, 3) in heard


def test_phones_without_frames_are_asked_for_too() -> None:
    found = cluster_phones(statistics_of({1: 0.0, 2: 9.0}), [(1,), (2,), (7,)], Random())
    assert {(1,), (2,), (7,)} <= set(found)


def test_questions_of_every_position_and_of_the_pdf_class() -> None:
    questions = compile_questions([(2, 1), (3,), (1, 2)], topology_of(3, states=3), 2)
    assert questions == {
        PDF_CLASS: ((0,), (0, 1)),
        0: ((1, 2), (3,)),
        1: ((1, 2), (3,)),
    }


def test_what_cannot_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"phones \[4\] are asked for"):
        compile_questions([(4,)], topology_of(3), 3)
    with pytest.raises(InputError, match="in two of the sets"):
        cluster_phones(statistics_of({1: 0.0, 2: 1.0}), [(1,), (1, 2)], Random())
    path = tmp_path / "sets.int"
    path.write_text("1 2\n\n3 x\n")
    with pytest.raises(InputError, match=r"sets.int, line 3: .*'3 x'"):
        read_phone_sets(path)
    path.write_text("1 2\n\n3\n")
    assert read_phone_sets(path) == [(1, 2), (3,)]
