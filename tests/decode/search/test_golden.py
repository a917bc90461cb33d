"""Decoding gives what Kaldi's programs printed for the same log-likelihoods and graphs."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import kaldialign
import numpy as np
import pytest

from bayes_asr.decode.lattices.mbr import decode_mbr
from bayes_asr.decode.lattices.paths import best_paths, pair_weights, sweep_words
from bayes_asr.decode.search.archive import decode_archive
from bayes_asr.decode.search.compiled import LIBRARY
from bayes_asr.decode.search.job import DecodeJob
from bayes_asr.decode.search.utterance import ENGINES, DecodeResult, decode_utterance
from bayes_asr.kaldi_io.text import read_text
from tests.support.decode_cases import CASES, SETTINGS, Golden, golden_case

needs_native = pytest.mark.skipif(not LIBRARY.usable, reason="the C++ decoder is not built")
ENGINE_NAMES = [
    pytest.param("native", marks=needs_native),
    pytest.param("numpy", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def golden(request: pytest.FixtureRequest, kaldi_corpus: Callable[[str], Path]) -> Golden:
    return golden_case(kaldi_corpus, *request.param)


@pytest.fixture(scope="module")
def decoded(golden: Golden) -> list[DecodeResult]:
    """All utterances at setting a, by the engine that is there."""
    engine = ENGINES["native" if LIBRARY.usable else "numpy"]
    network, options = golden.network(), golden.options("a")
    return [decode_utterance(network, u, m, options, engine) for u, m in golden.matrices()]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINE_NAMES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_words_and_costs_are_kaldis(golden: Golden, setting: str, engine: str) -> None:
    words, symbols = golden.words(f"{setting}.words"), golden.symbols()
    graph = golden.numbers(f"{setting}.graph_cost")
    acoustic = golden.numbers(f"{setting}.acoustic_cost")
    seen = []
    fraction = 1 if engine == "native" else 8  # NumPy takes as long for these of them
    for utt, loglikes in islice(golden.matrices(), 0, None, fraction):
        result = decode_utterance(
            golden.network(), utt, loglikes, golden.options(setting), ENGINES[engine]
        )
        assert [symbols[word] for word in result.words] == words[utt], utt
        assert result.graph_cost == pytest.approx(graph[utt], abs=1e-2), utt
        assert result.acoustic_cost == pytest.approx(acoustic[utt], rel=1e-5), utt
        assert result.reached_final
        assert len(result.tids) == len(loglikes)
        seen.append(utt)
    assert seen == list(words)[::fraction]


@pytest.mark.slow
def test_sweep_is_within_two_errors_of_kaldis(
    golden: Golden, decoded: list[DecodeResult], record_property: Callable[[str, object], None]
) -> None:
    symbols, total = golden.symbols(), 0
    for path in sorted(golden.folder.glob("a.words.lmwt*")):
        lmwt, wip = (float(part) for part in path.name.split("lmwt")[1].split(".wip"))
        expected = read_text(path)
        for result in decoded:
            assert result.lattice is not None
            (words,) = sweep_words(result.lattice, [(lmwt, wip)])
            ours = [symbols[word] for word in words]
            errors = kaldialign.edit_distance(expected[result.utt], ours)["total"]
            if errors:
                print(f"{path.name} {result.utt}: {errors} errors between Kaldi's words and ours")
            total += errors
    record_property("errors", total)
    assert total <= 2


def test_best_ten_are_kaldis(golden: Golden, decoded: list[DecodeResult]) -> None:
    (path,) = golden.folder.glob("a.nbest10.lmwt*")
    expected, symbols = read_text(path), golden.symbols()
    ours = {}
    for result in decoded:
        assert result.lattice is not None
        for rank, found in enumerate(
            best_paths(result.lattice, 10, float(path.name[len("a.nbest10.lmwt") :])), 1
        ):
            ours[f"{result.utt}-{rank}"] = [symbols[word] for word in found.words]
    assert ours == expected


@pytest.mark.slow
def test_least_risk_is_kaldis(golden: Golden, decoded: list[DecodeResult]) -> None:
    (path,) = golden.folder.glob("a.mbr.lmwt*")
    lmwt = path.name[len("a.mbr.lmwt") :]
    expected, risks = read_text(path), golden.numbers(f"a.mbr_risk.lmwt{lmwt}")
    symbols = golden.symbols()
    for result in decoded:
        assert result.lattice is not None
        found = decode_mbr(result.lattice, float(lmwt))
        assert [symbols[one.word] for one in found.words] == expected[result.utt], result.utt
        assert found.risk == pytest.approx(risks[result.utt], rel=1e-4, abs=1e-4), result.utt


@pytest.mark.slow
def test_times_and_confidences_are_kaldis(golden: Golden, decoded: list[DecodeResult]) -> None:
    """Where a word may stand in two places at equal cost, rounding decides: a few may differ."""
    (path,) = golden.folder.glob("a.ctm.lmwt*")
    lines = [line.split() for line in path.read_text().splitlines()]
    symbols, ours = golden.symbols(), []
    for result in decoded:
        assert result.lattice is not None
        for one in decode_mbr(result.lattice, float(path.name[len("a.ctm.lmwt") :])).words:
            numbers = (one.start / 100, (one.end - one.start) / 100, one.confidence)
            ours.append((result.utt, symbols[one.word], numbers))
    assert [(utt, word) for utt, word, _ in ours] == [(line[0], line[4]) for line in lines]
    theirs = np.array([[float(line[k]) for k in (2, 3, 5)] for line in lines])
    apart = np.abs(np.array([numbers for _, _, numbers in ours]) - theirs).max(axis=1) > 0.0101
    assert apart.mean() < 0.01


@pytest.mark.slow
def test_archive_has_kaldis_words_of_least_risk(golden: Golden, tmp_path: Path) -> None:
    (path,) = golden.folder.glob("a.mbr.lmwt*")
    lmwt = float(path.name[len("a.mbr.lmwt") :])
    inputs = str(golden.loglikes), golden.graph, golden.model, golden.options("a")
    decode_archive(DecodeJob(*inputs, ((lmwt, 0.0),), mbr=True), tmp_path)
    assert read_text(tmp_path / f"words.lmwt{lmwt:g}.wip0.0.txt") == read_text(path)
    assert read_text(tmp_path / "words.txt") == golden.words("a.words"), "of the best path"


@pytest.mark.slow
@pytest.mark.parametrize("nj", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_archive_is_written_as_kaldi_writes_it(golden: Golden, nj: int, tmp_path: Path) -> None:
    lmwts = sorted(
        {
            float(p.name.split("lmwt")[1].split(".wip")[0])
            for p in golden.folder.glob("a.words.lmwt*")
        }
    )
    grid, options = tuple(pair_weights(lmwts, [0.0, 1.0])), golden.options("a")
    job = DecodeJob(str(golden.loglikes), golden.graph, golden.model, options, grid, nj)
    summary = decode_archive(job, tmp_path)
    expected = golden.words("a.words")
    assert read_text(tmp_path / "words.txt") == expected
    assert list(read_text(tmp_path / "words.txt")) == list(expected)
    assert summary.utterances == len(expected)
    assert summary.partial == summary.empty == summary.failed == []
    costs = read_text(tmp_path / "costs.txt")
    for column, name in enumerate(("a.graph_cost", "a.acoustic_cost")):
        numbers = golden.numbers(name)
        ours = {utt: float(row[column]) for utt, row in costs.items()}
        assert ours == pytest.approx(numbers, rel=1e-5, abs=1e-2)
    for lmwt in lmwts:
        for wip in (0.0, 1.0):
            ours = read_text(tmp_path / f"words.lmwt{lmwt:g}.wip{wip:.1f}.txt")
            theirs = golden.words(f"a.words.lmwt{lmwt:g}.wip{wip:.1f}")
            assert sum(kaldialign.edit_distance(theirs[u], ours[u])["total"] for u in theirs) <= 2
