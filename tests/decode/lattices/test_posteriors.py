"""Posteriors of lattices against sums over all their paths, and against Kaldi's lattice-to-post."""

import gzip
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.lattices.posteriors import Posteriors, compute_posteriors
from bayes_asr.decode.search.determinize import determinize
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice
from bayes_asr.kaldi_io.lattice_files import iter_lattices
from bayes_asr.kaldi_io.text import read_mapping
from tests.decode.search.test_determinize import PHONES, random_lattice
from tests.support.decode_cases import all_paths, word_paths

SCALE = 0.4


def enumerated(
    lattice: Lattice | CompactLattice,
) -> tuple[dict[tuple[int, int], float], float]:
    """Posteriors by (frame, transition-id) and the log-likelihood of all paths together."""
    paths = list(all_paths(lattice) if isinstance(lattice, Lattice) else word_paths(lattice))
    logs = np.array([-(graph + SCALE * acoustic) for _, _, graph, acoustic in paths])
    total = np.logaddexp.reduce(logs)
    shares: dict[tuple[int, int], float] = defaultdict(float)
    for (_, tids, *_), share in zip(paths, np.exp(logs - total), strict=True):
        for frame, tid in enumerate(tids):
            shares[frame, tid] += share
    return shares, float(total)


def by_frame(found: Posteriors) -> dict[tuple[int, int], float]:
    keys = zip(found.frame.tolist(), found.tid.tolist(), strict=True)
    return dict(zip(keys, found.share.tolist(), strict=True))


@pytest.mark.parametrize("words", [False, True], ids=["states", "words"])
@pytest.mark.parametrize("seed", range(8))
def test_posteriors_are_sums_over_paths(seed: int, words: bool) -> None:
    states = random_lattice(seed)
    lattice = determinize(states, PHONES, 3.0) if words else states
    found = compute_posteriors(lattice, SCALE)
    expected, total = enumerated(lattice)
    assert by_frame(found) == pytest.approx(expected, abs=1e-5)
    assert list(by_frame(found)) == sorted(expected)
    assert found.log_likelihood == pytest.approx(total, abs=1e-4)
    assert found.num_frames == 5
    np.testing.assert_allclose(np.bincount(found.frame, found.share), 1.0, atol=1e-9)


def test_transition_ids_at_the_end_of_a_path_count() -> None:
    """Two ways of three frames: [1 2] then 3 at the end, and [1 4 5]."""
    nothing = np.array([np.inf, 0, 0], np.float32)
    lattice = CompactLattice(
        offsets=np.array([0, 2, 2, 2]),
        word=np.array([7, 8], np.int32),
        graph=np.array([0.5, 0.1], np.float32),
        acoustic=np.array([0, 4], np.float32),
        nextstate=np.array([1, 2], np.int32),
        tid_offsets=np.array([0, 2, 5]),
        tids=np.array([1, 2, 1, 4, 5], np.int32),
        final_graph=nothing,
        final_acoustic=nothing,
        final_tid_offsets=np.array([0, 0, 1, 1]),
        final_tids=np.array([3], np.int32),
    )
    second = 1 / (1 + np.exp((0.1 + SCALE * 4) - 0.5))
    expected = {(0, 1): 1, (1, 2): 1 - second, (1, 4): second, (2, 3): 1 - second, (2, 5): second}
    assert by_frame(compute_posteriors(lattice, SCALE)) == pytest.approx(expected)


def test_paths_of_different_lengths_are_refused() -> None:
    lattice = random_lattice(0)
    first = int(np.flatnonzero(lattice.ilabel)[0])
    without = replace(
        lattice, ilabel=np.where(np.arange(len(lattice.ilabel)) == first, 0, lattice.ilabel)
    )
    with pytest.raises(InputError, match=r"has paths of . and of . frames"):
        compute_posteriors(without, SCALE)


def read_kaldis(path: Path) -> Iterator[tuple[str, list[dict[int, float]]]]:
    """Kaldi's posteriors in text: for each frame [ transition-id share ... ]."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        for line in file:
            utt, said = line.split(None, 1)
            frames = (frame.split() for frame in said.replace("[", "").split("]")[:-1])
            yield (
                utt,
                [dict(zip(map(int, f[::2]), map(float, f[1::2]), strict=True)) for f in frames],
            )


def test_posteriors_are_kaldis(golden: Path) -> None:
    folder = golden / "sequence" / "timit_dev"
    theirs = dict(read_kaldis(folder / "mmi_den.post.gz"))
    likelihoods = read_mapping(folder / "mmi_den.loglikes")
    seen = 0
    for utt, lattice in iter_lattices(folder / "lat.gz"):
        found = compute_posteriors(lattice, 0.2)
        expected = {(t, tid): p for t, frame in enumerate(theirs[utt]) for tid, p in frame.items()}
        assert by_frame(found) == pytest.approx(expected, abs=1e-5), utt
        assert found.log_likelihood == pytest.approx(float(likelihoods[utt]), rel=1e-6), utt
        assert found.num_frames == len(theirs[utt])
        seen += 1
    assert seen == len(theirs) == 16
