"""A sixth task, in one folder and with one line in the catalogue, as docs/architecture.md says."""

from pathlib import Path

import numpy as np
import pytest
import torch

import bayes_asr.tasks
from bayes_asr import load
from bayes_asr.cli import main
from bayes_asr.config import catalogue
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.train.runs.trained_network import read_network
from tests.support.places import CONF
from tests.support.small_corpus import SETS, made_up, settings, write_corpus
from tests.support.training_runs import history_of

FOLDER = Path(__file__).parent / "sixth"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The small corpus, and as the number of each frame the mean of its features."""
    root = write_corpus(tmp_path / "corpus")
    for name, count in SETS.items():
        numbers = ((u, x.mean(1, keepdims=True)) for u, x in made_up(name, count)[0].items())
        folder = root / "data" / name
        write_matrices(numbers, folder / "numbers.ark", folder / "numbers.scp")
    return root


def test_task_of_one_folder_is_trained_and_computed(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bayes_asr.tasks, "__path__", [*bayes_asr.tasks.__path__, str(FOLDER)])
    kind = catalogue.CriterionKind(
        "tasks.regression.criterion:SquaredError", "tasks.regression.task:RegressionTask"
    )
    monkeypatch.setitem(catalogue.CRITERIA, "squared-error", kind)
    run = tmp_path / "run"
    more = settings(
        corpus, "train.criterion=squared-error", "train.epochs=12", "features.cmvn=none"
    )
    assert main(["train", str(CONF / "base.yaml"), *more, f"--out={run}"]) == 0
    losses = [entry["dev_loss"] for entry in history_of(run)]
    assert losses[-1] < 0.5 * losses[0]
    model, hidden = read_network(run).model, load(run, layer="layer1")
    features = made_up("dev", SETS["dev"])[0]
    # Outputs are those of best.pt, whose loss the history has.
    with torch.no_grad():
        errors = [
            (model.heads[0](hidden(torch.from_numpy(x)).float())[:, 0].numpy() - x.mean(1)) ** 2
            for x in features.values()
        ]
    assert np.concatenate(errors).mean() == pytest.approx(min(losses), rel=1e-3)
