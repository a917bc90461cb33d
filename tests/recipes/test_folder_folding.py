"""Words of the recipe folder that differ in little: what is announced, and what folding makes."""

import unicodedata
from pathlib import Path

import pytest

from bayes_asr.decode.graph.ngram import read_arpa
from bayes_asr.kaldi_io.text import read_text
from bayes_asr.recipe.folder.folding import Folding, describe_shares
from tests.recipes.test_folder import SETS, make_corpus, prepare
from tests.recipes.test_folder_check import ARPA, NAMES


def read_words(out: Path) -> set[str]:
    texts = (read_text(out / "data" / name / "text") for name in SETS)
    return {word for text in texts for words in text.values() for word in words}


@pytest.mark.parametrize(
    ("word", "folded"),
    [
        ("don’t", "don't"),
        ("Donʼt", "don't"),
        ("don´t", "don't"),
        ("l’EAU,", "l'eau"),
        ("'hello'", "hello"),
        ("‘hello’", "hello"),
        ("‘hello,’", "hello"),
        ("‘Hello’,", "hello"),
        ("’hallå’", "hallå"),
        ("‚hallo‘", "hallo"),
        ("(‘dogs’’)", "dogs'"),
        ("’tis", "'tis"),
        ("'em", "'em"),
        ("dogs’", "dogs'"),
        ("o'", "o'"),
        ("'", "'"),
        ("’", "'"),
        ("—", ""),
        ("<UNK>", "<UNK>"),
    ],
)
def test_quotes_go_and_apostrophes_are_one(word: str, folded: str) -> None:
    assert Folding()(word) == folded
    assert Folding()(folded) == folded


def test_an_apostrophe_that_is_a_letter_stays() -> None:
    """ʼ ends words of Navajo, and stands within those of Ukrainian alone."""
    navajo = ["tʼóó", "baʼ", "don’t"]
    assert [*map(Folding.of(navajo), navajo)] == ["tʼóó", "baʼ", "don't"]
    ukrainian = ["пʼять", "п'ять", "‘кінь’"]
    assert [*map(Folding.of(ukrainian), ukrainian)] == ["п'ять", "п'ять", "кінь"]


@pytest.mark.parametrize(
    ("words", "pair"),
    [
        (["don't", "don't", "don’t", "go"], "don’t beside don't"),
        (["l’eau", "l’eau", "L'eau"], "L'eau beside l’eau"),
        (["Straße", "Straße", "STRASSE"], "STRASSE beside Straße"),
        (["ΛΌΓΟΣ", "λόγος", "λόγος"], "ΛΌΓΟΣ beside λόγος"),
    ],
)
def test_words_of_the_same_letters_are_announced(words: list[str], pair: str) -> None:
    assert pair in describe_shares(words)
    assert f"1 of {len(words)} words" in describe_shares(words)


def test_words_of_other_letters_are_not_announced() -> None:
    assert describe_shares(["dogs", "dogs'", "well", "we'll", "<unk>", "<UNK>"]) == ""
    assert "begin or end in punctuation, such as 'hello'" in describe_shares(["'hello'", "go"])


def test_what_folding_leaves_apart_is_announced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = dict.fromkeys(NAMES, "Straße don't") | {"s1/t1": "STRASSE", "s2/t0": "Don’t ‘go’"}
    corpus = make_corpus(tmp_path / "c", texts)
    assert prepare(corpus, tmp_path / "out", "--fold") == 0
    remark = next(x for x in capsys.readouterr().out.splitlines() if "beside" in x)
    assert "1 of 35 words (2.9%) differ" in remark
    assert "strasse beside straße; these are words of their own" in remark
    assert read_words(tmp_path / "out") == {"straße", "strasse", "don't", "go"}


def test_folding_is_proposed_where_it_is_not_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, "el perro"))
    (corpus / "lexicon.txt").write_text("gato g\n")
    for options, is_proposed in (([], True), (["--fold"], False)):
        assert prepare(corpus, tmp_path / "out", *options) == 1
        said = capsys.readouterr().err
        assert "are they spelled alike" in said
        assert ("--fold" in said) == is_proposed


def test_case_and_punctuation_are_announced_and_folded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = dict.fromkeys(NAMES, "el perro, lejos dogs' <UNK>") | {"s1/t1": "El — ¿perro?"}
    corpus = make_corpus(tmp_path / "c", texts)
    assert prepare(corpus, tmp_path / "plain") == 0
    said = capsys.readouterr().out
    assert "18 of 71 words (25.4%) begin or end in punctuation, such as perro,, ¿perro?;" in said
    assert "1 of 71 words (1.4%) differ from a more frequent one only by case, " in said
    assert "--set 'recipe.options=[--fold]'" in said
    (corpus / "lexicon.txt").write_text("El e l\nperro p\nlejos l\ndogs' d\n")
    (corpus / "lm.arpa").write_text(ARPA.format("El", "perro"))
    assert prepare(corpus, tmp_path / "folded", "--fold") == 0
    assert "folded" in capsys.readouterr().out
    assert read_words(tmp_path / "folded") == {"el", "perro", "lejos", "dogs'", "<UNK>"}
    assert "el e l\n" in (tmp_path / "folded/data/local/dict/lexicon.txt").read_text()
    assert ("el", "perro") in read_arpa(tmp_path / "folded/data/local/lm.arpa").log_prob


def test_capital_i_with_a_dot_is_i(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = dict.fromkeys(NAMES, "iyi") | {
        "s1/t1": "İyi",
        "s2/t0": unicodedata.normalize("NFD", "İyi"),
    }
    corpus = make_corpus(tmp_path / "c", texts)
    assert prepare(corpus, tmp_path / "plain") == 0
    assert "2 of 18 words (11.1%) differ from a more frequent one only" in capsys.readouterr().out
    lexicon = (tmp_path / "plain/data/local/dict/lexicon.txt").read_text()
    assert {line.partition(" ")[2] for line in lexicon.splitlines()[1:]} == {"i y i"}
    assert prepare(corpus, tmp_path / "folded", "--fold") == 0
    folded = (tmp_path / "folded/data/local/dict/lexicon.txt").read_text()
    assert folded.splitlines()[1:] == ["iyi i y i"]


def test_capital_i_without_a_dot_is_dotless_in_turkish_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = dict.fromkeys(NAMES, "ışık iyi") | {"s1/t1": "IŞIK", "s2/t0": "İYİ"}
    corpus = make_corpus(tmp_path / "c", texts)
    assert prepare(corpus, tmp_path / "plain") == 0
    said = capsys.readouterr().out
    assert "2 of 34 words" in said
    assert "IŞIK beside ışık, İYİ beside iyi" in said
    lexicon = (tmp_path / "plain/data/local/dict/lexicon.txt").read_text().splitlines()
    assert {line.partition(" ")[2] for line in lexicon[1:]} == {"ı ş ı k", "i y i"}
    assert prepare(corpus, tmp_path / "folded", "--fold") == 0
    assert read_words(tmp_path / "folded") == {"ışık", "iyi"}
    assert "ı for I" in capsys.readouterr().out
    (corpus / "text").write_text("".join(f"{name} IN In in I\n" for name in NAMES[1:]))
    with (corpus / "text").open("a") as text:
        text.write(f"{NAMES[0]} in Diyarbakır\n")
    assert prepare(corpus, tmp_path / "english", "--fold") == 0
    assert read_words(tmp_path / "english") == {"in", "i", "diyarbakır"}
    assert "ı for I" not in capsys.readouterr().out


def test_a_model_of_words_that_fold_alike_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, "el El"))
    (corpus / "lm.arpa").write_text(ARPA.format("El", "el"))
    assert prepare(corpus, tmp_path / "out", "--fold") == 1
    assert "6 n-grams would be 5; estimate it from folded text" in capsys.readouterr().err
