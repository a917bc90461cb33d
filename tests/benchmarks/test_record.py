"""What benchmarks write: a dated page that is never written over, and JSON."""

import argparse
import datetime
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import record

ROWS: list[dict[str, Any]] = [
    {"unit": "bru", "tied": True, "frames_per_second": 12345.6, "ratio": None},
    {"unit": "gru", "tied": False, "frames_per_second": 987.6, "ratio": 1.23456},
    {"megabytes": 3},
]
TABLES = """
| unit | tied | frames_per_second | ratio |
| --- | --- | --- | --- |
| bru | yes | 12,346 |  |
| gru | no | 988 | 1.23 |

| megabytes |
| --- |
| 3 |
"""


def saved(*options: str) -> None:
    """Save the rows as a script does that was given these options."""
    parser = argparse.ArgumentParser()
    record.add_options(parser)
    record.save(ROWS, "step", parser.parse_args(options))


def test_page_has_machine_command_and_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(ROOT / "benchmarks/step.py"), "--unit", "a b"])
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    for name in set(record.SETTINGS) - {"OMP_NUM_THREADS"}:
        monkeypatch.delenv(name, raising=False)
    page = record.write_page(ROWS, "step", tmp_path / "results").read_text(encoding="utf-8")
    assert page.startswith(f"# step, {datetime.date.today()}\n")
    assert re.search(r"^- processor: \S", page, re.M)
    assert re.search(r"^- versions: torch \S+, Python 3", page, re.M)
    assert "OMP_NUM_THREADS=2 python benchmarks/step.py --unit 'a b'\n" in page
    assert page.endswith(TABLES)


def test_same_run_again_gets_a_number(tmp_path: Path) -> None:
    first, second, third = (record.write_page(ROWS, "step", tmp_path) for _ in range(3))
    assert re.fullmatch(rf"{datetime.date.today()}-step-[a-z0-9-]+", first.stem)
    assert (second.stem, third.stem) == (f"{first.stem}-2", f"{first.stem}-3")
    assert len(list(tmp_path.iterdir())) == 3


def test_processor_is_named_without_marks() -> None:
    name = "INTEL(R) XEON(R) PLATINUM 8581C CPU @ 2.30GHz"
    path = next(record.free_names(Path(), "step", name))
    assert path.stem == f"{datetime.date.today()}-step-intel-xeon-platinum-8581c"


def test_options_switch_on_json_and_page(tmp_path: Path) -> None:
    saved()
    assert not list(tmp_path.iterdir())
    saved("--json", str(tmp_path / "rows.json"), "--record", str(tmp_path / "pages"))
    assert json.loads((tmp_path / "rows.json").read_text()) == ROWS
    assert len(list((tmp_path / "pages").iterdir())) == 1


def test_commit_and_processor_may_be_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    page = record.write_page(ROWS, "step", tmp_path).read_text(encoding="utf-8")
    assert "- processor: " in page
    assert "- commit: " not in page
    assert "- compiler: " not in page


@pytest.mark.parametrize(
    "script", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem
)
def test_every_script_records(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    if "__main__" in text and script.stem != "archive":  # which measures nothing
        assert re.search(r"record\.add_options\(\w+\)", text)
        assert "record.save(" in text
