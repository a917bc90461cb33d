"""The configurations of units and sizes: each builds the network that it names."""

from pathlib import Path

import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import UNITS
from bayes_asr.config.merge import load
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.components import architecture
from tests.support.nn_units import acoustic_model
from tests.support.places import CONF

PRESETS = sorted((CONF / "units").glob("*.yaml"))


def built(*files: Path, inputs: int = 40) -> AcousticModel:
    """The network of these files, without memory for its weights."""
    plan = architecture(load(files).model, {"features": inputs}, {"pdfs": 10})
    with torch.device("meta"):
        return AcousticModel(**plan)


def test_every_unit_has_a_file() -> None:
    assert {load([p]).model.unit for p in PRESETS} == set(UNITS)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.stem)
def test_preset_goes_with_every_size_and_with_the_papers_setting(preset: Path) -> None:
    for size in [CONF / "paper.yaml", *sorted((CONF / "size").glob("*.yaml"))]:
        config = load([size, preset]).model
        layers = built(size, preset).layers
        assert [layer.units for layer in layers] == [config.units] * config.layers


# Tied directions, batch normalisation for each gate, no heads: weights counted by hand,
# (F + 3 * 1100) * 550 + 4 * 550^2 for the products of a gate and 4 * 2 * 550 for its normalisation.
MILLIONS = {40: [3.051, 6.103, 9.154, 12.206], 50: [3.057, 6.114, 9.171, 12.228]}
GATES = {"rnn": 1, "bru": 1, "li-gru": 2, "li-bru": 2, "mgu": 2, "gru": 3, "lstm": 4}


@pytest.mark.parametrize("features", [40, 50])
@pytest.mark.parametrize("unit", GATES)
def test_paper_networks_have_the_papers_size(unit: str, features: int) -> None:
    net = built(CONF / "paper.yaml", CONF / "units" / f"{unit}.yaml", inputs=features)
    count = sum(p.numel() for p in net.layers.parameters())
    gates = GATES[unit]
    assert count == gates * ((features + 3300) * 550 + 4 * 550**2 + 4 * 2 * 550)
    assert count / 1e6 == pytest.approx(MILLIONS[features][gates - 1], abs=6e-4)


def test_units_without_gates_have_as_many_parameters_as_the_paper_says() -> None:
    torch.manual_seed(0)
    for unit in ("rnn", "bru"):
        net = acoustic_model(50, [1], unit=unit, units=[550], bidirectional=False, norm="none")
        assert sum(p.numel() for p in net.layers.parameters()) == 550 * (50 + 550 + 1)


def test_paper_preset_is_the_light_bayesian_unit_at_its_size() -> None:
    config = load([CONF / "paper.yaml"])
    model, train = config.model, config.train
    assert (model.unit, model.layers, model.units, model.dropout) == ("li-bru", 4, 550, 0.2)
    assert (model.norm, model.bidirectional, model.hand_on) == ("batch", True, "log")
    assert (train.epochs, train.optimizer) == (24, "adam")


def test_each_layer_may_have_a_size_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "sizes.yaml"
    file.write_text("model: {layers: 3, units: [30, 20, 10]}")
    assert [layer.units for layer in built(file).layers] == [30, 20, 10]
    file.write_text("model: {layers: 2, units: [30, 20, 10]}")
    with pytest.raises(InputError, match=r"model.units has 3 numbers, but model.layers is 2"):
        built(file)


TRAINED = {
    "S0": [],
    "S1": ["eta"],
    "S2": ["gamma"],
    "S3": ["theta"],
    "S6": ["eta", "gamma", "theta"],
    "R0": [],
    "R1": ["alpha"],
    "R2": ["beta"],
    "R3": ["alpha", "beta"],
}


@pytest.mark.parametrize("system", TRAINED)
def test_systems_of_parameterised_activations_train_what_they_name(system: str) -> None:
    net = built(CONF / "units" / f"mlp-{system}.yaml", CONF / "size" / "small.yaml")
    names = [n.rpartition(".")[2] for n, _ in net.layers[0].named_parameters() if "cell" in n]
    assert names == TRAINED[system]
