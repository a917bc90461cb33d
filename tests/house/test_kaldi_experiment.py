"""From a user's own Kaldi experiment to a table, which leaves the experiment as it was."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bayes_asr.train.start import train
from tests.attacks.breakages import unprivileged
from tests.house.test_whole_way import table
from tests.support.small_corpus import write_corpus
from tests.support.training_runs import config_of


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, time of the last change and content of everything at or below a folder."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = status.st_mode, status.st_mtime_ns, content
    return found


@pytest.fixture
def read_only() -> Iterator[Callable[[Path], Path]]:
    """Take the permission to write from a folder and all below it, until the end of the test."""
    folders: list[Path] = []

    def protect(folder: Path) -> Path:
        for path, _, _ in os.walk(folder, topdown=False):
            folders.append(Path(path))
            Path(path).chmod(0o555)
        return folder

    yield protect
    for folder in reversed(folders):
        folder.chmod(0o755)


def test_training_writes_nothing_into_the_experiment(
    tmp_path: Path, read_only: Callable[[Path], Path]
) -> None:
    experiment = read_only(write_corpus(tmp_path / "experiment"))
    before = snapshot(experiment)
    with unprivileged():
        for name in ("a", "b"):
            train(config_of(experiment, "train.epochs=1"), tmp_path / "runs" / name)
    assert snapshot(experiment) == before
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["a", "b", "index"]
    assert not (tmp_path / "runs/a/index").exists()


@pytest.mark.slow
def test_run_sh_writes_nothing_into_the_experiment(
    kaldi_corpus: Callable[[str], Path], tmp_path: Path, read_only: Callable[[Path], Path]
) -> None:
    experiment = read_only(kaldi_corpus("timit_sample"))
    before = snapshot(experiment)
    settings = ("model.layers=1", "model.units=8", "train.epochs=1", "decode.lattice_beam=2")
    options = ["--recipe", "timit", "--kaldi-dir", experiment, "--out", tmp_path / "out"]
    printed = table(*options, *(f"--set={setting}" for setting in settings))
    assert "timit" in printed
    assert snapshot(experiment) == before
    assert len(list((tmp_path / "out/index").glob("ali-*.npz"))) == 2  # train and dev
    assert len(list((tmp_path / "out").rglob("ali-*.npz"))) == 2
