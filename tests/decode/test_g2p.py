"""Pronunciations learnt from a lexicon: of regular spelling, to the last word."""

import json
import random
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.cli import main
from bayes_asr.decode.g2p.letters import encode, group_words, hold_out
from bayes_asr.decode.g2p.model import count_word_errors
from bayes_asr.decode.graph.lexicon import Lang, Pronunciation, read_lexicon
from bayes_asr.decode.search.hotwords import Hotword
from bayes_asr.decode.vocabulary import add_words
from bayes_asr.kaldi_io.marks import fold_case

CONSONANTS = {"b": "B", "ch": "CH", "c": "K", "h": "HH", "s": "S", "sh": "SH", "t": "T"}
CONSONANTS |= {"x": "K S", "é": "EY"}
VOWELS = {"a": "AA", "e": "EH", "ee": "IY", "o": "OW"}
SETTINGS = (
    "train.epochs=12",
    "train.batch_sequences=16",
    "train.learning_rate=5e-3",
    "model.decoder.units=128",
)


def regular_words(number: int) -> dict[str, str]:
    """Words of one to three syllables, and their phones."""
    rng, words = random.Random(1), dict[str, str]()
    while len(words) < number:
        syllables = [
            (rng.choice([*CONSONANTS]), rng.choice([*VOWELS])) for _ in range(rng.randint(1, 3))
        ]
        phones = " ".join(f"{CONSONANTS[begin]} {VOWELS[end]}" for begin, end in syllables)
        words["".join(begin + end for begin, end in syllables)] = phones
    return words


def write_lexicon(words: dict[str, str], path: Path) -> Path:
    path.write_text("".join(f"{word} {phones}\n" for word, phones in sorted(words.items())))
    return path


@pytest.mark.slow
def test_regular_spelling_is_learnt_to_the_last_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = regular_words(600)
    unseen = {word: words.pop(word) for word in sorted(words)[::12]}
    lexicon, model = write_lexicon(words, tmp_path / "lexicon.txt"), tmp_path / "model"
    learn = ["g2p", str(lexicon), "--out", str(model), *(f"--set={s}" for s in SETTINGS), "--json"]
    assert main(learn) == 0
    assert json.loads(capsys.readouterr().out)["wrong_words"] == 0

    (tmp_path / "unseen").write_text("\n".join(map(str.upper, unseen)))
    assert main(["g2p", str(model), "--words", str(tmp_path / "unseen")]) == 0
    expected = [f"{word.upper()} {phones}" for word, phones in unseen.items()]
    assert capsys.readouterr().out.splitlines() == expected

    assert main(["g2p", str(model), "sheta", "--probabilities"]) == 0
    (tmp_path / "lexiconp.txt").write_text(capsys.readouterr().out)
    (entry,) = read_lexicon(tmp_path / "lexiconp.txt")
    assert entry.word == "sheta"
    assert 0.5 < entry.probability <= 1

    # A run that is complete is left so; another lexicon is refused.
    assert main(learn) == 0
    write_lexicon({**words, "bo": "B OW OW"}, lexicon)
    assert main(learn) == 1
    assert "has learnt another lexicon" in capsys.readouterr().err

    assert main(["g2p", str(model), "shota", "zota"]) == 1
    assert "zota has 'z', which no word of its lexicon had" in capsys.readouterr().err


def test_phones_of_a_stranger_reach_no_terminal_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    phones = ("A\x1b]0;title\x07", "\x9b2J", "\u202eB", "C\n")
    model = SimpleNamespace(pronounce=lambda word: Pronunciation(word, 0.5, phones))
    monkeypatch.setattr("bayes_asr.cli.g2p.load_g2p", lambda _: model)
    for options in ([], ["--probabilities"], ["--json"]):
        assert main(["g2p", str(tmp_path), "word", *options]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert not [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs")]


def pronounce_all_but_those_with_z(word: str) -> Pronunciation:
    """Letters in capitals."""
    if "z" in word:
        raise InputError(f"finds no phones for {word}")
    return Pronunciation(word, 0.5, tuple(word.upper()))


@pytest.fixture
def half_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that finds no phones for some words, whatever lexicon it learns."""
    model = SimpleNamespace(pronounce=pronounce_all_but_those_with_z)
    monkeypatch.setattr("bayes_asr.cli.g2p.load_g2p", lambda _: model)
    monkeypatch.setattr("bayes_asr.cli.g2p.train", lambda config, out: None)


@pytest.mark.usefixtures("half_learnt")
def test_a_held_out_word_without_phones_is_a_wrong_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spelt = [a + b + c for a in "abz" for b in "abz" for c in "abz"]
    lexicon = write_lexicon({word: " ".join(word.upper()) for word in spelt}, tmp_path / "lexicon")
    _, held = hold_out({word: [(*word.upper(),)] for word in spelt})
    lacking = [word for word in held if "z" in word]
    assert lacking
    assert main(["g2p", str(lexicon), "--out", str(tmp_path / "model"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["words"], result["wrong_words"]) == (len(held), len(lacking))
    assert result["deletions"] == result["errors"] == sum(map(len, lacking))


@pytest.mark.usefixtures("half_learnt")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_word_without_phones_costs_no_other_its_own(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words").write_text("ab\nzip\n\nba\n")
    assert main(["g2p", str(tmp_path), "--words", str(tmp_path / "words"), *options]) == 1
    printed = capsys.readouterr()
    if options:
        assert [entry["word"] for entry in json.loads(printed.out)] == ["ab", "ba"]
    else:
        assert printed.out.splitlines() == ["ab A B", "ba B A"]
    named, end = printed.err.splitlines()
    assert "zip" in named
    assert "1 of 3" in end


@pytest.mark.usefixtures("half_learnt")
def test_a_line_of_several_words_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words").write_text("ab\nabc def\n")
    assert main(["g2p", str(tmp_path), "--words", str(tmp_path / "words")]) == 1
    printed = capsys.readouterr()
    assert not printed.out
    assert f"{tmp_path / 'words'}, line 2: " in printed.err


def test_words_that_share_nothing_cannot_be_learnt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {chr(ord("a") + n) * 2: f"P{n}" for n in range(24)}
    lexicon = write_lexicon(words, tmp_path / "lexicon")
    assert main(["g2p", str(lexicon), "--out", str(tmp_path / "model")]) == 1
    assert f"{lexicon}: none of 24 words can be held out" in capsys.readouterr().err


def pronounce_b_and_a(word: str) -> Pronunciation:
    """Letters in capitals."""
    return Pronunciation(word, 0.5, tuple(word.upper()))


def test_words_are_pronounced_where_a_lexicon_of_phones_lacks_them(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LOGGER, "propagate", True)
    caplog.set_level("INFO", LOGGER.name)
    lang = Lang([Pronunciation("bah", 1.0, ("B", "A"))], None, 0.0)
    hotwords = [Hotword(("bah", "ab")), Hotword(("aa",), phones=("A",))]
    longer, fresh = add_words(lang, hotwords, pronounce_b_and_a)
    assert fresh == ["ab", "aa"]
    assert longer.lexicon[1:] == [
        Pronunciation("aa", 1.0, ("A",)),
        Pronunciation("ab", 1.0, ("A", "B")),
    ]
    assert "pronounced ab as A B" in caplog.text
    with pytest.raises(InputError, match="G2P pronounces cab with C, which the lexicon lacks"):
        add_words(lang, [Hotword(("cab",))], pronounce_b_and_a)


def test_letters_come_before_a_model() -> None:
    lang = Lang([Pronunciation("ba", 1.0, ("b", "a"))], None, 0.0)
    longer, _ = add_words(lang, [Hotword(("ab",))], pronounce_b_and_a)
    assert longer.lexicon[1:] == [Pronunciation("ab", 1.0, ("a", "b"))]


WORDS = st.dictionaries(
    st.text("abcdé'", min_size=1, max_size=5),
    st.lists(
        st.lists(st.sampled_from("ABcd"), min_size=1, max_size=4).map(tuple), min_size=1, max_size=2
    ),
    max_size=40,
)


@given(WORDS)
@example({"c": [("A",)], "a": [("A", "c")]})  # c is a letter of one and a phone of the other
def test_words_to_learn_keep_all_letters_and_phones(
    words: dict[str, list[tuple[str, ...]]],
) -> None:
    learnt, held = hold_out(words)
    assert {**learnt, **held} == words
    assert not learnt.keys() & held.keys()
    assert len(held) <= 1 + 0.05 * len(words)
    for symbols in (fold_case, lambda word: {phone for p in words[word] for phone in p}):
        of_learnt = {symbol for word in learnt for symbol in symbols(word)}
        assert of_learnt >= {symbol for word in words for symbol in symbols(word)}


@given(st.text("abcdé'", min_size=1))
def test_rows_say_which_letter_is_where(word: str) -> None:
    letters = {letter: column for column, letter in enumerate("'abcdé")}
    rows = encode(word, letters)
    assert rows.shape == (len(word), 6)
    assert rows.sum(1).tolist() == [1.0] * len(word)
    assert "".join("'abcdé"[column] for column in np.argmax(rows, 1)) == word


def test_words_of_the_same_letters_are_one_and_marks_are_none() -> None:
    entries = [("Read", "R EH D"), ("READ", "R IY D"), ("read", "R EH D"), ("<UNK>", "SPN")]
    words = group_words(Pronunciation(word, 1.0, tuple(p.split())) for word, p in entries)
    assert words == {"read": [("R", "EH", "D"), ("R", "IY", "D")]}


def test_errors_are_counted_against_the_nearest_pronunciation() -> None:
    words = {"read": [("R", "EH", "D"), ("R", "IY", "D", "Z")], "a": [("AH",)], "b": [("B",)]}
    phones, wrong = count_word_errors(words, {"read": ("R", "IY", "D"), "a": ("AH",)})
    assert (phones.errors, phones.tokens, wrong) == (2, 5, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["few.txt", "--out", "model"], "few.txt: 2 words; take 20 or more to learn"),
        (["few.txt", "word"], "few.txt: no letters.txt; bayes-asr g2p LEXICON --out few.txt makes"),
        (["few.txt"], "name WORDs to pronounce, or --out for what to make of a LEXICON"),
        (["few.txt", "word", "--out", "model"], "pronounce words in a second call"),
    ],
)
def test_misunderstandings_are_named(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.txt").write_text("a AH\nb B\n")
    assert main(["g2p", *arguments]) == 1
    assert message in capsys.readouterr().err
