"""Sums over paths against enumeration, central differences, and what Kaldi's programs print."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.decode.lattices import compiled
from bayes_asr.decode.lattices.aligned import AlignedLattice, align_lattice
from bayes_asr.decode.lattices.expectation import Expectation, expect, expect_in_python
from bayes_asr.decode.lattices.posteriors import compare_posteriors
from bayes_asr.decode.lattices.reference import LatticeComparison
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.lattice import CompactLattice
from bayes_asr.kaldi_io.lattice_files import iter_lattices
from tests.decode.lattices.test_posteriors import read_kaldis
from tests.decode.search.test_determinize import random_lattice
from tests.support.aligned_cases import cells_of, list_paths, random_aligned

needs_native = pytest.mark.skipif(not compiled.LIBRARY.usable, reason=compiled.LIBRARY.fault)
FORMS = [expect_in_python, pytest.param(expect, marks=needs_native)]
SMALL = settings(max_examples=25, deadline=None)
MODEL = build_monophone_model((2, 3, 7), 2)  # three phones, six pdfs, two transition-ids each


def drawn(lattice: AlignedLattice, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, 1])
    return rng.normal(0, 2, len(lattice.frame)), rng.random(len(lattice.frame))


def enumerate_paths(
    lattice: AlignedLattice, score: np.ndarray, gain: np.ndarray
) -> tuple[float, float, np.ndarray]:
    """Log of the sum, mean gain and shares of cells, path by path."""
    paths = list(list_paths(lattice))
    cells = [cells_of(lattice, path) for path in paths]
    logs = np.array(
        [lattice.weight[list(p)].sum() + score[c].sum() for p, c in zip(paths, cells, strict=True)]
    )
    total = np.logaddexp.reduce(logs)
    shares = np.exp(logs - total)
    passed = np.zeros(len(lattice.frame))
    for share, own in zip(shares, cells, strict=True):
        passed[own] += share
    return total, float(shares @ [gain[c].sum() for c in cells]), passed


@pytest.mark.parametrize("form", FORMS)
@SMALL
@given(seed=st.integers(0, 10**6), frames=st.integers(1, 5))
def test_sums_are_those_of_all_paths(
    form: Callable[..., Expectation], seed: int, frames: int
) -> None:
    lattice = random_aligned(seed, frames)
    score, gain = drawn(lattice, seed)
    found = form(lattice, score, gain)
    total, mean, passed = enumerate_paths(lattice, score, gain)
    assert found.log_total == pytest.approx(total, abs=1e-10)
    assert found.gain == pytest.approx(mean, abs=1e-10)
    np.testing.assert_allclose(found.share, passed, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
@SMALL
@given(seed=st.integers(0, 10**6))
def test_shares_and_slopes_are_derivatives(form: Callable[..., Expectation], seed: int) -> None:
    lattice = random_aligned(seed)
    score, gain = drawn(lattice, seed)
    found, step = form(lattice, score, gain), 1e-5
    for cell in range(0, len(score), 3):
        moved = np.zeros(len(score))
        moved[cell] = step
        more, less = (form(lattice, score + sign * moved, gain) for sign in (1, -1))
        wanted = (more.log_total - less.log_total, more.gain - less.gain)
        assert (found.share[cell], found.slope[cell]) == pytest.approx(
            tuple(x / (2 * step) for x in wanted), abs=1e-8
        )


@SMALL
@given(seed=st.integers(0, 10**6), frames=st.integers(1, 6))
def test_packed_lattices_come_back(seed: int, frames: int) -> None:
    lattice = random_aligned(seed, frames)
    for name, value in vars(AlignedLattice.unpack(lattice.pack())).items():
        assert np.array_equal(value, getattr(lattice, name)), name


def right_frames(
    criterion: str, one_class: bool, silence: int, tids: np.ndarray, reference: np.ndarray
) -> int:
    """How many frames of a path are right, as Kaldi's comments say it, frame by frame."""
    count = 0
    for tid, wanted in zip(tids.tolist(), reference.tolist(), strict=True):
        label = MODEL.pdf if criterion == "smbr" else MODEL.phone
        silent, meant = MODEL.phone[tid] == silence, MODEL.phone[wanted] == silence
        if one_class:
            count += bool(label[tid] == label[wanted] or (silent and meant))
        else:
            count += bool(label[tid] == label[wanted] and not silent)
    return count


@pytest.mark.parametrize("criterion", ["mpe", "smbr"])
@pytest.mark.parametrize("one_class", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_accuracy_is_the_mean_over_paths(criterion: str, one_class: bool, seed: int) -> None:
    tids = MODEL.num_transition_ids
    lattice = random_aligned(seed, 5, tids)
    reference = np.random.default_rng(seed).integers(1, tids + 1, 5)
    found = compare_posteriors(
        lattice, reference, LatticeComparison(criterion, MODEL, (2,), one_class)
    )
    paths = list(list_paths(lattice))
    logs = np.array([lattice.weight[list(path)].sum() for path in paths])
    shares = np.exp(logs - np.logaddexp.reduce(logs))
    right = [
        right_frames(criterion, one_class, 2, lattice.tid[cells_of(lattice, path)], reference)
        for path in paths
    ]
    assert found.accuracy == pytest.approx(float(shares @ right), abs=1e-10)
    assert np.bincount(found.frame, found.share) == pytest.approx(np.zeros(5), abs=1e-10)


def test_boosted_paths_weigh_more_by_their_errors() -> None:
    lattice = random_aligned(3, 5, MODEL.num_transition_ids)
    reference = np.full(5, 5)
    how = LatticeComparison("bmmi", MODEL, (2,), boost=0.3, max_silence_error=0.5)
    errors = np.zeros(len(lattice.frame))
    for cell, tid in enumerate(lattice.tid.tolist()):
        if MODEL.phone[tid] != MODEL.phone[5]:
            errors[cell] = 0.5 if MODEL.phone[tid] == 2 else 1.0
    total, _, passed = enumerate_paths(lattice, 0.3 * errors, errors)
    found = compare_posteriors(lattice, reference, how)
    assert found.log_likelihood == pytest.approx(total, abs=1e-10)
    np.testing.assert_allclose(found.share, passed, atol=1e-10)


KALDIS = [
    ("bmmi_den", LatticeComparison("bmmi", MODEL, (1,), boost=0.1)),
    ("smbr_plain", LatticeComparison("smbr", MODEL, (1,))),
    ("smbr_one_silence", LatticeComparison("smbr", MODEL, (1,), one_silence_class=True)),
    ("mpe_plain", LatticeComparison("mpe", MODEL, (1,))),
    ("mpe_one_silence", LatticeComparison("mpe", MODEL, (1,), one_silence_class=True)),
]


@pytest.fixture(scope="module")
def kaldis_lattices(golden: Path) -> dict[str, AlignedLattice]:
    path = golden / "sequence" / "timit_dev" / "lat.gz"
    return {utt: align_lattice(lattice, 0.2) for utt, lattice in iter_lattices(path)}


@pytest.mark.parametrize(("name", "comparison"), KALDIS, ids=[name for name, _ in KALDIS])
def test_posteriors_are_those_of_kaldis_programs(
    name: str,
    comparison: LatticeComparison,
    kaldis_lattices: dict[str, AlignedLattice],
    golden: Path,
    shared_data: Path,
) -> None:
    folder = golden / "sequence" / "timit_dev"
    aligned = Alignments(shared_data / "kaldi" / "timit_sample" / "exp" / "tri3_ali_dev")
    how = LatticeComparison(**{**vars(comparison), "model": aligned.model})
    theirs, total = dict(read_kaldis(folder / f"{name}.post.gz")), [0.0, 0.0, 0]
    references = dict(aligned.items())
    for utt, lattice in kaldis_lattices.items():
        found = compare_posteriors(lattice, references[utt], how)
        expected = {(t, tid): p for t, frame in enumerate(theirs[utt]) for tid, p in frame.items()}
        for frame, tid, share in zip(
            found.frame.tolist(), found.tid.tolist(), found.share.tolist(), strict=True
        ):
            assert share == pytest.approx(expected.pop((frame, tid), 0.0), abs=1e-4)
        assert not expected
        total = [
            a + b
            for a, b in zip(
                total, (found.accuracy, found.log_likelihood, found.num_frames), strict=True
            )
        ]
    said = dict(line.split(": ") for line in (folder / "summary.txt").read_text().splitlines())
    value = total[0] if how.of_accuracy else total[1]
    assert float(said[name].split(" is ")[1].split()[0]) == pytest.approx(
        value / total[2], abs=1e-4
    )


def test_lattices_without_transition_ids_are_refused() -> None:
    words = CompactLattice(
        offsets=np.array([0, 1, 1]),
        word=np.array([7], np.int32),
        graph=np.zeros(1, np.float32),
        acoustic=np.zeros(1, np.float32),
        nextstate=np.array([1], np.int32),
        tid_offsets=np.array([0, 0]),
        tids=np.empty(0, np.int32),
        final_graph=np.array([np.inf, 0], np.float32),
        final_acoustic=np.array([np.inf, 0], np.float32),
        final_tid_offsets=np.array([0, 0, 0]),
        final_tids=np.empty(0, np.int32),
    )
    with pytest.raises(InputError, match="has no transition-ids, which say"):
        align_lattice(words, 1.0)


def test_references_of_other_lengths_and_models_are_refused() -> None:
    lattice = align_lattice(random_lattice(0), 1.0)
    with pytest.raises(InputError, match="has 5 frames, but 4 in the alignment"):
        compare_posteriors(lattice, np.ones(4, np.int32), LatticeComparison("smbr", MODEL))
    other = build_monophone_model((2,), 1)
    with pytest.raises(InputError, match=r"has transition-id \d+, but the model 2"):
        compare_posteriors(lattice, np.ones(5, np.int32), LatticeComparison("smbr", other))
