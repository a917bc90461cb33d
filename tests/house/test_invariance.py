"""Promise 1 over 200 utterances: batch, processes, neighbours and a resume change nothing."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.cli import main
from bayes_asr.decode.forward import batches
from bayes_asr.kaldi_io.ark import iter_matrices
from tests.support.places import CONF, ROOT
from tests.support.small_corpus import made_up, settings, write_data_dir

COUNT, TOLERANCE = 200, 1e-5
Loglikes = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of 200 utterances, of one frame to some hundred."""
    features, _ = made_up("many", COUNT)
    rng = np.random.default_rng(3)
    for utt in list(features)[::5]:
        features[utt] = features[utt][: rng.integers(1, 6)]
    for utt in list(features)[1::7]:
        features[utt] = np.tile(features[utt], (int(rng.integers(2, 9)), 1))
    folder = tmp_path_factory.mktemp("invariance") / "data"
    write_data_dir(folder, features)
    return folder


def loglikes(run: Path, data: Path, out: Path) -> Loglikes:
    assert main(["forward", str(run), f"--data={data}", f"--out={out}"]) == 0
    return dict(iter_matrices(out / "loglikes.scp"))


@pytest.fixture(scope="module")
def expected(small_run: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Loglikes:
    return loglikes(small_run, data, tmp_path_factory.mktemp("expected"))


def assert_same(found: Loglikes, expected: Loglikes) -> None:
    assert len(expected) == COUNT
    assert found.keys() == expected.keys()
    for utt, matrix in expected.items():
        np.testing.assert_allclose(found[utt], matrix, rtol=0, atol=TOLERANCE)


def some_of(data: Path, keep: Callable[[int], bool], folder: Path) -> Path:
    """A data directory of the utterances whose number in feats.scp is kept, of the same archive."""
    folder.mkdir()
    kept = [
        line
        for number, line in enumerate((data / "feats.scp").read_text().splitlines(keepends=True))
        if keep(number)
    ]
    names = {line.split()[0] for line in kept}
    (folder / "feats.scp").write_text("".join(kept))
    for table in ("utt2spk", "text"):
        lines = (data / table).read_text().splitlines(keepends=True)
        (folder / table).write_text("".join(x for x in lines if x.split()[0] in names))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 8, 32])
def test_batches(
    size: int,
    small_run: Path,
    data: Path,
    expected: Loglikes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "BATCH_SEQUENCES", size)
    assert_same(loglikes(small_run, data, tmp_path), expected)


def test_other_neighbours(small_run: Path, data: Path, expected: Loglikes, tmp_path: Path) -> None:
    """Every third utterance beside others than before, and the other way round."""
    found: Loglikes = {}
    for third in range(3):
        part = some_of(data, lambda number, third=third: number % 3 == third, tmp_path / str(third))
        found |= loglikes(small_run, part, tmp_path / f"of-{third}")
    assert_same(dict(sorted(found.items())), dict(sorted(expected.items())))


@pytest.mark.slow
def test_two_processes(small_run: Path, data: Path, expected: Loglikes, tmp_path: Path) -> None:
    outs = [tmp_path / f"out{part}" for part in range(2)]
    processes = []
    for part, out in enumerate(outs):
        half = some_of(data, lambda n, part=part: (n >= COUNT // 2) == part, tmp_path / str(part))
        command = [sys.executable, "-m", "bayes_asr", "forward", small_run]
        command += [f"--data={half}", f"--out={out}"]
        processes.append(subprocess.Popen(command, cwd=ROOT))
    assert [process.wait() for process in processes] == [0, 0]
    found = {utt: x for out in outs for utt, x in iter_matrices(out / "loglikes.scp")}
    assert_same(found, expected)


@pytest.mark.slow
def test_before_and_after_a_resume(
    small_run: Path, small_corpus: Path, data: Path, expected: Loglikes, tmp_path: Path
) -> None:
    """A run that stopped after its first epoch and went on is the run that did not stop."""
    run = tmp_path / "run"
    for epochs in (1, 2):
        options = settings(small_corpus, f"train.epochs={epochs}")
        assert main(["train", str(CONF / "base.yaml"), *options, f"--out={run}"]) == 0
    assert_same(loglikes(run, data, tmp_path / "out"), expected)
