"""N-gram models, ARPA files and G, against closed forms, kaldilm and Kaldi's own files."""

import gzip
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.ngram import (
    NgramModel,
    build_grammar_fst,
    estimate_kneser_ney,
    estimate_witten_bell,
    read_arpa,
    write_arpa,
)
from bayes_asr.decode.graph.transducers import END, START
from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_text

CORPORA = ("timit_sample", "an4")
SENTENCES = st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=8)


def assert_same_but_for_numbering(fst: Fst, other: Fst) -> None:
    """Compare states, arcs and final costs as bags: programs number the states differently."""
    assert fst.num_states == other.num_states
    assert bag(fst) == pytest.approx(bag(other), abs=1e-4)
    finals = [np.sort(f.final[np.isfinite(f.final)]) for f in (fst, other)]
    assert finals[0] == pytest.approx(finals[1], abs=1e-4)


def bag(fst: Fst) -> np.ndarray:
    arcs = np.stack([fst.ilabel, fst.olabel, fst.weight]).astype(float)
    return arcs[:, np.lexsort(arcs[::-1])]


def test_bigram_is_the_closed_form() -> None:
    # After "a": b twice, the end once, so c = 3 and t = 2.  All words: a b a b a </s>, so c = 6
    # and t = 3; the uniform distribution below has 4 words, that of the vocabulary included.
    model = estimate_witten_bell([["a", "b", "a", "b", "a"]], 2, vocabulary=["c"])
    unigram_b = (2 + 3 / 4) / (6 + 3)
    assert math.exp(model.log_prob[("b",)]) == pytest.approx(unigram_b)
    assert math.exp(model.log_prob["a", "b"]) == pytest.approx((2 + 2 * unigram_b) / (3 + 2))
    assert math.exp(model.backoff[("a",)]) == pytest.approx(2 / (3 + 2))
    unigram_c = (3 / 4) / 9
    assert math.exp(model.score("c", ("b", "a"))) == pytest.approx(2 / 5 * unigram_c)


@settings(max_examples=60, deadline=None)
@given(SENTENCES, st.integers(1, 4), st.sets(st.sampled_from("abcdef")))
def test_every_history_sums_to_one(
    sentences: list[list[str]], order: int, vocabulary: set[str]
) -> None:
    model = estimate_witten_bell(sentences, order, vocabulary)
    words = {ngram[0] for ngram in model.log_prob if len(ngram) == 1}
    histories = {ngram[:-1] for ngram in model.log_prob} | {("f",), ("a", "e", "b")}
    for history in histories:
        assert sum(math.exp(model.score(word, history)) for word in words) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arpa"), [("text", "lm.arpa"), ("text_words", "lm_words.arpa.gz")]
)
def test_kneser_ney_is_kaldis_make_kn_lm(
    kaldi_corpus: Callable[[str], Path], tmp_path: Path, name: str, arpa: str
) -> None:
    data = kaldi_corpus("mboshi") / "data"
    content = (data / arpa).read_bytes()
    plain = tmp_path / "lm.arpa"
    plain.write_bytes(gzip.decompress(content) if arpa.endswith(".gz") else content)
    theirs = read_arpa(plain)
    transcripts = read_text(data / "train" / name).values()
    ours = estimate_kneser_ney(transcripts, 3, interpolated=False)
    start = {(START,): -99 * math.log(10)}
    assert start | dict(ours.log_prob) == pytest.approx(dict(theirs.log_prob), abs=1e-6)
    for history in ours.backoff.keys() | theirs.backoff.keys():
        weights = [model.backoff.get(history, 0.0) for model in (ours, theirs)]
        assert weights[0] == pytest.approx(weights[1], abs=1e-6)


def test_interpolated_kneser_ney_in_closed_form() -> None:
    model = estimate_kneser_ney([["a", "b"], ["a", "b"], ["a", "c"], ["d", "b"]], 2)
    discount = 4 / (4 + 2 * 1)  # once: <s> d, d b, a c, c </s>; twice: a b
    unigram = {"a": 1 / 7, "b": 2 / 7, "c": 1 / 7, "d": 1 / 7, END: 2 / 7}  # distinct words before
    left = discount * 2 / 3  # of two followers of three a
    assert math.exp(model.score("b", ("a",))) == pytest.approx(
        (2 - discount) / 3 + left * unigram["b"]
    )
    assert math.exp(model.score("d", ("a",))) == pytest.approx(left * unigram["d"])
    assert math.exp(model.score("d", ())) == pytest.approx(unigram["d"])


@settings(max_examples=30, deadline=None)
@given(SENTENCES, st.integers(1, 4))
def test_every_history_of_kneser_ney_sums_to_one(sentences: list[list[str]], order: int) -> None:
    model = estimate_kneser_ney(sentences, order)
    words = [ngram[0] for ngram in model.log_prob if len(ngram) == 1]
    for history in {ngram[:-1] for ngram in model.log_prob}:
        total = sum(math.exp(model.score(word, history)) for word in words)
        assert total == pytest.approx(1)


@settings(max_examples=30, deadline=None)
@given(SENTENCES, st.integers(1, 3))
def test_arpa_round_trip(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[str]], order: int
) -> None:
    path = tmp_path_factory.mktemp("arpa") / "lm.arpa"
    model = estimate_witten_bell(sentences, order)
    write_arpa(model, path)
    again = read_arpa(path)
    start = {(START,): -99 * math.log(10)}
    assert again.log_prob == pytest.approx({**start, **model.log_prob}, abs=2e-6)
    assert dict(again.backoff) == pytest.approx(
        {h: w for h, w in model.backoff.items() if round(w / math.log(10), 6)}, abs=2e-6
    )


@pytest.mark.parametrize("corpus", CORPORA)
def test_backoff_weights_are_those_of_the_shared_models(
    kaldi_corpus: Callable[[str], Path], corpus: str
) -> None:
    data = kaldi_corpus(corpus) / "data"
    theirs = read_arpa(data / "lm.arpa")
    ours = estimate_witten_bell(read_text(data / "train" / "text").values(), 2)
    assert dict(ours.backoff) == pytest.approx(dict(theirs.backoff), abs=2e-6)


@pytest.mark.parametrize("corpus", CORPORA)
def test_grammar_is_kaldis(kaldi_corpus: Callable[[str], Path], corpus: str) -> None:
    data = kaldi_corpus(corpus) / "data"
    words = read_symbols(data / "lang" / "words.txt")
    fst, unknown = build_grammar_fst(read_arpa(data / "lm.arpa"), words, words["#0"])
    kaldis = read_fst(data / "lang" / "G.fst")
    assert not unknown
    assert_same_but_for_numbering(fst, kaldis)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_grammar_is_kaldilms(tmp_path: Path, order: int) -> None:
    kaldilm = pytest.importorskip("kaldilm")
    kaldifst = pytest.importorskip("kaldifst")
    rng = np.random.default_rng(order)
    sentences = [[str(w) for w in rng.choice(list("abcde"), n)] for n in rng.integers(1, 8, 12)]
    model = estimate_witten_bell(sentences, order)
    path = tmp_path / "lm.arpa"
    write_arpa(model, path)
    words = {w: i for i, w in enumerate(["<eps>", *"abcde", "#0", "<s>", "</s>"])}
    (tmp_path / "words.txt").write_text("".join(f"{w} {i}\n" for w, i in words.items()))
    text = kaldilm.arpa2fst(
        str(path), disambig_symbol="#0", read_symbol_table=str(tmp_path / "words.txt")
    )
    theirs = tmp_path / "G.fst"
    kaldifst.compile(text).write(str(theirs))
    fst, _ = build_grammar_fst(read_arpa(path), words, words["#0"])
    assert_same_but_for_numbering(fst, read_fst(theirs))


def test_ngrams_with_the_ends_of_sentences_in_their_midst_are_left_out_as_by_kaldi(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kaldilm = pytest.importorskip("kaldilm")
    kaldifst = pytest.importorskip("kaldifst")
    path = tmp_path / "lm.arpa"
    path.write_text(
        "\\data\\\nngram 1=4\nngram 2=6\n\n\\1-grams:\n-0.6 </s>\n-99 <s> -0.3\n-0.6 a -0.2\n"
        "-0.6 b -0.1\n\n\\2-grams:\n-0.3 <s> a\n-0.3 a b\n-0.4 b </s>\n-0.2 a <s>\n-0.2 </s> b\n"
        "-0.1 </s> <s>\n\n\\end\\\n"
    )
    words = {w: i for i, w in enumerate(["<eps>", "a", "b", "#0", "<s>", "</s>"])}
    (tmp_path / "words.txt").write_text("".join(f"{w} {i}\n" for w, i in words.items()))
    text = kaldilm.arpa2fst(
        str(path), disambig_symbol="#0", read_symbol_table=str(tmp_path / "words.txt")
    )
    kaldifst.compile(text).write(str(tmp_path / "G.fst"))
    fst, _ = build_grammar_fst(read_arpa(path), words, words["#0"])
    assert_same_but_for_numbering(fst, read_fst(tmp_path / "G.fst"))
    assert "3 n-grams with <s> or </s> in their midst are left out, such as </s> <s>" in caplog.text


def test_foreign_words_are_left_out_and_named() -> None:
    model = estimate_witten_bell([["a", "b"], ["a", "c"]], 2)
    words = {"<eps>": 0, "a": 1, "b": 2, "#0": 3, START: 4, END: 5}
    fst, unknown = build_grammar_fst(model, words, 3)
    assert unknown == {"c"}
    assert set(fst.ilabel.tolist()) == {1, 2, 3}


def test_foreign_words_of_longer_ngrams_alone_are_named() -> None:
    log_prob = {("a",): -1.0, (END,): -1.0, ("wood", "a"): -0.5}
    words = {"<eps>": 0, "a": 1, "#0": 2, START: 3, END: 4}
    _, unknown = build_grammar_fst(NgramModel(2, log_prob, {}), words, 2)
    assert unknown == {"wood"}


def test_ngrams_without_history_are_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    model = estimate_witten_bell([["a", "b", "c"]], 3)
    log_prob = {ngram: p for ngram, p in model.log_prob.items() if ngram != ("a", "b")}
    words = {"<eps>": 0, "a": 1, "b": 2, "c": 3, "#0": 4, START: 5, END: 6}
    fst, _ = build_grammar_fst(NgramModel(3, log_prob, model.backoff), words, 4)
    assert "1 n-grams without a history are left out, such as a b c" in caplog.text
    assert (fst.ilabel == 3).sum() == 2


ARPA = "\\data\\\nngram 1=2\n\n\\1-grams:\n-0.3 a\n-0.3 </s>\n\n\\end\\\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\end\\\n", "", "no \\end\\ line"),
        ("\\data\\\n", "\\1-grams:\n", "line 1: \\1-grams: where \\data\\ is due"),
        (ARPA, "hello\n", "no \\data\\ line: no ARPA file, or truncated"),
        ("ngram 1=2", "ngram 1=3", "announces {1: 3} n-grams by order, holds {1: 2}"),
        ("ngram 1=2", "ngram one=2", "line 2: not 'ngram ORDER=COUNT'"),
        ("ngram 1=2", "ngram 32=2", "line 2: n-grams of 32 words, 31 at most"),
        ("-0.3 a", "0.3 a", "line 5: no log10 probability and backoff weight within 1000: 0.3 a"),
        ("-0.3 a", "nan a", "line 5: no log10 probability and"),
        ("-0.3 a", "-0.3 a b c", "line 5: not a log probability, 1 words"),
        ("-0.3 a", "x a", "line 5: not a log probability"),
        ("-0.3 a", "-0_3 a", "line 5: not a log probability"),
        ("-0.3 a", "-0.3 #0", "line 5: #0 and <eps> are no words"),
        ("-0.3 a", "-0.3 </s>", "line 6: the n-gram </s> is repeated"),
        ("ngram 1=2\n", "", "line 3: \\1-grams:, but no 'ngram 1=COUNT' above"),
        ("\\1-grams:", "\\2-grams:", "line 4: \\2-grams: where \\1-grams: is due"),
    ],
)
def test_bad_arpa_names_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA.replace(old, new))
    with pytest.raises(InputError) as caught:
        read_arpa(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_two_models_in_one_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "two.arpa").write_text(ARPA + ARPA)
    with pytest.raises(
        InputError, match=r"two\.arpa, line 9: a second model begins; take them apa"
    ):
        read_arpa(tmp_path / "two.arpa")


def test_arpa_files_of_toolkits_are_read_as_by_kaldi(tmp_path: Path) -> None:
    """CMU's explain the format before \\data\\, with titles; -inf is nothing, 1e-7 is rounding."""
    path = tmp_path / "lm.arpa"
    preface = "The model lies between\n\\1-grams:\n\\end\\\nend of data mark: \\data\\\n\n"
    entries = ARPA.replace("1=2", "1=3").replace("-0.3 </s>", "1e-07 </s>\n-inf <s> -inf")
    path.write_text(preface + entries)
    model = read_arpa(path)
    least = pytest.approx(-99 * np.log(10))
    assert model.log_prob == {
        ("a",): pytest.approx(-0.3 * np.log(10)),
        ("</s>",): 0.0,
        ("<s>",): least,
    }
    assert model.backoff == {("<s>",): least}


def test_models_without_words_are_refused() -> None:
    with pytest.raises(InputError, match="no sentence"):
        estimate_witten_bell([], 2)
    with pytest.raises(InputError, match="at least 1, not 0"):
        estimate_witten_bell([["a"]], 0)
    with pytest.raises(InputError, match="added to every sentence"):
        estimate_witten_bell([["a", END]], 2)
    for symbol in ("<eps>", "#0"):
        with pytest.raises(InputError, match="<eps> and #0 are no words: a"):
            estimate_witten_bell([["a", symbol]], 2)
    with pytest.raises(InputError, match="no word of the lexicon"):
        build_grammar_fst(estimate_witten_bell([["a"]], 2), {"<eps>": 0, "b": 1, "#0": 2}, 2)
    # a backoff arc says no word, and a mark that both sides have is none
    capitals = estimate_witten_bell([["A", "<UNK>", "SIL"]], 2)
    with pytest.raises(InputError, match="whose 1 words are such as a; those"):
        build_grammar_fst(capitals, {"<eps>": 0, "a": 1, "<UNK>": 2, "SIL": 3, "#0": 4}, 4)
    with pytest.raises(InputError, match="no word of the lexicon"):
        build_grammar_fst(NgramModel(1, {("a",): -1.0}, {}), {"a": 1, "#0": 2}, 2)


def test_models_of_which_more_is_in_another_case_are_refused() -> None:
    """Numerals and the like may be all that is spelled alike."""
    words = {word: i for i, word in enumerate(("<eps>", "2", "caf\u00e9", "go", "to", "#0", END))}
    model = estimate_witten_bell([["2", "Go", "TO", "cafe\u0301"]], 2)
    with pytest.raises(InputError, match=r"has 3 words .*, such as .*Go for go, .* only 1 as they"):
        build_grammar_fst(model, words, 5)
    mostly = estimate_witten_bell([["2", "Go", "to", "caf\u00e9"]], 2)
    assert build_grammar_fst(mostly, words, 5)[1] == {"Go"}
