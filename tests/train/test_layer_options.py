"""Optimizers against torch, and layers that are trained apart: rates, optimizers, freezing."""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import OPTIMIZERS
from bayes_asr.config.merge import load
from bayes_asr.config.training_keys import TrainConfig
from bayes_asr.nn.frames import pack
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.components import build_optimizer
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.start import train
from tests.support.nn_units import acoustic_model
from tests.support.small_corpus import DIMENSIONS
from tests.support.training_runs import (
    BATCHES,
    Killed,
    assert_same,
    at_batch,
    config_of,
    kill,
    states,
)

ADAM = {"betas": (0.9, 0.999), "eps": 1e-8}


def options(*settings: str) -> TrainConfig:
    return load([], ["train.learning_rate=0.01", *settings]).train


def network(layers: int = 2) -> AcousticModel:
    torch.manual_seed(3)
    return acoustic_model(DIMENSIONS, [6, 3], units=[4] * layers, dropout=0.3)


def steps(model: nn.Module, optimizer: Any, inputs: list[Tensor]) -> None:
    """Some steps down a loss of all weights."""
    for x in inputs:
        optimizer.zero_grad()
        sum(((p - x[: p.numel() or 1].mean()) ** 3).sum() for p in model.parameters()).backward()
        optimizer.step()


INPUTS = [torch.randn(50, generator=torch.Generator().manual_seed(n)) for n in range(5)]


@pytest.mark.parametrize(
    ("settings", "make"),
    [
        (["adam"], lambda p: torch.optim.AdamW(p, 0.01, **ADAM, weight_decay=0)),
        (
            ["adam", "betas=[0.8, 0.9]", "epsilon=1e-3", "amsgrad=true", "weight_decay=0.1"],
            lambda p: torch.optim.AdamW(
                p, 0.01, betas=(0.8, 0.9), eps=1e-3, amsgrad=True, weight_decay=0.1
            ),
        ),
        (
            ["adam-l2", "weight_decay=0.1"],
            lambda p: torch.optim.Adam(p, 0.01, **ADAM, weight_decay=0.1),
        ),
        (["rmsprop"], lambda p: torch.optim.RMSprop(p, 0.01, alpha=0.95, eps=1e-8)),
        (
            ["rmsprop", "alpha=0.9", "epsilon=1e-3", "momentum=0.5", "centered=true"],
            lambda p: torch.optim.RMSprop(
                p, 0.01, alpha=0.9, eps=1e-3, momentum=0.5, centered=True
            ),
        ),
        (["sgd"], lambda p: torch.optim.SGD(p, 0.01)),
        (
            ["sgd", "momentum=0.9", "dampening=0.2", "weight_decay=0.1"],
            lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, dampening=0.2, weight_decay=0.1),
        ),
        (
            ["sgd", "momentum=0.9", "nesterov=true"],
            lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, nesterov=True),
        ),
    ],
)
def test_optimizers_are_torchs(settings: list[str], make: Callable[[Any], Any]) -> None:
    kind, *more = settings
    config = options(f"train.optimizer={kind}", *(f"train.{setting}" for setting in more))
    ours, theirs = network(), network()
    steps(ours, build_optimizer(config, ours), INPUTS)
    steps(theirs, make(theirs.parameters()), INPUTS)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=1e-6)


def test_layers_have_rates_and_optimizers_of_their_own() -> None:
    """One torch optimizer for each layer, built by hand, is the oracle."""
    config = options(
        "train.momentum=0.9",
        "train.layers.layer1={optimizer: sgd, learning_rate_factor: 0.5}",
        "train.layers.monophones.learning_rate_factor=3",
    )
    ours, theirs = network(), network()
    optimizer = build_optimizer(config, ours)
    optimizer.set_rate(0.02)
    first, second = theirs.layers
    pdfs, monophones = theirs.heads
    by_hand = [
        torch.optim.SGD(first.parameters(), 0.01, momentum=0.9),
        torch.optim.AdamW(second.parameters(), 0.02, weight_decay=0),
        torch.optim.AdamW(pdfs.parameters(), 0.02, weight_decay=0),
        torch.optim.AdamW(monophones.parameters(), 0.06, weight_decay=0),
    ]

    class All:
        def step(self) -> None:
            for each in by_hand:
                each.step()

        def zero_grad(self) -> None:
            theirs.zero_grad()

    steps(ours, optimizer, INPUTS)
    steps(theirs, All(), INPUTS)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=1e-6)


def test_one_optimizer_is_saved_as_torch_saves_it() -> None:
    """So that checkpoints of earlier versions load, and theirs load ours."""
    model = network()
    plain = torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0, fused=True)
    steps(model, plain, INPUTS)
    saved = plain.state_dict()
    optimizer = build_optimizer(options(), model)
    optimizer.load_state_dict(saved)
    again = optimizer.state_dict()
    assert again.keys() == saved.keys()
    assert again["param_groups"] == saved["param_groups"]
    for number, state in saved["state"].items():
        for name, value in state.items():
            assert torch.equal(again["state"][number][name], value)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_steps_do_not_import_torchs_compiler(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes as long and as much memory as the rest of torch."""
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)
    model = network()
    optimizer = build_optimizer(options(f"train.optimizer={kind}"), model)
    steps(model, optimizer, INPUTS)
    optimizer.load_state_dict(optimizer.state_dict())


def batch_of(model: AcousticModel) -> dict[str, Tensor]:
    """What a network computes of two utterances, in training with dropout."""
    x = [torch.randn(n, DIMENSIONS, generator=torch.Generator().manual_seed(n)) for n in (7, 5)]
    packed, frames, _ = pack(x)
    return model({"features": packed}, frames, torch.tensor([1, 2]))


def test_frozen_layer_computes_as_in_evaluation_and_takes_no_gradients() -> None:
    model = network()
    model.freeze(["layer1", "monophones"])
    model.train()
    before = {name: value.clone() for name, value in model.layers[0].state_dict().items()}
    below: list[Tensor] = []
    model.layers[1].register_forward_hook(lambda _, inputs, __: below.append(inputs[0]))
    sum(y.square().sum() for y in batch_of(model).values()).backward()
    assert not below[0].requires_grad, "nothing goes back through it"
    frozen = [*model.layers[0].parameters(), *model.heads[1].parameters()]
    assert all(p.grad is None for p in frozen)
    for part in (model.layers[1], model.heads[0]):
        assert all(p.grad is not None for p in part.parameters() if p.requires_grad)
    for name, value in model.layers[0].state_dict().items():
        assert torch.equal(value, before[name]), f"{name} has changed"
    model.eval()
    expected: list[Tensor] = []
    model.layers[1].register_forward_hook(lambda _, inputs, __: expected.append(inputs[0]))
    batch_of(model)
    torch.testing.assert_close(below[0], expected[0])


@pytest.mark.parametrize("unit", ["li-bru", "gru", "lstm"])
@pytest.mark.parametrize("fused", [True, False])
def test_gradients_go_through_a_frozen_layer(unit: str, fused: bool) -> None:
    """Without batch statistics and dropout, it computes the same frozen or not."""
    gradients = []
    for frozen in ([], ["layer2"]):
        torch.manual_seed(3)
        model = acoustic_model(DIMENSIONS, [6], units=[4, 4], unit=unit, norm="none", dropout=0.0)
        model.layers[1].fused = fused
        model.freeze(frozen)
        batch_of(model)["pdfs"].square().sum().backward()
        gradients.append([p.grad for p in model.layers[0].parameters()])
        assert [p.grad is None for p in model.layers[1].parameters()].count(not frozen) == 0
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_thawed_layers_train_what_they_trained_before() -> None:
    """Scale and shift of a norm that an activation replaces are never trained."""
    cell = {"unit": "mlp", "options": {"activation": "p-sigmoid"}}
    model = acoustic_model(DIMENSIONS, [6], units=[4], **cell)
    trained = [p.requires_grad for p in model.parameters()]
    assert not all(trained)
    model.freeze(model.parts)
    assert not any(p.requires_grad for p in model.parameters())
    model.freeze()
    assert [p.requires_grad for p in model.parameters()] == trained


FROZEN = (
    "train.epochs=3",
    "train.noise=0.2",
    "model.layers=2",
    "train.layers.layer1={frozen_epochs: 1, learning_rate_factor: 0.1, optimizer: sgd}",
    "train.layers.monophones={frozen_epochs: all}",
    "train.warmup_batches=6",
)


@pytest.fixture(scope="module")
def undisturbed_layers(
    small_corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    run = tmp_path_factory.mktemp("layers")
    train(config_of(small_corpus, *FROZEN), run)
    return run, states(run)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [2, BATCHES + 2, BATCHES + 4, 2 * BATCHES + 4])
def test_run_with_layers_apart_is_resumed_bit_for_bit(
    batch: int,
    small_corpus: Path,
    undisturbed_layers: tuple[Path, dict[str, Any]],
    tmp_path: Path,
) -> None:
    config = config_of(small_corpus, *FROZEN, f"train.save_minutes={10 * (batch % 4 == 0)}")
    with at_batch(batch, kill), suppress(Killed):
        train(config, tmp_path)
    train(config, tmp_path)
    assert_same(states(tmp_path), undisturbed_layers[1])


def test_layers_stay_as_long_as_they_are_frozen(
    small_corpus: Path, undisturbed_layers: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    run, _ = undisturbed_layers
    last = checkpoint.read(run / "last.pt")
    train(config_of(small_corpus, *FROZEN, "train.epochs=1"), tmp_path / "one")
    first = checkpoint.read(tmp_path / "one" / "last.pt")["model"]
    torch.manual_seed(1)
    fresh = AcousticModel(**last["architecture"]).state_dict()
    for name, value in last["model"].items():
        assert torch.equal(first[name], fresh[name]) == name.startswith(("layers.0.", "heads.1."))
        assert torch.equal(value, fresh[name]) == name.startswith("heads.1.")
    assert len(last["optimizer"]["several"]) == 2


def test_rate_of_the_history_is_that_at_the_end_of_the_epoch(
    undisturbed_layers: tuple[Path, dict[str, Any]],
) -> None:
    found = [undisturbed_layers[1][f"{epoch} learning_rate"].item() for epoch in (1, 2, 3)]
    assert found[0] == pytest.approx(0.02 * BATCHES / 6)
    assert found[1] in (0.02, 0.01)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "train.layers.layr1.optimizer=sgd",
            r"train.layers names layr1; layers and heads: layer1, pdfs, monophones; did you mean",
        ),
        ("train.layers.layer1.optimiser=sgd", r"no key train.layers.layer1.optimiser; did you"),
        ("train.layers.layer1.frozen_epochs=some", r"must be a whole number .* or one of all"),
        (
            "train.layers={layer1: {frozen_epochs: all}, pdfs: {frozen_epochs: 2},"
            " monophones: {frozen_epochs: 1}}",
            r"train.layers freezes all layers and heads in epoch 1: nothing is left to train",
        ),
    ],
)
def test_bad_options_of_layers_are_refused(
    setting: str, message: str, small_corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        train(config_of(small_corpus, setting), tmp_path)


def test_layers_of_a_stack_are_frozen_and_taken_by_their_names(
    small_corpus: Path, tmp_path: Path
) -> None:
    """One that another network had under another name, and that stays as it was there."""
    stack = (
        "model.stack=[{name: NAME, kind: conv1d, channels: 6, kernel: 3},"
        " {name: rnn, kind: recurrent, units: 5}]"
    )
    old = config_of(small_corpus, stack.replace("NAME", "old"), "train.epochs=1", "seed=5")
    train(old, tmp_path / "old")
    new = config_of(
        small_corpus,
        stack.replace("NAME", "front"),
        f"train.init_from=[{{run: {tmp_path / 'old'}, layers: {{front: old}}}}]",
        "train.layers.front.frozen_epochs=all",
        "train.layers.rnn.optimizer=sgd",
    )
    train(new, tmp_path / "new")
    before, after = (checkpoint.read(tmp_path / run / "best.pt")["model"] for run in ("old", "new"))
    for name in before:
        assert torch.equal(before[name], after[name]) == name.startswith("layers.0.")
