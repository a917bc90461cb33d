"""Graphs against Kaldi's L_disambig, its decoding results, and brute force over a tiny task."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.decode.graph.build import Graph, build_graph, write_graph
from bayes_asr.decode.graph.hmm import add_self_loops
from bayes_asr.decode.graph.lexicon import (
    Lang,
    Pronunciation,
    build_lexicon_fst,
    disambiguate,
    number_words,
    read_lexicon,
)
from bayes_asr.decode.graph.ngram import (
    NgramModel,
    estimate_witten_bell,
)
from bayes_asr.decode.graph.transducers import END, START
from bayes_asr.decode.graph.transition_index import index_transitions
from bayes_asr.decode.search.archive import decode_archive
from bayes_asr.decode.search.job import DecodeJob
from bayes_asr.kaldi_io.context_dependency import build_monophone_tree
from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_text
from bayes_asr.kaldi_io.transition_model import TransitionModel
from tests.support.tiny_task import PHONES, SENTENCES, lines, run_verb, tiny_model, tiny_tree

pytest.importorskip("kaldifst")
CORPORA = ("timit_sample", "an4")
SCALES = {("timit_sample", "gmm"): 0.2, ("timit_sample", "nn"): 0.2} | {
    ("an4", "gmm"): 0.083333,
    ("an4", "nn"): 0.1,
}


def build_as_kaldi(corpus: Path, out: Path, model: str = "tri3") -> Path:
    """Build with the verb what Kaldi's mkgraph.sh built from the same files."""
    data, exp = corpus / "data", corpus / "exp" / f"{model}_ali"
    run_verb(
        *("--lexicon", data / "dict" / "lexiconp.txt", "--lm", data / "lm.arpa"),
        *("--model", exp / "final.mdl", "--out", out, "--phones", data / "lang" / "phones.txt"),
    )
    return out


@pytest.mark.parametrize("corpus", CORPORA)
def test_lexicon_is_kaldis(kaldi_corpus: Callable[[str], Path], corpus: str) -> None:
    data = kaldi_corpus(corpus) / "data"
    lexicon, _ = disambiguate(read_lexicon(data / "dict" / "lexiconp.txt"))
    words = number_words(lexicon)
    assert words == read_symbols(data / "lang" / "words.txt")
    phones = read_symbols(data / "lang" / "phones.txt")
    silence, probability = ((), 0.0) if corpus == "timit_sample" else (("SIL", "#3"), 0.5)
    fst = build_lexicon_fst(lexicon, phones, words, silence, probability)
    kaldis = read_fst(data / "lang" / "L_disambig.fst")

    def bag(fst: Fst) -> np.ndarray:
        arcs = np.stack([fst.ilabel, fst.olabel, fst.weight]).astype(float)
        return arcs[:, np.lexsort(arcs[::-1])]

    assert fst.num_states == kaldis.num_states
    assert bag(fst) == pytest.approx(bag(kaldis), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("corpus", CORPORA)
def test_graph_decodes_as_kaldis(
    kaldi_corpus: Callable[[str], Path], tmp_path: Path, corpus: str
) -> None:
    root = kaldi_corpus(corpus)
    graph = build_as_kaldi(root, tmp_path / "graph")
    for name in ("words.txt", "phones.txt", "num_pdfs", "disambig_tid.int", "phones/silence.csl"):
        assert lines(graph / name) == lines(root / "exp" / "tri3" / "graph" / name)
    differing = 0
    for likelihoods in ("gmm", "nn"):
        golden = root / "golden" / "decode" / likelihoods
        options = SearchOptions(
            acoustic_scale=SCALES[corpus, likelihoods],
            beam=13.0,
            lattice_beam=8.0,
            max_active=7000,
            allow_partial=True,
        )
        model, out = root / "exp" / "tri3_ali" / "final.mdl", tmp_path / likelihoods
        decode_archive(DecodeJob(str(golden / "loglikes.ark"), graph, model, options), out)
        expected, found = read_text(golden / "a.words"), read_text(out / "words.txt")
        assert found.keys() == expected.keys()
        differing += sum(found[utt] != expected[utt] for utt in expected)
    assert differing == 0  # the sum over both corpora may be 1 (of 71)


@pytest.mark.parametrize("corpus", CORPORA)
def test_monophone_graph_has_kaldis_best_paths(
    kaldi_corpus: Callable[[str], Path], tmp_path: Path, corpus: str
) -> None:
    """In 30 random frames, so that search errors and ties are improbable."""
    root = kaldi_corpus(corpus)
    model = read_transition_model(root / "exp" / "mono_ali" / "final.mdl")
    ours = read_fst(build_as_kaldi(root, tmp_path, "mono") / "HCLG.fst")
    kaldis = read_fst(root / "exp" / "mono" / "graph" / "HCLG.fst")
    rng = np.random.default_rng(7)
    for _ in range(3):
        costs = rng.gamma(2.0, 3.0, (30, model.num_pdfs))
        assert viterbi(ours, model, costs) == pytest.approx(viterbi(kaldis, model, costs), abs=0.02)


def viterbi(fst: Fst, model: TransitionModel, costs: np.ndarray) -> float:
    """The cost of the best path that reads `costs` [T, pdfs], by exhaustive search."""
    source = np.repeat(np.arange(fst.num_states), np.diff(fst.offsets))
    silent = fst.ilabel == 0
    best = np.full(fst.num_states, np.inf)
    best[fst.start] = 0.0

    def follow(best: np.ndarray) -> np.ndarray:
        while True:
            reached = best.copy()
            step = best[source[silent]] + fst.weight[silent]
            np.minimum.at(reached, fst.nextstate[silent], step)
            if (reached >= best - 1e-9).all():
                return best
            best = reached

    for frame in costs:
        best = follow(best)
        step = best[source] + fst.weight + frame[model.pdf[fst.ilabel]]
        best = np.full(fst.num_states, np.inf)
        np.minimum.at(best, fst.nextstate[~silent], step[~silent])
    return float((follow(best) + fst.final).min())


LEXICON = [
    Pronunciation("ab", 0.7, ("a", "b")),
    Pronunciation("ab", 0.3, ("b",)),
    Pronunciation("bee", 1.0, ("b",)),
    Pronunciation("a", 1.0, ("a",)),
]


def tiny_graph(silence_probability: float) -> Graph:
    model = tiny_model()
    return build_graph(
        Lang(LEXICON, "sil", silence_probability),
        estimate_witten_bell(SENTENCES, 2),
        PHONES,
        model,
        tiny_tree(model),
    )


@pytest.mark.parametrize("silence_probability", [0.0, 0.4])
def test_tiny_graph_by_brute_force(silence_probability: float) -> None:
    """The best of all words, pronunciations, pauses, backoffs and durations, summed by hand."""
    model, graph = tiny_model(), tiny_graph(silence_probability)
    grammar = estimate_witten_bell(SENTENCES, 2)
    costs = np.random.default_rng(3).gamma(2.0, 1.0, (6, model.num_pdfs))
    by_hand = min(
        word_cost + phone_cost(phones, model, costs)
        for words in itertools.chain(*(itertools.product(LEXICON, repeat=n) for n in range(4)))
        for word_cost, phones in spoken(words, grammar, silence_probability)
        if 0 < len(phones) * 2 <= len(costs)
    )
    assert viterbi(graph.hclg, model, costs) == pytest.approx(by_hand, abs=0.01)


def spoken(
    words: Sequence[Pronunciation], lm: NgramModel, pause: float
) -> Iterable[tuple[float, list[str]]]:
    """The cost and phones of `words` with and without each pause."""
    cost = -sum(math.log(entry.probability) for entry in words)
    history = START
    for word in [*(entry.word for entry in words), END]:
        backed_off = lm.backoff.get((history,), 0.0) + lm.log_prob[(word,)]
        cost -= max(lm.log_prob.get((history, word), -math.inf), backed_off)
        history = word
    for pauses in itertools.product([False, True], repeat=len(words) + 1):
        if pause == 0.0 and any(pauses):
            continue
        phones = ["sil"] * pauses[0]
        for entry, after in zip(words, pauses[1:], strict=True):
            phones += [*entry.phones, *["sil"] * after]
        yield cost - sum(math.log(pause if p else 1.0 - pause) for p in pauses), phones


def phone_cost(phones: Sequence[str], model: TransitionModel, costs: np.ndarray) -> float:
    """The best way to spread the frames over the states, self-loops and leaving scaled by 0.1."""
    states = [2 * (PHONES[phone] - 1) + s for phone in phones for s in range(2)]
    best = math.inf
    stay, leave = model.log_prob[1::2], model.log_prob[2::2]
    for cuts in itertools.combinations(range(1, len(costs)), len(states) - 1):
        total, ends = 0.0, (*cuts, len(costs))
        for state, start, end in zip(states, (0, *cuts), ends, strict=True):
            total -= 0.1 * ((end - start - 1) * stay[state] + leave[state])
            total += costs[start:end, state].sum()
        best = min(best, total)
    return best


def test_states_entered_from_two_transitions_are_split() -> None:
    model = tiny_model()
    forward = [2, 4]  # of the two states of the first phone
    fst = Fst(
        start=0,
        final=np.array([np.inf, 0.0], np.float32),
        offsets=np.array([0, 2, 2]),
        ilabel=np.array(forward, np.int32),
        olabel=np.array([7, 8], np.int32),
        weight=np.zeros(2, np.float32),
        nextstate=np.array([1, 1], np.int32),
    )
    looped = add_self_loops(fst, model, 1.0)
    costs = np.zeros((3, model.num_pdfs))
    costs[:, 1] = 100.0  # the pdf of the second state: the first one reads all three frames
    stay, leave = model.log_prob[1], model.log_prob[2]
    assert looped.num_states == 4
    assert viterbi(looped, model, costs) == pytest.approx(-2 * stay - leave)


def test_transitions_that_always_stay_cost_much_but_not_everything() -> None:
    model = tiny_model()
    stuck = replace(model, log_prob=np.zeros_like(model.log_prob))
    assert index_transitions(stuck).leave[1:] == pytest.approx(math.log(1e-10))


def test_homophones_and_prefixes_stay_apart() -> None:
    lexicon, most = disambiguate(LEXICON)
    assert [entry.phones for entry in lexicon] == [
        ("a", "b"),
        ("b", "#1"),
        ("b", "#2"),
        ("a", "#1"),
    ]
    assert most == 2


def test_positions_follow_the_phone_table() -> None:
    table = ["<eps>", "sil", *(f"{p}_{place}" for p in "ab" for place in "BIES")]
    phones = {phone: number for number, phone in enumerate(table)}
    model = build_monophone_model(range(1, len(table)), 1)
    tree = build_monophone_tree({phone: [phone - 1] for phone in range(1, len(table))})
    graph = build_graph(Lang(LEXICON), estimate_witten_bell(SENTENCES, 2), phones, model, tree)
    spoken = {entry.phones for entry in graph.lexicon}
    assert spoken == {("a_B", "b_E"), ("b_S",), ("a_S",)}


def test_graph_directory_is_complete(tmp_path: Path) -> None:
    graph = tiny_graph(0.4)
    write_graph(graph, tmp_path / "graph", ["sil"])
    found = {str(p.relative_to(tmp_path / "graph")) for p in tmp_path.rglob("*") if p.is_file()}
    assert {"HCLG.fst", "words.txt", "phones.txt", "num_pdfs", "disambig_tid.int"} <= found
    assert lines(tmp_path / "graph" / "num_pdfs") == ["6"]
    assert lines(tmp_path / "graph" / "phones" / "silence.csl") == ["1"]
    assert lines(tmp_path / "graph" / "phones" / "disambig.int") == ["4", "5", "6", "7"]
    assert lines(tmp_path / "graph" / "phones" / "align_lexicon.txt")[:2] == [
        "<eps> <eps> sil",
        "ab ab a b",
    ]
    labels = read_fst(tmp_path / "graph" / "HCLG.fst").ilabel
    assert set(labels.tolist()) <= set(range(tiny_model().num_transition_ids + 1))


def test_probabilities_of_pronunciations_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "lexiconp.txt"
    path.write_text("a 1.0 a\nb 1.5 b\n")
    with pytest.raises(InputError, match=r"line 2: '1.5' is no probability"):
        read_lexicon(path)
