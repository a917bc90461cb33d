"""Dropout that changes from epoch to epoch."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from bayes_asr.nn import dropout, recurrent
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.start import train
from tests.support.nn_layers import INPUTS, STREAM, network_of
from tests.support.training_runs import Killed, assert_same, at_batch, config_of, kill, states

STACK = (
    "model.stack=[{name: a, kind: conv1d, channels: 6, dropout: {1: 0.3, 3: 0.1}},"
    " {name: b, kind: recurrent, units: 6, dropout: {1: 0, 2: 0.4}, input_dropout: 0.2}]"
)
FORMS = (
    {"kind": "recurrent", "units": 6, "input_dropout": 0.0},
    {"kind": "recurrent", "unit": "lstm", "units": 6, "dropout_scaling": "inverted"},
    {"kind": "mlp", "units": 6},
    {"kind": "conv1d", "channels": 6},
    {"kind": "conv2d", "channels": 4, "input_channels": 2, "padding": 1, "pooling": 2},
    {"kind": "sinc", "channels": 3, "kernel": 5},
    {"kind": "dropout", "of": "frames"},
    {"kind": "segments", "unit": "gru", "units": 6, "segment": 3, "shift": 1},
)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["kind"])
def test_a_network_that_changes_is_one_that_was_built_so(form: dict[str, Any]) -> None:
    changed, built = (network_of(form, dropout=rate) for rate in (0.7, 0.2))
    kept = network_of(form, dropout=0.7)
    options = [{"dropout": 0.2}, {"dropout": 0.0}]
    if "input_dropout" in form:
        built = network_of({**form, "input_dropout": 0.4}, dropout=0.2)
        options[0]["input_dropout"] = 0.4
    changed.set_dropout(options)
    assert changed.architecture == built.architecture
    frames = PackedFrames((7, 5), torch.device("cpu"))
    streams = {STREAM: torch.randn(frames.count, INPUTS, dtype=torch.float64)}
    for keys in (torch.tensor([3, 4]), None):
        outputs = [
            model.train(keys is not None)(streams, frames, keys)["pdfs"]
            for model in (changed, built, kept)
        ]
        assert torch.equal(outputs[0], outputs[1])
        scaled_at_last = form["kind"] == "recurrent" and "dropout_scaling" not in form
        assert torch.equal(outputs[0], outputs[2]) != (keys is not None or scaled_at_last)


@pytest.mark.parametrize("constant", ["model.dropout=0.3", "model.input_dropout=0.3"])
def test_one_value_by_epoch_is_that_value(
    constant: str, small_corpus: Path, tmp_path: Path
) -> None:
    key = constant.partition("=")[0]
    for name, setting in (("a", constant), ("b", f"{key}={{1: 0.3, 2: 0.3}}")):
        train(config_of(small_corpus, "model.layers=2", setting), tmp_path / name)
    assert_same(states(tmp_path / "a"), states(tmp_path / "b"))


@pytest.fixture(scope="module")
def whole(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run with a schedule, and the probabilities of its masks in each epoch."""
    run = tmp_path_factory.mktemp("scheduled")
    drawn: dict[int, set[float]] = {}
    keep_mask = dropout.keep_mask

    def noted(keys: Any, stream: int, shape: Any, probability: float) -> Any:
        epoch = len((run / "history.jsonl").read_text().splitlines()) + 1
        drawn.setdefault(epoch, set()).add(probability)
        return keep_mask(keys, stream, shape, probability)

    with pytest.MonkeyPatch.context() as patch:
        for module in (dropout, recurrent):
            patch.setattr(module, "keep_mask", noted)
        (run / "history.jsonl").touch()
        train(config_of(small_corpus, STACK, "train.epochs=4"), run)
    return {"run": run, "states": states(run), "drawn": drawn}


def test_each_epoch_drops_as_it_says(whole: dict[str, Any]) -> None:
    assert whole["drawn"] == {
        1: {0.3, 0.2},
        2: {0.3, 0.4, 0.2},
        3: {0.1, 0.4, 0.2},
        4: {0.1, 0.4, 0.2},
    }
    content = checkpoint.read(whole["run"] / "last.pt")
    first, second = content["architecture"]["layers"]
    assert (first["dropout"], second["dropout"], second["input_dropout"]) == (0.1, 0.4, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [5, 9, 13])
def test_it_is_resumed_bit_for_bit(
    batch: int, whole: dict[str, Any], small_corpus: Path, tmp_path: Path
) -> None:
    config = config_of(small_corpus, STACK, "train.epochs=4", "train.save_minutes=0")
    with at_batch(batch, kill), suppress(Killed):
        train(config, tmp_path)
    train(config, tmp_path)
    assert_same(states(tmp_path), whole["states"])
    read = (checkpoint.read(run / "best.pt")["architecture"] for run in (tmp_path, whole["run"]))
    assert next(read) == next(read)
