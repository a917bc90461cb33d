"""`bayes-asr graph` on a tiny task: models of texts, hotwords, defaults, bad input."""

import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.ngram import (
    NgramModel,
    estimate_kneser_ney,
    estimate_witten_bell,
    read_arpa,
)
from bayes_asr.decode.search.hotwords import Hotword
from bayes_asr.decode.vocabulary import add_unigrams
from bayes_asr.kaldi_io.context_dependency import build_monophone_tree
from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.tree import write_tree
from tests.support.tiny_task import PHONES, SENTENCES, lines, run_verb, tiny_model, tiny_tree

pytest.importorskip("kaldifst")


@pytest.fixture
def tiny_files(tmp_path: Path) -> Mapping[str, Path]:
    """What `bayes-asr graph` reads, in one folder."""
    model = tiny_model()
    write_transition_model(model, tmp_path / "final.mdl")
    write_tree(tiny_tree(model), tmp_path / "tree")
    (tmp_path / "phones.txt").write_text("".join(f"{p} {i}\n" for p, i in PHONES.items()))
    (tmp_path / "lexicon.txt").write_text("ab a b\nab b\nbee b\na a\n")
    rows = (f"u{i} {' '.join(words)}\n" for i, words in enumerate(SENTENCES))
    (tmp_path / "text").write_text("".join(rows))
    return {name: tmp_path / name for name in ("lexicon.txt", "text", "final.mdl", "phones.txt")}


def arguments(files: Mapping[str, Path]) -> list[object]:
    out = files["text"].parent / "graph"
    named = {"--lexicon": "lexicon.txt", "--text": "text", "--model": "final.mdl"}
    return [*itertools.chain(*((o, files[f]) for o, f in named.items())), "--out", out]


def test_verb_estimates_a_model_from_text(
    tiny_files: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run_verb(*arguments(tiny_files), "--json", "--order", 3)
    summary = json.loads(capsys.readouterr().out)
    graph = tiny_files["text"].parent / "graph"
    assert summary["silence_probability"] == 0.5
    assert summary["states"] == read_fst(graph / "HCLG.fst").num_states
    assert "ngram 3=" in (graph / "lm.arpa").read_text()


def test_verb_smooths_as_it_is_told(
    tiny_files: Mapping[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    sentences = [["ab", "a", "ab"], ["ab", "a"], ["a"]]  # without bee, which the lexicon has
    rows = (f"u{i} {' '.join(words)}\n" for i, words in enumerate(sentences))
    tiny_files["text"].write_text("".join(rows))
    arpa = tiny_files["text"].parent / "graph" / "lm.arpa"
    models = {
        "witten-bell": estimate_witten_bell(sentences, 2, ["bee"]),
        "kneser-ney": estimate_kneser_ney(sentences, 2),
    }
    for smoothing, expected in models.items():
        run_verb(*arguments(tiny_files), "--smoothing", smoothing)
        assert read_arpa(arpa).log_prob == pytest.approx(
            {("<s>",): -99 * math.log(10), **expected.log_prob}, abs=1e-5
        )
    assert ("bee",) not in expected.log_prob
    (warning,) = caplog.messages
    assert "text lacks 1 word of the lexicon, never to be recognised: bee;" in warning
    named = [option if option != "--text" else "--lm" for option in arguments(tiny_files)]
    named[named.index(tiny_files["text"])] = arpa
    with pytest.raises(InputError, match="--order, --smoothing: of no use with --lm"):
        run_verb(*named, "--order", 3, "--smoothing", "kneser-ney")


@pytest.mark.parametrize("smoothing", ["witten-bell", "kneser-ney"])
@pytest.mark.parametrize("text", ["u0 AB BEE\nu1 A\n", "u0 <unk> zoo\n"])
def test_a_text_without_words_of_the_lexicon_is_refused(
    tiny_files: Mapping[str, Path], text: str, smoothing: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All words of the lexicon are in the model that is estimated, whatever the text has."""
    tiny_files["text"].write_text(text)
    with pytest.raises(InputError, match=r"text: has no word of the lexicon, whose 3 words are"):
        run_verb(*arguments(tiny_files), "--smoothing", smoothing)
    assert not caplog.messages
    tiny_files["text"].write_text(f"{text}u2 a bee ab\n")
    run_verb(*arguments(tiny_files))


def test_verb_puts_new_hotwords_into_lexicon_and_model(
    tiny_files: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """By their phones or, where each letter has its phone, by their letters."""
    folder = tiny_files["text"].parent
    graph, hotwords = folder / "graph", folder / "hotwords"
    hotwords.write_text("ab baa :2\nbab /b a b/\nab\n")
    with pytest.raises(InputError, match="lexicon lacks baa, and is not of letters"):
        run_verb(*arguments(tiny_files), "--hotwords", hotwords)
    tiny_files["lexicon.txt"].write_text("ab a b\nb b\na a\n")
    tiny_files["text"].write_text("u1 ab b\nu2 a b b\nu3 a\n")
    run_verb(*arguments(tiny_files), "--hotwords", hotwords, "--json", "--order", 1)
    assert json.loads(capsys.readouterr().out)["new_words"] == 2
    lexicon = lines(graph / "phones" / "align_lexicon.txt")
    assert "baa baa b a a" in lexicon
    assert "bab bab b a b" in lexicon
    model = read_arpa(graph / "lm.arpa").log_prob
    least = min(model[word,] for word in ("ab", "b", "a"))
    assert model["baa",] == model["bab",] == least
    words = read_symbols(graph / "words.txt")
    assert {words["baa"], words["bab"]} <= {*read_fst(graph / "HCLG.fst").olabel.tolist()}


def test_hotwords_that_the_lexicon_spells_otherwise_are_announced(
    tiny_files: Mapping[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    hotwords = tiny_files["text"].parent / "hotwords"
    hotwords.write_text("Ab /b a b/\nbaa /b a a/\n")
    run_verb(*arguments(tiny_files), "--hotwords", hotwords)
    (remark,) = (r.getMessage() for r in caplog.records if r.levelname == "WARNING")
    assert remark.startswith("hotwords: the lexicon has ab, and gets words that differ")


def test_new_words_are_as_probable_as_the_rarest_that_is_predicted() -> None:
    never = {("<s>",): -99 * 2.302585, ("<unk>",): -99 * 2.302585093}
    model = NgramModel(1, {**never, ("a",): -1.0, ("b",): -2.0, ("</s>",): -5.0}, {})
    extended = add_unigrams(model, [Hotword(("a", "c"))])
    assert extended.log_prob == {**model.log_prob, ("c",): -2.0}


def test_without_a_model_phones_have_three_states_of_their_own(
    tiny_files: Mapping[str, Path],
) -> None:
    """With the lexicon's phones.txt or, without it, silence first and the others by name."""
    files = arguments(tiny_files)
    model, graph = tiny_files["final.mdl"], tiny_files["text"].parent / "graph/HCLG.fst"
    write_transition_model(build_monophone_model([1, 2, 3], 3), model)
    tree = build_monophone_tree({1: [0, 1, 2], 2: [3, 4, 5], 3: [6, 7, 8]})
    write_tree(tree, model.parent / "tree")
    run_verb(*files)
    expected = graph.read_bytes()
    (model.parent / "silence_phones.txt").write_text("sil\n")
    for unneeded in ("final.mdl", "tree", "phones.txt"):
        (model.parent / unneeded).unlink()
        graph.unlink()
        run_verb(*(a for a in files if a not in ("--model", model)))
        assert graph.read_bytes() == expected
    with pytest.raises(InputError, match="belong to a --model"):
        run_verb(*(a for a in files if a not in ("--model", model)), "--tree", "tree")


def test_a_silence_phone_that_is_none_is_named_with_some_that_are(
    tiny_files: Mapping[str, Path],
) -> None:
    (tiny_files["lexicon.txt"].parent / "silence_phones.txt").write_text("quiet\n")
    with pytest.raises(InputError, match=r"^\S+: the silence phone quiet .* such as .*--silence"):
        run_verb(*arguments(tiny_files))
    with pytest.raises(InputError, match=r"^--silence hush: the silence phone hush "):
        run_verb(*arguments(tiny_files), "--silence", "hush")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("lexicon.txt", "ab a q\n", "the phone q of the word ab is not in phones.txt"),
        ("lexicon.txt", "ab a b\nab a b\n", "line 2: the pronunciation ab a b is repeated"),
        ("lexicon.txt", "ab\n", "line 1: the word ab has no phones"),
        ("lexicon.txt", "<s> a\n", "line 1: <eps>, #0, <s>, </s> and phones #... are reserved"),
        ("lexicon.txt", "", "the lexicon is empty"),
        ("phones.txt", "<eps> 0\nSILENCE 1\na 2\nb 3\n", "which phone is silence?"),
        ("phones.txt", "<eps> 0\nsil 1\na 2\nb 9\n", "the phone b of the word ab"),
        ("text", "", "no sentence"),
    ],
)
def test_bad_input_is_named(
    tiny_files: Mapping[str, Path], name: str, text: str, message: str
) -> None:
    tiny_files[name].write_text(text)
    with pytest.raises(InputError) as caught:
        run_verb(*arguments(tiny_files))
    assert message in str(caught.value)
    assert not (tiny_files["text"].parent / "graph" / "HCLG.fst").exists()


def test_tree_and_model_must_belong_together(tiny_files: Mapping[str, Path]) -> None:
    write_tree(
        build_monophone_tree({1: [0, 1], 2: [4, 5], 3: [2, 3]}), tiny_files["text"].parent / "tree"
    )
    with pytest.raises(InputError, match="do not belong together"):
        run_verb(*arguments(tiny_files))
