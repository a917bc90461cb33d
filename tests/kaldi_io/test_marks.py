"""Differences of words that nobody sees are named."""

import pytest

from bayes_asr.kaldi_io.marks import explain_differences, find_mark


@pytest.mark.parametrize(
    ("field", "mark"),
    [
        ("a\u00a0b", "U+00A0 NO-BREAK SPACE"),
        ("\u3000", "U+3000 IDEOGRAPHIC SPACE"),
        ("so\u00adft", "U+00AD SOFT HYPHEN"),
        ("a\x85", "U+0085 control character"),
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
