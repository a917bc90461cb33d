"""HCL and G, composed by the search, beside their composition in advance and all paths."""

import argparse
import importlib
import json
import pickle
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import decode as decode_verb
from bayes_asr.cli import graph as graph_verb
from bayes_asr.config.decoding_keys import UNLIMITED, SearchOptions
from bayes_asr.decode.graph.ngram import estimate_witten_bell, write_arpa
from bayes_asr.decode.graph.transducers import build_fst
from bayes_asr.decode.search import compiled, kaldi
from bayes_asr.decode.search.graph_dir import load_decoding_graph, read_grammar
from bayes_asr.decode.search.job import DecodeJob
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.decode.search.search_record import (
    describe_differences,
    describe_search,
    read_search,
    write_record,
)
from bayes_asr.decode.search.utterance import ENGINES, decode_utterance
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.context_dependency import build_monophone_tree
from bayes_asr.kaldi_io.fst import read_fst, write_fst
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import read_transition_model, write_transition_model
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_text, write_mapping
from bayes_asr.kaldi_io.tree import write_tree
from tests.support.decode_cases import assert_same_arrays, word_paths
from tests.support.places import ROOT

pytest.importorskip("kaldifst", reason="kaldifst is not installed")
pytestmark = pytest.mark.skipif(
    not compiled.LIBRARY.usable, reason="the compiled decoder is not built"
)
LEXICON = "ab a b\nab b a\nab b b\nbab b a b\nba b a\nabba a b b a\nb b\nbe b\n"
PHONES = {"<eps>": 0, "sil": 1, "a": 2, "b": 3}
WIDE = SearchOptions(1.0, 200.0, UNLIMITED, 0, 4.0, True)


def run_graph(*arguments: object) -> None:
    parser = argparse.ArgumentParser()
    graph_verb.add_arguments(parser)
    graph_verb.run(parser.parse_args([str(a) for a in arguments]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lexicon with homophones and words within words, its trigrams, both kinds of its graph."""
    root = tmp_path_factory.mktemp("apart")
    (root / "lexicon.txt").write_text(LEXICON)
    write_mapping(PHONES.items(), root / "phones.txt")
    write_transition_model(build_monophone_model([1, 2, 3], 1), root / "final.mdl")
    write_tree(build_monophone_tree({1: [0], 2: [1], 3: [2]}), root / "tree")
    rng = np.random.default_rng(0)
    words = sorted({line.split()[0] for line in LEXICON.splitlines()})
    said = [rng.choice(words, rng.integers(1, 5)).tolist() for _ in range(12)]
    write_arpa(estimate_witten_bell(said, 3, words), root / "lm.arpa")
    common = ("--lexicon", root / "lexicon.txt", "--lm", root / "lm.arpa", "--silence", "sil")
    common += ("--model", root / "final.mdl", "--phones", root / "phones.txt")
    run_graph(*common, "--out", root / "composed")
    run_graph(*common, "--out", root / "apart", "--apart")
    return root


def loglikes(seed: int, frames: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, (frames, 3)).astype(np.float32)


def network_of(folder: Path, kind: str) -> DecodingGraph:
    return load_decoding_graph(folder / kind, folder / "final.mdl")


def cost(result: Any) -> float:
    return result.graph_cost + result.acoustic_cost


@pytest.mark.parametrize("seed", range(6))
def test_words_and_costs_are_those_of_the_composed_graph(folder: Path, seed: int) -> None:
    scores = loglikes(seed, 4 + 3 * seed)
    composed, apart = (
        decode_utterance(network_of(folder, kind), "u", scores, WIDE, ENGINES["native"])
        for kind in ("composed", "apart")
    )
    # Kaldi's minimization keeps weights to 1/1024.
    assert cost(apart) == pytest.approx(cost(composed), abs=2e-3 * len(scores))
    assert apart.words == composed.words
    assert apart.reached_final


@pytest.mark.parametrize("seed", range(4))
def test_best_path_is_the_best_of_all_that_are_composed_in_advance(folder: Path, seed: int) -> None:
    """Dijkstra over pairs of states without look-ahead, in double precision."""
    network, scores = network_of(folder, "apart"), loglikes(seed, 7)
    found = decode_utterance(network, "u", scores, WIDE, ENGINES["native"])
    assert cost(found) == pytest.approx(best_of_pairs(network, folder, scores), abs=1e-5)


def best_of_pairs(network: DecodingGraph, folder: Path, scores: np.ndarray) -> float:
    """The least cost of a path, by G as it is written, backing off step by step."""
    words = read_symbols(folder / "apart/words.txt")
    fst = read_grammar(folder / "apart/G.fst", words)
    back = words["#0"]
    pdf = read_transition_model(folder / "final.mdl").pdf
    graph = {s: list(leave(folder, s)) for s in range(network.num_states)}
    arcs: dict[int, list[tuple[int, float, int]]] = {}
    for state, (begin, end) in enumerate(pairwise(fst.offsets.tolist())):
        columns = (fst.ilabel, fst.weight, fst.nextstate)
        arcs[state] = list(zip(*(c[begin:end].tolist() for c in columns), strict=True))

    def read(history: int, label: int) -> Iterator[tuple[float, int]]:
        if label == 0:
            yield 0.0, history
        for word, weight, after in arcs[history]:
            if word == label:
                yield weight, after
            if word == label == back:
                yield from ((weight + more, further) for more, further in read(after, back))

    def close(costs: dict[tuple[int, int], float]) -> None:
        open_ = list(costs)
        while open_:
            state, history = at = open_.pop()
            for tid, label, weight, after in graph[state]:
                for more, further in read(history, label) if not tid else ():
                    total = costs[at] + weight + more
                    if total < costs.get((after, further), np.inf):
                        costs[after, further] = total
                        open_.append((after, further))

    costs = {(network.start, fst.start): 0.0}
    close(costs)
    for row in scores.astype(float):
        reached: dict[tuple[int, int], float] = {}
        for (state, history), before in costs.items():
            for tid, label, weight, after in graph[state]:
                for more, further in read(history, label) if tid else ():
                    total = before + weight + more - row[pdf[tid]]
                    if total < reached.get((after, further), np.inf):
                        reached[after, further] = total
        close(reached)
        costs = reached
    return min(c + network.final[s] + fst.final[h] for (s, h), c in costs.items())


def leave(folder: Path, state: int) -> Iterator[tuple[int, int, float, int]]:
    """The arcs of HCL as they are on disk: transition-id, word, cost, next state."""
    fst = read_fst(folder / "apart/HCL.fst")
    row = slice(fst.offsets[state], fst.offsets[state + 1])
    columns = (fst.ilabel, fst.olabel, fst.weight, fst.nextstate)
    return zip(*(c[row].tolist() for c in columns), strict=True)


def test_lattices_have_the_same_paths(folder: Path) -> None:
    """An error of the search would lose some."""
    composed, apart = (
        {
            words: graph + acoustic
            for words, _, graph, acoustic in word_paths(decode(folder, kind, 3).lattice)
        }
        for kind in ("composed", "apart")
    )
    inside = {words: c for words, c in composed.items() if c < min(composed.values()) + 3.9}
    assert len(inside) > 5
    for words, c in inside.items():
        assert apart[words] == pytest.approx(c, abs=0.02)


def decode(folder: Path, kind: str, seed: int) -> Any:
    network = network_of(folder, kind)
    return decode_utterance(network, "u", loglikes(seed, 9), WIDE, ENGINES["native"])


def test_a_network_that_another_process_lends_gives_the_same(folder: Path) -> None:
    network, scores = network_of(folder, "apart"), loglikes(1, 9)
    sent = pickle.loads(pickle.dumps(network))  # noqa: S301
    one, other = (
        decode_utterance(n, "u", scores, WIDE, ENGINES["native"]).lattice for n in (network, sent)
    )
    assert one is not None
    assert other is not None
    assert_same_arrays(one, other)


def test_other_language_models_can_be_named(folder: Path, tmp_path: Path) -> None:
    write_matrices([("u", loglikes(0, 12))], tmp_path / "loglikes.ark")
    ark, graph, model = tmp_path / "loglikes.ark", folder / "apart", folder / "final.mdl"
    common = ("--loglikes", ark, "--model", model, "--acoustic-scale", 1, "--graph", graph)
    for name, more in (("own", ()), ("arpa", ("--lm", folder / "lm.arpa"))):
        run_decode(*common, "--out", tmp_path / name, *more)
    other = estimate_witten_bell([["be"]] * 50, 1, ["be", "ab"])
    write_arpa(other, tmp_path / "other.arpa")
    run_decode(*common, "--out", tmp_path / "other", "--lm", tmp_path / "other.arpa")
    assert read_text(tmp_path / "own/costs.txt") == read_text(tmp_path / "arpa/costs.txt")
    assert {*read_text(tmp_path / "other/words.txt")["u"]} <= {"be", "ab"}


def run_decode(*arguments: object) -> None:
    parser = argparse.ArgumentParser()
    decode_verb.add_arguments(parser)
    decode_verb.run(parser.parse_args([str(a) for a in arguments]))


def test_a_folder_holds_one_kind_of_graph(folder: Path, tmp_path: Path) -> None:
    common = ("--lexicon", folder / "lexicon.txt", "--lm", folder / "lm.arpa", "--silence", "sil")
    common += ("--model", folder / "final.mdl", "--phones", folder / "phones.txt")
    for more, names in (((), {"HCLG.fst"}), (("--apart",), {"G.fst", "HCL.fst"})):
        run_graph(*common, "--out", tmp_path / "graph", *more)
        written = {path.name for path in (tmp_path / "graph").glob("*.fst")}
        assert written == names | {"L.fst"}  # with which words are aligned, whatever the graph


def test_the_benchmark_compares_both(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    write_matrices([("u", loglikes(0, 9)), ("v", loglikes(1, 9))], tmp_path / "x.ark")
    words = [folder / "composed", folder / "apart", "--model", folder / "final.mdl"]
    words += ["--loglikes", tmp_path / "x.ark", "--beams", "50", "--json", tmp_path / "rows.json"]
    monkeypatch.setattr(sys, "argv", ["apart.py", *map(str, words)])
    importlib.import_module("apart").main()
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert (row["utterances"], row["differing_words"]) == (2, 0)


BACK = 6  # the word-id of #0, behind six words
SELF = (0, 1, 1, 0.5, 0)


@pytest.mark.parametrize(
    ("arcs", "said"),
    [
        ([(0, 0, 0, 1.0, 1), SELF], "has arcs that read nothing"),
        ([(0, 99, 99, 1.0, 1)], r"has word 99, but words\.txt of the graph ends at 9"),
        ([(0, 1, 2, 1.0, 1)], "writes other words than it reads"),
        ([(0, BACK, 0, 1.0, 1), (0, BACK, 0, 2.0, 1)], "a state has several arcs #0"),
        ([(0, BACK, 0, 1.0, 1), (1, BACK, 0, 1.0, 0), SELF], "form a cycle"),
        ([(0, 8, 8, 1.0, 1)], "has no word of"),
        ([(0, BACK, 0, 1.0, 1)], "has no word of"),
    ],
)
def test_other_grammars_are_refused(
    folder: Path, tmp_path: Path, arcs: list[Any], said: str
) -> None:
    words = read_symbols(folder / "apart/words.txt")
    moved = {BACK: words["#0"], 8: words["<s>"], 99: 99}
    real = [(s, moved.get(i, i), moved.get(o, o), w, t) for s, i, o, w, t in arcs]
    write_fst(build_fst(real, {1: 0.0}), tmp_path / "G.fst")
    with pytest.raises(InputError, match=said) as error:
        load_decoding_graph(folder / "apart", folder / "final.mdl", tmp_path / "G.fst")
    assert str(tmp_path / "G.fst") in str(error.value)


def chain_of_backoffs(length: int, back: int) -> list[Any]:
    """A word or a step of backoff from each state to the one before."""
    return [(s, label, label, 0.5, s - 1) for s in range(length, 0, -1) for label in (1, back)]


def test_backoffs_in_a_row_are_bounded(folder: Path, tmp_path: Path) -> None:
    """Each step of backoff adds arcs to all states before it: without a bound, in their square."""
    back = read_symbols(folder / "apart/words.txt")["#0"]
    for length in (30, 31):
        chain = build_fst(chain_of_backoffs(length, back), {0: 0.0}, start=length)
        write_fst(chain, tmp_path / f"{length}.fst")
    load_decoding_graph(folder / "apart", folder / "final.mdl", tmp_path / "30.fst")
    with pytest.raises(InputError, match=r"31\.fst: more than 30 arcs #0 in a row"):
        load_decoding_graph(folder / "apart", folder / "final.mdl", tmp_path / "31.fst")


@pytest.mark.parametrize(
    ("kind", "word", "says"),
    [
        ("composed", 10, r"HCLG\.fst: word 10 is not in the words\.txt of 10 symbols"),
        ("apart", 10, r"HCL\.fst: word 10 is not in the words\.txt of 10 symbols"),
        ("apart", 2**31 - 1, r"HCL\.fst: word 2147483647 is not in the words\.txt"),
    ],
)
def test_words_beyond_the_table_are_refused_on_arcs_without_sound_too(
    folder: Path, tmp_path: Path, kind: str, word: int, says: str
) -> None:
    graph = shutil.copytree(folder / kind, tmp_path / kind)
    (name,) = (path.name for path in graph.glob("HCL*.fst"))
    fst = read_fst(graph / name)
    silent = np.flatnonzero(fst.ilabel == 0)[0]
    write_fst(
        replace(fst, olabel=np.where(np.arange(fst.num_arcs) == silent, word, fst.olabel)),
        graph / name,
    )
    with pytest.raises(InputError, match=says):
        load_decoding_graph(graph, folder / "final.mdl")


def test_a_grammar_for_a_composed_graph_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r"has no HCL\.fst to compose with .*lm\.arpa"):
        load_decoding_graph(folder / "composed", folder / "final.mdl", folder / "lm.arpa")


def test_a_graph_without_words_is_refused(folder: Path, tmp_path: Path) -> None:
    graph = read_fst(folder / "composed/HCLG.fst")
    write_fst(replace(graph, olabel=graph.olabel * 0), tmp_path / "HCLG.fst")
    with pytest.raises(InputError, match=r"HCLG\.fst: no word can be said in this graph"):
        load_decoding_graph(tmp_path, folder / "final.mdl")


def test_a_graph_whose_words_have_no_names_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "composed/HCLG.fst", tmp_path)
    (tmp_path / "words.txt").touch()
    with pytest.raises(InputError, match=r"is not in the words\.txt of 0 symbols"):
        load_decoding_graph(tmp_path, folder / "final.mdl")


def test_words_without_backoff_are_refused(folder: Path, tmp_path: Path) -> None:
    for path in (folder / "apart").glob("*.fst"):
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "words.txt").write_text("<eps> 0\nab 1\n")
    with pytest.raises(InputError, match=r"words\.txt: lacks #0"):
        load_decoding_graph(tmp_path, folder / "final.mdl")


def test_lattices_say_with_what_they_were_composed(folder: Path, tmp_path: Path) -> None:
    graph = tmp_path / "graph"
    graph.mkdir()
    for name in ("HCL.fst", "G.fst"):
        (graph / name).write_bytes((folder / "apart" / name).read_bytes())
    noted = describe_search(graph, WIDE)
    write_record(noted, tmp_path)
    found, options = read_search(tmp_path)
    assert (found, options.beam) == (graph, WIDE.beam)
    other = describe_search(graph, WIDE, folder / "lm.arpa")
    assert describe_differences(noted, other) == f"lm None and {folder / 'lm.arpa'}"
    least = describe_search(graph, WIDE, mbr=True)
    assert describe_differences(noted, least) == "mbr False and True"
    older = {key: value for key, value in noted.items() if key != "mbr"}
    assert not describe_differences(older, noted)
    hotwords = tmp_path / "hotwords"
    hotwords.write_text("a\n")
    boosted = describe_search(graph, WIDE, hotwords=hotwords)
    assert describe_differences(noted, boosted) == f"hotwords None and {hotwords}"
    hotwords.write_text("b\n")
    again = describe_search(graph, WIDE, hotwords=hotwords)
    assert describe_differences(boosted, again) == f"hotwords {hotwords} as it was and as it is"
    (graph / "G.fst").write_bytes((graph / "G.fst").read_bytes() + b" ")
    changed = describe_search(graph, WIDE)
    assert describe_differences(noted, changed) == f"graph {graph} as it was and as it is"
    with pytest.raises(InputError, match=r"G\.fst: has changed since the lattices"):
        read_search(tmp_path)
    (graph / "G.fst").unlink()
    with pytest.raises(InputError, match=r"G\.fst: gone, but the lattices"):
        read_search(tmp_path)


def test_words_of_a_language_model_that_the_graph_lacks_are_named(
    folder: Path, tmp_path: Path, messages: Any
) -> None:
    write_arpa(estimate_witten_bell([["be", "bee"]], 1, ["be", "bee"]), tmp_path / "lm.arpa")
    read_grammar(tmp_path / "lm.arpa", read_symbols(folder / "apart/words.txt"))
    assert "lm.arpa: left out: 1 word that words.txt of the graph lacks: bee\n" in messages()
    graph = shutil.copytree(folder / "apart", tmp_path / "apart")
    with (graph / "words.txt").open("a") as words:
        words.write("bee 999\n")
    load_decoding_graph(graph, folder / "final.mdl", tmp_path / "lm.arpa")
    assert f"lm.arpa: left out: 1 word that {graph}/HCL.fst lacks: bee\n" in messages()


def test_decoders_that_do_not_compose_say_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = network_of(folder, "apart")
    with pytest.raises(InputError, match="only the compiled decoder composes"):
        decode_utterance(network, "u", loglikes(0, 5), WIDE, ENGINES["numpy"])
    job = DecodeJob("x.ark", folder / "apart", folder / "final.mdl", WIDE, (), 1)
    monkeypatch.setattr(kaldi, "find_program", lambda name: name)
    with pytest.raises(InputError, match="Kaldi's decoder does not compose"):
        next(kaldi.KaldiDecoder("", tmp_path).decode(job, tmp_path))
    monkeypatch.setattr(compiled, "LIBRARY", replace(compiled.LIBRARY, file=tmp_path / "none.so"))
    with pytest.raises(InputError, match="reinstall with a compiler"):
        network_of(folder, "apart")
