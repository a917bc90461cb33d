"""Differences of words that nobody sees are named."""

from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.marks import describe_misspelt, explain_differences, find_cased, find_mark
from bayes_asr.recipe.folder.spelling import refuse_misread


@pytest.mark.parametrize(
    ("field", "mark"),
    [
        ("a\u00a0b", "U+00A0 NO-BREAK SPACE"),
        ("\u3000", "U+3000 IDEOGRAPHIC SPACE"),
        ("so\u00adft", "U+00AD SOFT HYPHEN"),
        ("a\x85", "U+0085 control character"),
        ("a\u2800", "U+2800 BRAILLE PATTERN BLANK"),
        ("\u3164", "U+3164 HANGUL FILLER"),
        ("w\ufffdrter", "U+FFFD REPLACEMENT CHARACTER"),
        ("می\u200cخواهم", None),
        ("naïve", None),
        ("plain", None),
    ],
)
def test_marks_are_called_by_code_point(field: str, mark: str | None) -> None:
    assert find_mark(field) == mark


def test_what_both_sides_have_is_no_difference() -> None:
    assert explain_differences({"a\u00a0b", "c"}, {"a\u00a0b", "d"}) == []
    assert explain_differences({"a\u00a0b"}, {"a", "b"}) == ["a\u00a0b holds U+00A0 NO-BREAK SPACE"]
    (form,) = explain_differences({"th\u00e9"}, {"the\u0301"})
    assert form == "the\u0301 is there in another Unicode form"


@pytest.mark.parametrize(
    ("reference", "hypothesis"),
    [
        ("don't", "don\u2019t"),
        ("well-known", "well\u2011known"),
        ("file", "\ufb01le"),
        ("ABC", "\uff21\uff22\uff23"),
        ("cap", "\u0441\u0430\u0440"),
    ],
)
def test_words_of_other_characters_that_look_alike_are_named(
    reference: str, hypothesis: str
) -> None:
    (remark,) = explain_differences({reference, "a"}, {hypothesis, "b"})
    assert (
        remark
        == f"{hypothesis} looks like {reference} of the reference, which has other characters"
    )


def test_text_that_was_read_as_latin_1_is_told_from_other_languages(tmp_path: Path) -> None:
    words = "für Straße über FPÖ\u201c"
    table = tmp_path / "text"
    table.write_text(f"u1 {words}\n", encoding="utf-8")
    refuse_misread(table)
    table.write_bytes(f"u0 a\nu1 {words}\n".encode().decode("cp1252").encode())
    with pytest.raises(InputError, match=r"line 2: .* is UTF-8 .* 4 of 4 words .* it has für"):
        refuse_misread(table)


def test_words_of_another_case_are_found_in_either_form_of_unicode() -> None:
    assert find_cased({"th\u00e9"}, {"The\u0301,", "the"}) == ["The\u0301,"]


def test_words_that_a_vocabulary_has_as_they_are_need_no_remark() -> None:
    """Sie and sie are two words of German."""
    assert [*describe_misspelt({"sie"}, {"Sie", "sie"})] == []
    (remark,) = describe_misspelt({"sie", "weg"}, {"Sie", "sie", "Weg"})
    assert "1 word differs by case" in remark
    assert ": Weg;" in remark
