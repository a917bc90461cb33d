"""Texts of sound files, as persons and other programs write them."""

from pathlib import Path

import pytest

from bayes_asr.decode.align_files import read_lines


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_those_that_an_editor_counts(end: str, tmp_path: Path) -> None:
    text = end.join(["page one", "", "\fpage two", "a\u2028b", ""])
    (tmp_path / "text").write_bytes(text.encode())
    lines = [["page", "one"], [], ["page", "two"], ["a", "b"]]
    assert read_lines(tmp_path / "text") == lines


def test_text_of_a_long_book_is_read(tmp_path: Path) -> None:
    (tmp_path / "text").write_text(100_000 * "ein langes Buch\n")
    assert len(read_lines(tmp_path / "text")) == 100_000
