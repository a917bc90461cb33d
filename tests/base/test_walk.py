"""Files below a folder: through links, each once, while folders come and go."""

import os
import shutil
from pathlib import Path

import pytest

from bayes_asr.base.walk import find_below
from tests.base.test_files import write_group


def test_a_folder_that_goes_while_one_looks_below_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a checkpoint that is being written."""
    for name in ("a", "b"):
        write_group(tmp_path / name, "table")
    scan = os.scandir

    def scan_too_late(path: object) -> object:
        if str(path) == f"{tmp_path}/b":
            shutil.rmtree(tmp_path / "b")
        return scan(path)

    monkeypatch.setattr(os, "scandir", scan_too_late)
    assert find_below(tmp_path, "table") == [tmp_path / "a" / "table"]


def test_files_below_links_are_found_once(tmp_path: Path) -> None:
    """Seeds of which some lie on another disk, and links that lead in a circle."""
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    for folder in (runs / "seed1", elsewhere / "seed2"):
        write_group(folder, "table")
    (runs / "seed2").symlink_to(elsewhere / "seed2")
    (runs / "best").symlink_to("seed1")
    (runs / "seed1" / "above").symlink_to(runs)
    (runs / "gone").symlink_to("nowhere")
    assert find_below(runs, "table") == [runs / "seed1" / "table", runs / "seed2" / "table"]
