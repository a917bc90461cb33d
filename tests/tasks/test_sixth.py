"""A sixth task, in one folder and with one line in the catalogue, as docs/architecture.md says."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import bayes_asr.tasks
from bayes_asr import load
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config import catalogue
from bayes_asr.kaldi_io.ark import iter_matrices, write_matrices
from bayes_asr.tasks.task import Task
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


@pytest.mark.slow
def test_task_of_one_folder_is_trained_and_computed(
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bayes_asr.tasks, "__path__", [*bayes_asr.tasks.__path__, str(FOLDER)])
    kind = catalogue.CriterionKind(
        "tasks.regression.criterion:SquaredError", "tasks.regression.task:RegressionTask"
    )
    monkeypatch.setitem(catalogue.CRITERIA, "squared-error", kind)
    run, out = tmp_path / "run", tmp_path / "out"
    out.mkdir()
    more = settings(
        corpus, "train.criterion=squared-error", "train.epochs=12", "features.cmvn=none"
    )
    (corpus / "data/dev/text").unlink()  # neither graph nor reference is asked for
    assert main(["doctor", str(CONF / "base.yaml"), *more, "--until=7", f"--out={out}"]) == 0
    assert main(["train", str(CONF / "base.yaml"), *more, f"--out={run}"]) == 0
    losses = [entry["dev_loss"] for entry in history_of(run)]
    assert losses[-1] < 0.5 * losses[0]
    assert_no_error_is_told(run, capsys)
    assert main(["forward", str(run), "--on=dev"]) == 0
    features, network = made_up("dev", SETS["dev"])[0], load(run)
    outputs = dict(iter_matrices(run / "forward_dev/outputs.ark"))
    assert not (run / "forward_dev/loglikes.ark").exists(), "a number has no likelihood"
    assert outputs.keys() == features.keys()
    # Outputs are those of best.pt, whose loss the history has.
    errors = [(outputs[utt][:, 0] - x.mean(1)) ** 2 for utt, x in features.items()]
    assert np.concatenate(errors).mean() == pytest.approx(min(losses), rel=1e-3)
    for utt, x in features.items():
        np.testing.assert_array_equal(network(torch.from_numpy(x)), outputs[utt])
    capsys.readouterr()
    for refused in (
        ["forward", str(run), "--on=dev", "--kind=posteriors", f"--out={tmp_path / 'out'}"],
        ["export", str(run), f"--torch={tmp_path / 'network.pt2'}"],
        ["combine", str(run), str(run), f"--out={tmp_path / 'average'}"],
    ):
        assert main(refused) == 1
        error = capsys.readouterr().err
        assert "head number gives real numbers and has no " in error
        assert "take its outputs" in error
        assert error.count("\n") == 1


def assert_no_error_is_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A number is not right or wrong: the log has losses alone, and the history null."""
    epochs = [line for line in (run / "train.log").read_text().splitlines() if " loss " in line]
    assert len(epochs) >= 12
    assert not [line for line in epochs if "error" in line]
    for entry in history_of(run):
        assert entry["train_error"] is entry["dev_error"] is None
    capsys.readouterr()
    assert main(["status", str(run), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["state"], found["judged_by"], found["dev_error"]) == ("finished", "loss", None)
    assert main(["status", str(run), f"--page={run.parent / 'page.html'}"]) == 0
    assert (run.parent / "page.html").read_text().count("<polyline") == 2


def test_task_of_an_unknown_verb_is_refused() -> None:
    with pytest.raises(InputError, match=r"Mistyped: .* is forwrad.*did you mean forward\?"):

        class Mistyped(Task):
            recogniser = "forwrad"  # type: ignore[assignment]
