"""What hotwords do to a hypothesis: counts of a table that is counted by hand."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from bayes_asr.kaldi_io.text import write_text
from tests.support.places import RECIPES
from tests.support.recipe_modules import loaded


@pytest.fixture(name="script", scope="module")
def _script() -> Iterator[ModuleType]:
    with loaded(RECIPES / "speechocean762", "count_hotwords") as module:
        yield module("count_hotwords")


@pytest.fixture(name="options")
def _options(tmp_path: Path) -> list[str]:
    write_text([("x", ["WE", "CALL", "IT"])], tmp_path / "train")
    write_text([("a", ["WE", "CALL", "BEN"]), ("b", ["BEN", "SAW", "IT"])], tmp_path / "ref")
    (tmp_path / "names").write_text("BEN /B EH N/\nBERLIN /B ER L IH N/\n")
    return [f"--{name}={tmp_path / name}" for name in ("names", "ref", "train")]


def test_each_count(
    script: ModuleType, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Right: WE, CALL, BEN and IT; wrong: BERLIN and BEN in b."""
    hyp = tmp_path / "hyp"
    write_text([("a", ["WE", "CALL", "BEN"]), ("b", ["BERLIN", "IT", "BEN", "IT"])], hyp)
    assert script.main([str(hyp), *options]) == 0
    head, _, row = capsys.readouterr().out.splitlines()
    assert [int(word) for word in head.split() if word.isdigit()] == [2, 3]
    assert row == f"| {hyp} | 1 | 2 | 3 | 50.00 |"


def test_a_hypothesis_that_lacks_an_utterance_is_refused(
    script: ModuleType, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hyp = tmp_path / "hyp"
    write_text([("a", ["WE"])], hyp)
    assert script.main([str(hyp), *options]) == 1
    assert "1 of 2 utterances are missing, first b" in capsys.readouterr().err


def test_a_reference_without_words_is_refused(
    script: ModuleType, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_text([("a", [])], tmp_path / "ref")
    write_text([("a", ["WE"])], tmp_path / "hyp")
    assert script.main([str(tmp_path / "hyp"), *options]) == 1
    assert f"{tmp_path / 'ref'}: has no words" in capsys.readouterr().err
