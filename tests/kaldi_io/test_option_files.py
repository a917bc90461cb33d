"""Files of options: what Kaldi's scripts leave, and anything else."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.option_files import read_options

DEFAULTS = {"left-context": 4, "norm-vars": False}


def read(folder: Path, text: str) -> dict[str, int | bool]:
    (folder / "opts").write_text(text, encoding="utf-8")
    return read_options(folder / "opts", DEFAULTS)


def test_defaults_where_nothing_is_said(tmp_path: Path) -> None:
    assert read_options(tmp_path / "absent", DEFAULTS) == DEFAULTS
    assert read(tmp_path, "\n") == DEFAULTS


@pytest.mark.parametrize("text", ["--norm-vars=true", "--norm_vars", "--norm-vars=T\n"])
def test_truth_in_kaldis_ways(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text)["norm-vars"] is True


def test_later_options_win(tmp_path: Path) -> None:
    found = read(tmp_path, "--left-context=3\n--norm-vars=true --left-context=5 --norm-vars=false")
    assert found == {"left-context": 5, "norm-vars": False}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--skip-dims=1:2", "--skip-dims=1:2 is not supported, only left-context, norm-vars"),
        ("left-context=3", "left-context=3 is not supported"),
        ("--left-context=-1", "--left-context=-1 has no value of its kind"),
        ("--left-context", "--left-context has no value of its kind"),
        ("--norm-vars=3", "--norm-vars=3 has no value of its kind"),
    ],
)
def test_what_is_not_known_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=f"opts: (the option )?{said}"):
        read(tmp_path, text)


@given(st.text("-_=:0123456789abctfenrluo \n", max_size=40))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    try:
        found = read(tmp_path_factory.getbasetemp(), text)
    except InputError:
        return
    assert {name: type(value) for name, value in found.items()} == {
        "left-context": int,
        "norm-vars": bool,
    }
