"""The command `find`: which sets it searches."""

import json
from pathlib import Path

import pytest

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
