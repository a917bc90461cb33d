"""What is said where memory runs out in training and in `forward`, and what is left then."""

from pathlib import Path
from typing import Any

import pytest
import torch

from bayes_asr.cli import main
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.train import loop
from bayes_asr.train.loader import Loader
from bayes_asr.train.runs import state
from tests.support.training_runs import assert_same, config_of, states


def ask_for_too_much(*_: object) -> Any:
    """What torch's allocator says, by asking it."""
    return torch.empty(2**50, dtype=torch.uint8)


def is_one_line(said: str, *parts: str) -> bool:
    last = said.splitlines()[-1]
    return "Traceback" not in said and all(part in last for part in parts)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["reading", "computing"])
def test_lack_of_memory_names_the_batch_and_the_run_goes_on(
    where: str,
    small_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config, run = config_of(small_corpus, "train.save_minutes=0"), tmp_path / "run"
    config.save(tmp_path / "config.yaml")
    undisturbed = ["train", str(tmp_path / "config.yaml"), f"--out={tmp_path / 'undisturbed'}"]
    assert main(undisturbed) == 0
    command = ["train", str(tmp_path / "config.yaml"), f"--out={run}"]
    holder, name = (Loader, "__call__") if where == "reading" else (loop, "_compute_loss")
    usual, calls = getattr(holder, name), list[object]()

    def sometimes(*given: Any) -> Any:
        calls.append(given)
        return (ask_for_too_much if len(calls) == 6 else usual)(*given)

    with monkeypatch.context() as patch:
        patch.setattr(holder, name, sometimes)
        assert main(command) == 1
    said = capsys.readouterr().err
    assert is_one_line(
        said, "error: not enough memory: 1125899906842624 bytes were wanted for a batch"
    )
    assert is_one_line(said, "in epoch", "3 utterances of ", " frames, train", "--new")
    assert "not enough memory" in state.read(run)["why"]
    assert main(command) == 0
    assert_same(states(run), states(tmp_path / "undisturbed"))


def test_lack_of_memory_in_forward_names_the_utterances(
    small_run: Path,
    small_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(LogLikelihoods, "compute_prepared", ask_for_too_much)
    data, out = small_corpus / "data" / "test", tmp_path / "out"
    assert main(["forward", str(small_run), f"--data={data}", f"--out={out}"]) == 1
    said = capsys.readouterr().err
    assert is_one_line(said, "1125899906842624 bytes were wanted for 3 utterances of ", "test0-")
    assert not list(out.iterdir())
