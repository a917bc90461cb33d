"""What a script says of errors, and its status."""

import errno
import os

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.recipe.scripts import exit_status


def raise_error(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (None, []),
        (InputError("a\x1b[2J: 2 words"), ["prepare.py: error: a\\x1b[2J: 2 words"]),
        (
            ExceptionGroup("", [InputError("one"), InputError("two")]),
            ["prepare.py: error: one", "prepare.py: error: two"],
        ),
        (
            FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "x"),
            ["prepare.py: error: x: No such file or directory; make it, or correct the path"],
        ),
    ],
)
def test_a_script_ends_in_a_line_for_each_error(
    error: Exception | None, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status = exit_status("prepare.py", lambda: raise_error(error) if error else None)
    assert status == bool(lines)
    assert capsys.readouterr().err.splitlines() == lines


def test_no_fault_of_a_program_is_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_status("prepare.py", lambda: raise_error(ZeroDivisionError()))
