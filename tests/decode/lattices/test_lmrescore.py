"""Lattices under another language model, against the sum over all paths of small ones."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.decode.graph.ngram import (
    NgramModel,
    build_grammar_fst,
    estimate_witten_bell,
    read_arpa,
    write_arpa,
)
from bayes_asr.decode.graph.transducers import END, START
from bayes_asr.decode.lmrescore import Grammar, count_undercut, replace_lm
from bayes_asr.kaldi_io.lattice import CompactLattice
from bayes_asr.kaldi_io.lattice_files import iter_lattices, write_lattices
from bayes_asr.kaldi_io.symbols import WordSymbols
from tests.decode.lattices.test_mbr import word_lattice
from tests.support.decode_cases import word_paths

NAMES = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
SENTENCES = [s.split() for s in ("a b c d", "a b e", "c a b c", "b b", "d c b a", "f g h i a")]


@pytest.fixture
def words(tmp_path: Path) -> WordSymbols:
    table = tmp_path / "words.txt"
    rows = ["<eps>", *NAMES, "#0"]
    table.write_text("".join(f"{name} {i}\n" for i, name in enumerate(rows)))
    return WordSymbols(table)


def model(folder: Path, order: int, sentences: Sequence[Sequence[str]] = SENTENCES) -> Path:
    path = folder / f"{order}-{len(sentences)}.arpa"
    write_arpa(estimate_witten_bell(sentences, order, NAMES), path)
    return path


def cost_of(path: Path, names: Sequence[str]) -> float:
    """The cost of a sentence, each word after all words before."""
    lm: NgramModel = read_arpa(path)
    whole = (START, *names, END)
    return -sum(lm.score(word, whole[:i]) for i, word in enumerate(whole) if i)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("orders", [(1, 3), (2, 4), (3, 1), (2, 2)])
def test_every_path_costs_what_the_new_model_says(
    seed: int, orders: tuple[int, int], words: WordSymbols, tmp_path: Path
) -> None:
    lattice = word_lattice(seed)
    old, new = model(tmp_path, orders[0]), model(tmp_path, orders[1], SENTENCES[1:])
    changed = replace_lm(words, Grammar(old), Grammar(new), lattice)
    before = {(w, t): (graph, acoustic) for w, t, graph, acoustic in word_paths(lattice)}
    after = {(w, t): (graph, acoustic) for w, t, graph, acoustic in word_paths(changed)}
    assert after.keys() == before.keys()
    assert len(before) > 1
    for (said, tids), (graph, acoustic) in after.items():
        names = [words[word] for word in said]
        difference = cost_of(new, names) - cost_of(old, names)
        assert graph == pytest.approx(before[said, tids][0] + difference, abs=1e-4)
        assert acoustic == before[said, tids][1]


def test_the_same_model_changes_nothing_but_the_states(words: WordSymbols, tmp_path: Path) -> None:
    same = Grammar(model(tmp_path, 3))
    lattice = word_lattice(1)
    changed = replace_lm(words, same, same, lattice)
    costs = [sorted((w, g) for w, _, g, _ in word_paths(one)) for one in (lattice, changed)]
    assert costs[0] == [(w, pytest.approx(g, abs=1e-5)) for w, g in costs[1]]
    assert changed.num_states >= lattice.num_states
    assert (changed.nextstate > 0).all()


def test_the_verb_writes_lattices_that_rescore_reads(words: WordSymbols, tmp_path: Path) -> None:
    given: list[tuple[str, CompactLattice]] = [(f"utt{i}", word_lattice(i)) for i in range(3)]
    write_lattices(given[:2], tmp_path / "lat.1.gz")
    write_lattices(given[2:], tmp_path / "lat.2.gz")
    (tmp_path / "num_jobs").write_text("2\n")
    old, new, out = model(tmp_path, 1), model(tmp_path, 3), tmp_path / "out"
    lattices = [f"{tmp_path}/lat.{i}.gz" for i in (1, 2)]
    arguments = ["lmrescore", "--lattices", *lattices, "--graph", str(tmp_path)]
    arguments += ["--old-lm", str(old), "--new-lm", str(new), "--out", str(out)]
    assert main(arguments) == 0
    found = dict(iter_lattices(out / "lat.1.gz"))
    assert list(found) == ["utt0", "utt1", "utt2"]
    read = ["rescore", "--lattices", str(out / "lat.1.gz"), "--graph", str(tmp_path), "--lmwt=1"]
    assert main([*read, "--out", str(tmp_path / "words")]) == 0
    (tmp_path / "lat.2.gz").unlink()
    assert main([*arguments[:2], lattices[0], *arguments[4:]]) == 1  # the other job's are missing


@pytest.mark.slow
def test_lattices_are_not_written_among_those_that_are_read(
    words: WordSymbols, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, linked_folder, links = (tmp_path / name for name in ("lat", "linked", "links"))
    for i in (1, 2):
        write_lattices([(f"utt{i}", word_lattice(i))], folder / f"lat.{i}.gz")
    linked_folder.symlink_to(folder)
    links.mkdir()
    for i in (1, 2):
        (links / f"lat.{i}.gz").symlink_to(folder / f"lat.{i}.gz")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    models = ["--old-lm", str(model(tmp_path, 1)), "--new-lm", str(model(tmp_path, 3))]
    for source, out in itertools.product((folder, linked_folder, links), repeat=2):
        lattices = [f"{source}/lat.{i}.gz" for i in (1, 2)]
        arguments = ["lmrescore", "--lattices", *lattices, "--graph", str(tmp_path), *models]
        assert main([*arguments, "--out", str(out)]) == 1
        assert str(out) in capsys.readouterr().err
        assert {path: path.read_bytes() for path in folder.iterdir()} == before


PRUNED = """\\data\\
ngram 1=5
ngram 2=4
ngram 3=4

\\1-grams:
-99 <s> -0.5
-0.6 a -0.4
-0.6 b -0.4
-0.6 c -0.4
-0.6 </s>

\\2-grams:
-0.3 <s> a -0.2
-0.3 a a -0.1
-0.3 b c -0.1
-0.3 c </s>

\\3-grams:
-0.1 a b c
-0.1 <s> a a
-0.1 d e b
-0.1 d e </s>

\\end\\
"""


def test_ngrams_without_their_history_cost_what_the_graph_charges(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the path through G of all words, which backs off where a state has no arc of the word."""
    path = tmp_path / "pruned.arpa"
    path.write_text(PRUNED)
    grammar = Grammar(path)
    words = {name: i for i, name in enumerate(["<eps>", *NAMES, "#0", START, END])}
    fst, _ = build_grammar_fst(read_arpa(path), words, words["#0"])
    rows = itertools.pairwise(fst.offsets.tolist())
    arcs = [{int(fst.ilabel[k]): k for k in range(*row)} for row in rows]

    def back_off(state: int, cost: float) -> tuple[int, float]:
        arc = arcs[state][words["#0"]]
        return int(fst.nextstate[arc]), cost + float(fst.weight[arc])

    for said in (s for n in range(5) for s in itertools.product("abc", repeat=n)):
        state, cost = fst.start, 0.0
        for word in said:
            while words[word] not in arcs[state]:
                state, cost = back_off(state, cost)
            arc = arcs[state][words[word]]
            state, cost = int(fst.nextstate[arc]), cost + float(fst.weight[arc])
        while not np.isfinite(fst.final[state]):
            state, cost = back_off(state, cost)
        history, costs = grammar.start, list[float]()
        for word in (*said, END):
            price, history = grammar.follow(word, history)
            costs.append(price)
        assert sum(costs) == pytest.approx(cost + float(fst.final[state]), abs=1e-4), said
    assert f"{path}: 3 n-grams without a history are left out" in caplog.text


def test_ngrams_are_counted_that_a_graph_gets_around() -> None:
    log_prob = {("a",): -1.0, ("b",): -1.0, ("a", "b"): -1.4, ("b", "a"): -1.6, ("b", "b"): -3.0}
    assert count_undercut(NgramModel(2, log_prob, {("a",): -0.5, ("b",): -0.5})) == 2
    assert not count_undercut(NgramModel(2, log_prob, {("a",): -0.5, ("b",): -2.5}))
    assert not count_undercut(estimate_witten_bell(SENTENCES, 3, NAMES))


def test_a_word_that_a_model_lacks_is_named(words: WordSymbols, tmp_path: Path) -> None:
    old, few = model(tmp_path, 2), tmp_path / "few.arpa"
    write_arpa(estimate_witten_bell([["zebra"]], 2), few)
    with pytest.raises(InputError, match=r"few.arpa: lacks \w, which is in the lattices"):
        replace_lm(words, Grammar(old), Grammar(few), word_lattice(0))
