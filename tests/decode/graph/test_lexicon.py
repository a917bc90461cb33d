"""Dialects of lexicons: each is recognised and announced, or refused with its line."""

import logging
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.lexicon import Pronunciation, read_lexicon

HELLO = ("HH", "AH", "L", "OW")


@pytest.mark.parametrize(
    ("line", "probability", "announced"),
    [
        ("hello HH AH L OW", 1.0, ()),
        ("hello 0.5 HH AH L OW", 0.5, ("1 of 1 lines have a probability after the word",)),
        ("hello 1e-3 HH AH L OW", 0.001, ("a probability after the word",)),
        ("hello\t0.99\t0.21\t1.0\t0.98\tHH AH L OW", 0.99, ("after the word", "of pauses")),
        ("hello 1 0.21 1.21 1 HH AH L OW", 1.0, ("after the word", "of pauses")),
        ("hello HH AH L OW # a greeting", 1.0, ("1 of 1 lines have a comment",)),
        (";;; # CMUdict\nhello HH AH L OW", 1.0, ()),
        ("##\n##--\n## cmudict.0.6\nhello HH AH L OW", 1.0, ("3 of 4 lines have a com",)),
    ],
)
def test_dialects_are_read_and_announced(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    line: str,
    probability: float,
    announced: tuple[str, ...],
) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text(f"{line}\n")
    with caplog.at_level(logging.WARNING):
        assert read_lexicon(path) == [Pronunciation("hello", probability, HELLO)]
    assert len(caplog.messages) == len(announced)
    for message, part in zip(caplog.messages, announced, strict=True):
        assert message.startswith(str(path))
        assert part in message


def test_words_with_a_number_in_brackets_are_pronunciations_of_the_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text("hello(2) H E\nhello H A\nf(1) F\n")
    assert [(entry.word, entry.phones) for entry in read_lexicon(path)] == [
        ("hello", ("H", "E")),
        ("hello", ("H", "A")),
        ("f(1)", ("F",)),  # without a word f this is a word
    ]
    assert "1 of 3 lines have further pronunciations as word(2)" in caplog.text


def test_units_that_go_on_with_a_word_are_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """WordPiece's, as prepare_lang.sh reads them."""
    path = tmp_path / "lexicon.txt"
    path.write_text("walk w ao k\n##ing ih ng\n###s z\n")
    assert [entry.word for entry in read_lexicon(path)] == ["walk", "##ing", "###s"]
    assert not caplog.messages


def test_phones_behind_a_mark_of_comments_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text("haus h aU s\nhaustür h aU s # t y: r # s\ntür t y: r # door\n")
    with pytest.raises(InputError, match="line 2: haustür has phones behind #"):
        read_lexicon(path)


@pytest.mark.parametrize("line", ["1234 1 2 3 4", "12 1 2", "a 5 x"])
def test_digits_are_phones(tmp_path: Path, line: str) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text(f"{line}\n")
    word, *phones = line.split()
    assert read_lexicon(path) == [Pronunciation(word, 1.0, tuple(phones))]


@pytest.mark.parametrize("first", ["12", "1"])
def test_numbers_of_long_words_are_phones(tmp_path: Path, first: str) -> None:
    """Units of self-supervised models: more in a word than probabilities could be."""
    words = {"ba": f"{first} 7", "ko": "1 44 9", "su": "1 6", "bakosu": f"{first} 7 3 44 9 5 6"}
    path = tmp_path / "lexicon.txt"
    path.write_text("".join(f"{word} {phones}\n" for word, phones in words.items()))
    read = {entry.word: " ".join(entry.phones) for entry in read_lexicon(path)}
    assert read == words


def test_a_file_of_probabilities_may_have_digits_as_phones(tmp_path: Path) -> None:
    path = tmp_path / "lexiconp.txt"
    path.write_text("1234 1.0 1 2 3 4\nfive 1 5\n")
    assert [entry.phones for entry in read_lexicon(path)] == [("1", "2", "3", "4"), ("5",)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hello 0.5 0.2 HH", "line 1: the word hello has a phone 0.2, which is a number"),
        ("hello HH 0.5", "line 1: the word hello has a phone 0.5"),
        ("hello 0.5", "line 1: the word hello has no phones"),
        ("hello 1.5 HH", "line 1: '1.5' is no probability"),
        ("<eps> SIL", "are reserved; take the line out: <eps> SIL"),
    ],
)
def test_numbers_that_are_no_probabilities_are_refused(
    tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text(f"{line}\n")
    with pytest.raises(InputError) as caught:
        read_lexicon(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("a 0.9 0.2 1.0 1.1 A\nb 1 0.5 1 1 B\nc 1.0 1 1 1 C", [0.9, 1.0, 1.0]),  # whole numbers
        ("a 0.9 A\nb 1 B\nc C", [0.9, 1.0, 1.0]),
        ("a 1 A\nb 1 B\nc 1 C", [1.0, 1.0, 1.0]),
        ("a 1E+00 A\nb 5e-1 B", [1.0, 0.5]),
    ],
)
def test_numbers_of_other_lines_tell_what_whole_ones_are(
    tmp_path: Path, lines: str, expected: list[float]
) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text(f"{lines}\n")
    entries = read_lexicon(path)
    assert [entry.probability for entry in entries] == expected
    assert [entry.phones for entry in entries] == [("A",), ("B",), ("C",)][: len(expected)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a 0,9 A B", "line 1: the word a has a phone 0,9, which is a number"),
        ("a -0.1 A B", "line 1: the word a has a phone -0.1, which is a number"),
        ("a 90% A B", "line 1: the word a has a phone 90%, which is a number"),
        ("a 90 A\nb 5 B\nc 5 C", "line 1: '90' is no probability"),
        ("a [a] A\nb B", "a has an output symbol [a] before its phones, as HTK's and Julius's"),
        ("a A sp\nb B sp\nsil sil", "most words end in sp, a pause of HTK's"),
        ("a,A B\nb,B C\nc,C D", "all words hold ',', such as a,A: write `word phone phone ...`"),
        ("a: A B\nb: B C\nc: C D", "all words hold ':', such as a::"),
        ("a = A B\nb = B\nc = C", "a '=' follows all words"),
        ("a /A B/\nb /B/\nc /C/", "all pronunciations are enclosed, such as /A B/"),
        ("a A\nb B\na A", "line 3: the pronunciation a A is repeated; keep one line"),
    ],
)
def test_lexicons_of_other_layouts_are_refused(tmp_path: Path, lines: str, message: str) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text(f"{lines}\n")
    with pytest.raises(InputError) as caught:
        read_lexicon(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a 90 A\nb 5 B\nc 5 C", "'90' is no probability"),
        ("a 1 A\nb 1 B C\nc 1 C", ""),
        ("a;A B\nb;B C\nc;C D", "all words hold ';', such as a;A"),
        ("a | A B\nb | B\nc | C", "a '|' follows all words"),
    ],
)
@pytest.mark.parametrize("first", ["SIL SIL", "!SIL SIL", "<UNK> SPN\n<sil> sil"])
def test_lines_of_silence_hide_no_layout(
    tmp_path: Path, first: str, lines: str, message: str
) -> None:
    """People put silence before a dictionary that they were given."""
    path = tmp_path / "lexicon.txt"
    path.write_text(f"{first}\n{lines}\n")
    if message:
        with pytest.raises(InputError) as caught:
            read_lexicon(path)
        assert message in str(caught.value)
    else:
        assert [entry.phones for entry in read_lexicon(path)][-2:] == [("B", "C"), ("C",)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("go A . B\nto B \u02c8 C", "2 of 2 lines have phones that may stand between others"),
        ("# a comment\na A", "1 of 2 lines have a word that may begin a comment"),
        (
            "go \u0261o\u028a\nto tu\u02d0\nno no\u028a\n",
            "one phone of several letters, such as no\u028a, whe",
        ),
        (
            "go\u00a0A B\nb B",
            "1 of 2 lines have white space or a mark that nobody sees, such as U+00",
        ),
        (
            "go - G OW\nto - T UW",
            "2 of 2 lines have what may not be meant: a '-' follows all words",
        ),
        ("go,G OW", "1 of 1 lines have what may not be meant: all words hold ',', such as go,G"),
        ("go /G OW/", "all pronunciations are enclosed, such as /G OW/"),
        ("go G sp\nto T sp", "words end in sp, a pause of HTK's"),
        ("go 1 G OW\nto 1 T UW", "the phone 1 is a number, and may be a probability"),
        ("go \u0261o\u028a\n", "one phone of several letters, such as \u0261o\u028a"),
        ("go(2) A\nb B", "1 of 2 lines have a number in brackets, and no such word without"),
    ],
)
def test_what_may_not_be_meant_is_announced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lines: str, message: str
) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text(lines, encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        read_lexicon(path)
    assert message in caplog.text


def test_sampa_is_read_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text("oel 2: l\nuhr u: 6\nein aI n\ncat k { t\n")
    assert len(read_lexicon(path)) == 4
    assert not caplog.messages
