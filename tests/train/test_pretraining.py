"""Networks that are grown layer by layer before they are trained as a whole."""

import hashlib
import json
import shutil
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.train.pretraining import plan_pretraining
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.start import train
from tests.support.small_corpus import TINY
from tests.support.training_runs import (
    BATCHES,
    Killed,
    assert_same,
    at_batch,
    config_of,
    epochs_of,
    kill,
    states,
)

GROWN = (
    "model.unit=mlp",
    "model.activation=p-sigmoid",
    "model.activation_trains=[eta]",
    "model.layers=3",
    "model.norm=none",
    "train.epochs=1",
    "train.pretrain.epochs=1",
)
ETA = "cell.activation.eta"


@pytest.fixture(scope="module")
def grown(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("grown") / "run"
    train(config_of(small_corpus, *GROWN), run)
    return run


def learnt(run: Path, name: str = "best.pt") -> dict[str, Any]:
    model: dict[str, Any] = checkpoint.read(run / name)["model"]
    return model


def test_each_network_has_a_layer_more_and_leaves_activations_alone(grown: Path) -> None:
    for depth in (1, 2):
        shallow = learnt(grown / "pretrain" / str(depth))
        assert f"layers.{depth - 1}.W.weight" in shallow
        assert f"layers.{depth}.W.weight" not in shallow
        assert all(
            torch.equal(shallow[f"layers.{i}.{ETA}"], torch.ones(1, 8)) for i in range(depth)
        )
    assert not torch.equal(learnt(grown)[f"layers.0.{ETA}"], torch.ones(1, 8))


def test_a_network_begins_with_the_layers_of_the_one_before(grown: Path) -> None:
    runs = [grown / "pretrain" / "1", grown / "pretrain" / "2", grown]
    for before, after in pairwise(runs):
        digest = hashlib.sha256((before / "best.pt").read_bytes()).hexdigest()
        begun_from = json.loads((after / "env.json").read_text())["begun_from"]
        assert begun_from == {str(before / "best.pt"): digest}


def test_activations_may_be_trained_from_the_first_layer_on(
    small_corpus: Path, tmp_path: Path
) -> None:
    train(config_of(small_corpus, *GROWN, "train.pretrain.activations=trained"), tmp_path)
    assert not torch.equal(learnt(tmp_path / "pretrain" / "1")[f"layers.0.{ETA}"], torch.ones(1, 8))


@pytest.mark.slow
@pytest.mark.parametrize("batch", [2, BATCHES + 4, 2 * BATCHES + 6])
def test_a_run_that_was_killed_anywhere_is_the_one_that_was_not(
    batch: int, grown: Path, small_corpus: Path, tmp_path: Path
) -> None:
    config = config_of(small_corpus, *GROWN, "train.save_minutes=0")
    with suppress(Killed), at_batch(batch, kill):
        train(config, tmp_path)
    assert epochs_of(tmp_path) == 0
    train(config, tmp_path)
    for part in (".", "pretrain/1", "pretrain/2"):
        assert_same(states(tmp_path / part), states(grown / part))


def test_a_whole_network_that_has_begun_needs_the_shallow_ones_no_more(
    grown: Path, small_corpus: Path, tmp_path: Path
) -> None:
    shutil.copytree(grown, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "pretrain")
    train(config_of(small_corpus, *GROWN), tmp_path / "run")
    assert not (tmp_path / "run" / "pretrain").exists()
    assert_same(states(tmp_path / "run"), states(grown))


def test_what_is_planned() -> None:
    config = load([], [*TINY, *GROWN, "train.pretrain.learning_rate=0.5", "model.units=[8, 7, 6]"])
    planned = list(plan_pretraining(config, Path("run")))
    taken = [{"layer1": "layer1"}, {"layer1": "layer1", "layer2": "layer2"}]
    assert [each.as_transfer.layers for each in planned] == taken  # and no head
    shallow = [each.config for each in planned]
    assert [each.model.units for each in shallow] == [(8,), (8, 7)]
    assert {each.train.learning_rates[1] for each in shallow} == {0.5}
    assert not any(each.train.pretrain.epochs for each in shallow)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("train.init_from=[{run: there}]", r"pretrain\.epochs is 1, and train\.init_from"),
        ("model.stack=[{name: a, kind: mlp}]", r"pretrain\.epochs is 1, but only model\.layers"),
    ],
)
def test_what_cannot_be_grown_is_refused(setting: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        load([], [*TINY, *GROWN, setting])
