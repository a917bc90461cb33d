"""The command `find`: which sets it searches."""

import json
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import find, main
from bayes_asr.config.merge import load


def test_a_set_that_is_named_twice_is_searched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    load([], [f"data.dir={tmp_path}", "data.graph=graph"]).save(run / "config.yaml")
    (tmp_path / "graph").mkdir()

    def hit(_: Path, name: str, *__: object) -> list[find.TimedHit]:
        return [find.TimedHit("a", name, "u1", "r1", 0.0, 1.0, 0.9)]

    monkeypatch.setattr(find, "find_in_set", hit)
    argv = ["find", str(run), "a", "--on", "dev", "dev", "test", "--lmwt", "10", "--json"]
    assert main(argv) == 0
    assert [each["set"] for each in json.loads(capsys.readouterr().out)] == ["dev", "test"]


def test_a_word_of_another_case_or_without_its_accent_is_meant(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("<eps> 0\nhe 1\nthe 2\nété 3\nThea 4\n")
    for word, meant in {"The": "the", "ETE": "été", "HE": "he", "thea": "Thea"}.items():
        with pytest.raises(InputError, match=f"lacks '{word}'.*; did you mean {meant}\\?"):
            find.read_phrases([word], words)
    with pytest.raises(InputError, match=r"no lattice has it$"):
        find.read_phrases(["<eps>"], words)


@pytest.mark.parametrize("words", [["the", "--on", "tst"], ["--on", "tst", "--json", "the"]])
def test_a_set_that_is_none_is_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["find", "run", *words])
    assert "invalid choice: 'tst'" in capsys.readouterr().err
