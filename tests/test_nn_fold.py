"""Folding: a plain network computes what one with trained activations did."""

from typing import Any

import pytest
import torch
from nn_units import batch, model

from bayes_asr.errors import InputError
from bayes_asr.nn.fold import fold
from bayes_asr.nn.model import AcousticModel

FOLDABLE = [
    ("p-sigmoid", ["eta"], "sigmoid"),
    ("p-sigmoid", ["gamma", "theta"], "sigmoid"),
    ("p-sigmoid", ["eta", "gamma", "theta"], "sigmoid"),
    ("p-relu", ["alpha"], "relu"),
    ("tanh", [], "tanh"),
]


@pytest.mark.parametrize(("activation", "trains", "left"), FOLDABLE)
@pytest.mark.parametrize("norm", ["none", "batch", "batch-shared"])
@pytest.mark.parametrize("scaling", ["pytorch-kaldi", "inverted"])
def test_folded_network_is_plain_and_equal(
    activation: str, trains: list[str], left: str, norm: str, scaling: str
) -> None:
    options: dict[str, Any] = {"activation": activation}
    if trains:
        options["activation_trains"] = trains
    net = model(unit="mlp", options=options, norm=norm, dropout=0.3, dropout_scaling=scaling).eval()
    architecture, plain = fold(net)
    x, frames = batch()
    torch.testing.assert_close(plain(x, frames), net(x, frames), rtol=0, atol=1e-12)
    assert architecture["options"] == {"activation": left}
    ordinary = AcousticModel(3, [4], unit="mlp", units=(4, 3), norm="none")
    assert {k: v.shape for k, v in plain.state_dict().items()} == {
        k: v.shape for k, v in ordinary.state_dict().items()
    }


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
