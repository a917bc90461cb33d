"""The denominator of LF-MMI against enumeration, autograd, differences and closed forms."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.transducers import build_fst
from bayes_asr.tasks.chain.compiled import LIBRARY
from bayes_asr.tasks.chain.denominator_graph import DenominatorGraph
from bayes_asr.tasks.chain.leaky_hmm import LeakyHmm, sum_paths_in_torch
from tests.support.small_graphs import enumerate_sum, random_graph

SMALL = settings(max_examples=15, deadline=None)


def random_scores(seed: int, frames: int, pdfs: int = 4, spread: float = 3.0) -> np.ndarray:
    return np.random.default_rng([seed, 1]).normal(0, spread, (frames, pdfs))


def in_torch(graph: DenominatorGraph, leak: float) -> Callable[[np.ndarray], tuple[float, object]]:
    """The twin as it is used where the library is not built."""
    hmm = LeakyHmm(graph, leak)
    hmm._arcs = None
    return hmm.sum_paths


def compiled(graph: DenominatorGraph, leak: float) -> Callable[[np.ndarray], tuple[float, object]]:
    if not LIBRARY.usable:
        pytest.skip(LIBRARY.fault)
    return LeakyHmm(graph, leak).sum_paths


FORMS = [in_torch, compiled]


@pytest.mark.parametrize("form", FORMS)
@SMALL
@given(seed=st.integers(0, 10**6), frames=st.integers(1, 4), leak=st.floats(1e-5, 0.5))
def test_sum_is_that_of_all_paths(form: Callable, seed: int, frames: int, leak: float) -> None:
    graph, scores = random_graph(seed), random_scores(seed, frames)
    found, _ = form(graph, leak)(scores)
    assert found == pytest.approx(enumerate_sum(graph, leak, scores), abs=1e-10)


@pytest.mark.parametrize("form", FORMS)
@SMALL
@given(seed=st.integers(0, 10**6), frames=st.integers(1, 6), leak=st.sampled_from([1e-5, 0.1]))
def test_shares_are_derivatives_and_sum_to_one(
    form: Callable, seed: int, frames: int, leak: float
) -> None:
    sum_paths, scores = form(random_graph(seed), leak), random_scores(seed, frames)
    share, step = sum_paths(scores)[1], 1e-5
    np.testing.assert_allclose(share.sum(1), 1, atol=1e-10)
    for cell in range(0, scores.size, 3):
        moved = np.zeros(scores.size)
        moved[cell] = step
        more, less = (sum_paths(scores + s * moved.reshape(scores.shape))[0] for s in (1, -1))
        assert share.flat[cell] == pytest.approx((more - less) / (2 * step), abs=1e-8)


@pytest.mark.slow
@SMALL
@given(seed=st.integers(0, 10**6), spread=st.sampled_from([1.0, 30.0, 200.0]))
def test_library_is_the_twin_in_torch_on_long_utterances(seed: int, spread: float) -> None:
    graph = random_graph(seed, states=12, pdfs=9, arcs=40)
    scores = random_scores(seed, 60, 9, spread)
    (total, share), (known, derivative) = (
        form(graph, 0.1)(scores) for form in (compiled, in_torch)
    )
    assert total == pytest.approx(known, rel=1e-12, abs=1e-9)
    np.testing.assert_allclose(share, derivative, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_added_to_all_scores_of_a_frame_changes_no_share(form: Callable) -> None:
    """Softmax would be lost on this sum; and 2,000 frames of it neither overflow nor vanish."""
    sum_paths = form(random_graph(3), 0.1)
    scores = random_scores(3, 2000 if form is compiled else 50)
    more = np.linspace(-900, 1000, len(scores))
    (plain, share), (moved, same) = sum_paths(scores), sum_paths(scores + more[:, None])
    assert moved == pytest.approx(plain + more.sum(), rel=1e-12)
    np.testing.assert_allclose(share, same, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_one_state_that_emits_each_pdf_is_a_softmax(form: Callable) -> None:
    """A closed form: each frame adds the log of the sum of likelihoods, a leak a factor."""
    nought = np.zeros(4, np.int32)
    alike = (nought, nought, np.arange(4, dtype=np.int32), np.full(4, 0.25), np.ones(1))
    graph, scores = DenominatorGraph(1, 4, *alike), random_scores(0, 5)
    total, share = form(graph, 0.1)(scores)
    tensor = torch.from_numpy(scores)
    wanted = (tensor.logsumexp(1) - np.log(4)).sum() + 6 * np.log(1.1)
    assert total == pytest.approx(float(wanted), abs=1e-10)
    np.testing.assert_allclose(share, tensor.softmax(1), atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_validation_has_the_same_derivatives(form: Callable) -> None:
    sum_paths, scores = form(random_graph(0), 0.1), random_scores(0, 4)
    total, share = sum_paths(scores)
    with torch.no_grad():
        validated, same = sum_paths(scores)
    assert validated == total
    np.testing.assert_array_equal(same, share)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("form", FORMS)
def test_scores_that_are_not_finite_show_in_the_sum(form: Callable, bad: float) -> None:
    scores = random_scores(0, 4)
    scores[2] = bad
    total, share = form(random_graph(0), 0.1)(scores)
    assert not np.isfinite(total)
    assert not share.any()


def test_twin_is_differentiable_as_torch_sees_it() -> None:
    """The oracle of the oracle: torch's own check of derivatives."""
    graph = random_graph(5)
    scores = torch.from_numpy(random_scores(5, 2)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: sum_paths_in_torch(graph, 0.1, x), scores)


def test_other_numbers_of_pdfs_and_no_leak_are_refused() -> None:
    with pytest.raises(ValueError, match="for 4 pdfs"):
        LeakyHmm(random_graph(0), 0.1).sum_paths(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="above 0"):
        LeakyHmm(random_graph(0), 0.0)


def test_initial_probabilities_are_the_mean_of_the_first_hundred_frames() -> None:
    """Against powers of the matrix of transitions; a final state loses what ends there."""
    half = -np.log(0.5)
    arcs = [(0, 1, 1, 0.0, 1), (1, 2, 2, half, 2), (1, 1, 1, half, 1), (2, 3, 3, half, 0)]
    graph = DenominatorGraph.of_fst(build_fst(arcs, {2: half}), 3)
    onward = np.array([[0, 1, 0], [0, 0.5, 0.5], [0.5, 0, 0]])
    now = [np.array([1.0, 0, 0])]
    for _ in range(99):
        following = now[-1] @ onward
        now.append(following / following.sum())
    np.testing.assert_allclose(graph.initial, np.mean(now, 0), atol=1e-7)
    assert graph.pdf.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    ("arcs", "said"),
    [
        ([(0, 1, 1, 0.0, 0), (0, 4, 4, 0.0, 0)], "emits pdf 3, but the model has 3"),
        ([(0, 1, 1, 0.0, 0), (0, 0, 0, 0.0, 0)], "arcs that emit nothing"),
        ([(0, 1, 1, 0.0, 0), (1, 1, 1, 0.0, 0)], "not reached within 100 frames, such as 1"),
    ],
)
def test_acceptors_that_are_no_denominator_are_refused(arcs: list, said: str) -> None:
    with pytest.raises(InputError, match=said):
        DenominatorGraph.of_fst(build_fst(arcs, {}), 3)
