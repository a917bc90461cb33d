"""Folding: a plain network computes what one with trained activations did."""

from pathlib import Path
from typing import Any

import pytest
import torch

import bayes_asr
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.nn.fold import fold
from tests.support.nn_units import acoustic_model, batch, model, pdf_logits
from tests.support.places import CONF
from tests.support.small_corpus import DIMENSIONS, TINY

FOLDABLE = [
    ("p-sigmoid", ["eta"], "sigmoid"),
    ("p-sigmoid", ["gamma", "theta"], "sigmoid"),
    ("p-sigmoid", ["eta", "gamma", "theta"], "sigmoid"),
    ("p-relu", ["alpha"], "relu"),
    ("tanh", [], "tanh"),
]


@pytest.mark.parametrize(("activation", "trains", "left"), FOLDABLE)
@pytest.mark.parametrize("norm", ["none", "batch", "batch-shared", "batch-opposed"])
@pytest.mark.parametrize("scaling", ["pytorch-kaldi", "inverted"])
def test_folded_network_is_plain_and_equal(
    activation: str, trains: list[str], left: str, norm: str, scaling: str
) -> None:
    options: dict[str, Any] = {"activation": activation}
    if trains:
        options["activation_trains"] = trains
    net = model(unit="mlp", options=options, norm=norm, dropout=0.3, dropout_scaling=scaling).eval()
    plain = fold(net)
    x, frames = batch()
    torch.testing.assert_close(
        pdf_logits(plain, x, frames), pdf_logits(net, x, frames), rtol=0, atol=1e-12
    )
    for described in plain.architecture["layers"]:
        assert described["options"] == {"activation": left}
    ordinary = acoustic_model(3, [4], unit="mlp", units=(4, 3), norm="none")
    assert {k: v.shape for k, v in plain.state_dict().items()} == {
        k: v.shape for k, v in ordinary.state_dict().items()
    }


def test_run_with_trained_activations_becomes_a_plain_run(
    small_corpus: Path, tmp_path: Path
) -> None:
    where = [f"data.dir={small_corpus}", *TINY]
    unit = CONF / "units" / "mlp-S1.yaml"
    options = [f"--set={setting}" for setting in (*where, "train.freeze_activations=1")]
    run, plain = tmp_path / "run", tmp_path / "plain"
    assert main(["train", str(unit), *options, "--out", str(run)]) == 0
    assert main(["fold", str(run), "--out", str(plain)]) == 0
    x = torch.randn(7, DIMENSIONS)
    before, after = bayes_asr.load(run), bayes_asr.load(plain)
    torch.testing.assert_close(after(x), before(x), rtol=0, atol=1e-5)
    assert not [n for n, _ in after.named_parameters() if "cell" in n]
    assert main(["fold", str(run), "--out", str(plain)]) == 1  # it is not overwritten


def test_activations_are_frozen_for_as_many_epochs_as_asked_for(
    small_corpus: Path, tmp_path: Path
) -> None:
    unit = CONF / "experiments" / "parameterised.yaml#R1-"
    alphas = []
    for epochs in (1, 2):
        settings = [f"data.dir={small_corpus}", *TINY, f"train.epochs={epochs}"]
        run = tmp_path / str(epochs)
        arguments = [f"--set={setting}" for setting in settings]
        assert main(["train", str(unit), *arguments, "--out", str(run)]) == 0
        last = torch.load(run / "last.pt", weights_only=True)
        alphas.append(last["model"]["layers.0.cell.activation.alpha"])
    assert (alphas[0] == 1).all()
    assert (alphas[1] != 1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "li-bru"}, "only networks of unit mlp"),
        ({"unit": "mlp", "options": {"activation": "p-relu"}}, "p-relu with a trained beta"),
        ({"unit": "mlp", "norm": "layer"}, "layer normalisation depends on the input"),
    ],
)
def test_what_has_no_plain_twin_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fold(model(**options))


def test_trained_initial_states_of_layers_without_states_are_left_out() -> None:
    net = model(unit="mlp", norm="none", initial_state="trained").eval()
    x, frames = batch()
    expected = pdf_logits(net, x, frames)
    torch.testing.assert_close(pdf_logits(fold(net), x, frames), expected, rtol=0, atol=1e-12)
