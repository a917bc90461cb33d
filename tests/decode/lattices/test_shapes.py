"""Lattices with states that are dead or that nothing reaches, and with costs that no path has."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.lattices.mbr import decode_mbr
from bayes_asr.decode.lattices.paths import best_paths, sweep_words
from bayes_asr.decode.lattices.rescore import RescoreOptions, iter_word_lattices, rescore_lattices
from bayes_asr.kaldi_io.lattice import CompactLattice
from bayes_asr.kaldi_io.lattice_files import iter_lattices, write_lattices
from tests.attacks.fuzzing import watched
from tests.attacks.structures import draw_lattice
from tests.support.decode_cases import word_paths

LMWT, WIP = 2.0, 0.5


def chain(unreached: int) -> CompactLattice:
    """A word on the one path, and beside it a chain of states that nothing reaches."""
    states = 2 + unreached
    links = unreached  # the last of the chain leads to the end
    return CompactLattice(
        offsets=np.array([0, 1, 1, *range(2, 2 + unreached)], np.int64),
        word=np.array([1, *[2] * links], np.int32),
        graph=np.ones(1 + links, np.float32),
        acoustic=np.ones(1 + links, np.float32),
        nextstate=np.array([1, *range(3, states), 1][: 1 + links], np.int32),
        tid_offsets=np.arange(2 + links),
        tids=np.ones(1 + links, np.int32),
        final_graph=np.array([np.inf, 0, *[np.inf] * unreached], np.float32),
        final_acoustic=np.array([np.inf, 0, *[np.inf] * unreached], np.float32),
        final_tid_offsets=np.zeros(states + 1, np.int64),
        final_tids=np.zeros(0, np.int32),
    )


def read_back(lattice: CompactLattice, folder: Path) -> CompactLattice:
    write_lattices([("u", lattice)], folder / "lat.1.gz")
    ((_, found),) = iter_lattices(folder / "lat.1.gz")
    assert isinstance(found, CompactLattice)
    return found


@pytest.mark.parametrize("unreached", [1, 2, 3])
def test_states_that_nothing_reaches_do_not_count(unreached: int, tmp_path: Path) -> None:
    write_lattices([("u", chain(unreached))], tmp_path / "lat.1.gz")
    (tmp_path / "words.txt").write_text("<eps> 0\na 1\nb 2\n")
    given = ([tmp_path / "lat.1.gz"], tmp_path / "words.txt", tmp_path)
    with watched():
        assert rescore_lattices(*given, RescoreOptions(((1.0, 0.0),), nbest=9, mbr=True)) == 1
    for name in ("words", "mbr"):
        assert (tmp_path / f"{name}.lmwt1.wip0.0.txt").read_text() == "u a\n"
    assert (tmp_path / "nbest.lmwt1.wip0.0.txt").read_text() == "u-1 a\n"
    assert (tmp_path / "mbr_risk.lmwt1.wip0.0.txt").read_text() == "u 0\n"
    assert (tmp_path / "ctm.lmwt1.wip0.0").read_text() == "u 1 0.00 0.01 a 1.00\n"


@pytest.mark.parametrize("seed", range(60))
def test_readings_of_any_shape_are_those_of_its_paths(seed: int, tmp_path: Path) -> None:
    """Dead and unreached states and infinite costs change nothing: all paths are counted here."""
    drawn = draw_lattice(random.Random(seed))
    half = np.random.default_rng(seed).random(len(drawn.word)) < 0.1
    lattice = replace(drawn, graph=np.where(half, np.float32(np.inf), drawn.graph))
    paths = sorted(
        (graph + WIP * len(words) + acoustic / LMWT, words)
        for words, _, graph, acoustic in (word_paths(lattice) if lattice.num_states else ())
        if np.isfinite(graph + acoustic)
    )
    found = read_back(lattice, tmp_path)
    if not paths:
        assert found.num_states == 0
        with pytest.raises(InputError, match="u has no path from its start to an end"):
            list(iter_word_lattices([tmp_path / "lat.1.gz"]))
        return
    with watched():
        (words,) = sweep_words(found, [(LMWT, WIP)])
        best = best_paths(found, len(paths) + 1, LMWT, WIP)
        least = decode_mbr(found, LMWT, WIP, change_words=False)
    costs = [p.graph_cost + WIP * len(p.words) + p.acoustic_cost / LMWT for p in best]
    np.testing.assert_allclose(costs, [cost for cost, _ in paths], atol=1e-4)
    cheapest = [said for cost, said in paths if cost < paths[0][0] + 1e-4]
    assert tuple(words) in cheapest
    assert [timed.word for timed in least.words] == words
    share = np.exp(paths[0][0] - np.array([cost for cost, _ in paths]))
    lengths = np.array([len(said) for _, said in paths])
    assert least.risk >= np.abs(lengths - len(words)) @ share / share.sum() - 1e-3
    assert least.risk <= np.maximum(lengths, len(words)) @ share / share.sum() + 1e-3


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("graph", np.nan, "u has nan among its graph costs"),
        ("acoustic", -np.inf, "u has -inf among its acoustic costs"),
        ("graph", 3e38, "among its graph costs"),
        ("final_acoustic", np.inf, "u has a final cost of which one half is infinite"),
    ],
)
def test_costs_that_no_lattice_holds_are_refused(
    field: str, value: float, said: str, tmp_path: Path
) -> None:
    lattice = chain(0)
    values = getattr(lattice, field).copy()
    values[-1] = value
    with pytest.raises(InputError, match=said):
        read_back(replace(lattice, **{field: values}), tmp_path)
