"""The experiment of Zhang & Woodland (2015): its network, and what each system trains when."""

from itertools import pairwise
from pathlib import Path

import pytest

from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.components import architecture
from bayes_asr.train.pretraining import plan_pretraining
from tests.support.experiments import list_systems, name_of, read_hypotheses
from tests.support.places import CONF, RECIPES

SYSTEMS = list_systems("parameterised")
# Table 1: the activation, what is trained in fine-tuning, in pre-training, frozen in the 1st epoch.
TABLE_1 = {
    "S0": ("sigmoid", (), False, False),
    "S1+": ("p-sigmoid", ("eta",), True, False),
    "S2+": ("p-sigmoid", ("gamma",), True, False),
    "S3+": ("p-sigmoid", ("theta",), True, False),
    "S1": ("p-sigmoid", ("eta",), False, False),
    "S2": ("p-sigmoid", ("gamma",), False, False),
    "S3": ("p-sigmoid", ("theta",), False, False),
    "S6": ("p-sigmoid", ("eta", "gamma", "theta"), False, False),
    "R0": ("relu", (), False, False),
    "R1": ("p-relu", ("alpha",), False, False),
    "R2": ("p-relu", ("beta",), False, False),
    "R3": ("p-relu", ("alpha", "beta"), False, False),
    "R1-": ("p-relu", ("alpha",), False, True),
    "R2-": ("p-relu", ("beta",), False, True),
}


def network(config: Config, outputs: int = 7) -> AcousticModel:
    inputs = 2 * (config.features.left_context + config.features.right_context + 1)
    return AcousticModel(**architecture(config.model, {"features": inputs}, {"pdfs": outputs}))


def trained(config: Config, epoch: int) -> set[str]:
    """Which parameters of activations an epoch trains."""
    model = network(config)
    model.freeze([], activations=epoch <= config.train.freeze_activations)
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    return {name.rpartition(".")[2] for name in names if "activation" in name}


def test_all_systems_of_the_table_are_there() -> None:
    assert set(map(name_of, SYSTEMS)) == set(TABLE_1)


def test_all_systems_are_in_hypotheses() -> None:
    stated = read_hypotheses("parameterised")
    assert {word.rpartition("=")[2] for word in stated if word[:2] != "--"} == set(TABLE_1)
    assert stated[:4] == ["--group", "eta=S1", "--against", "sigmoid=S0"]


@pytest.mark.parametrize("system", SYSTEMS, ids=name_of)
def test_a_system_trains_what_the_table_says(system: Path) -> None:
    activation, parameters, in_pretraining, begins_frozen = TABLE_1[name_of(system)]
    small = CONF / "size/parameterised-small.yaml"
    config = load([RECIPES / "timit_sample/config.yaml", system, small], ["model.units=3"])
    assert config.model.activation == activation
    assert trained(config, 1) == (set() if begins_frozen else set(parameters))
    assert trained(config, 2) == set(parameters)
    shallow = [each.config for each in plan_pretraining(config, Path("run"))]
    assert [each.model.layers for each in shallow] == [*range(1, config.model.layers)]
    for each in shallow:
        found = [trained(each, epoch) for epoch in range(1, each.train.epochs + 1)]
        assert found == [set(parameters) if in_pretraining else set()] * each.train.epochs


@pytest.mark.parametrize("system", ["S0", "S1"])
def test_the_network_is_that_of_the_paper(system: str) -> None:
    path = CONF / f"experiments/parameterised.yaml#{system}"
    config = load([RECIPES / "timit/config.yaml", path])
    assert (config.features.left_context, config.features.right_context) == (4, 4)
    assert config.train.monophone_weight == 0  # one output layer
    plan = architecture(config.model, {"features": 9 * 42}, {"pdfs": 6005})
    assert {layer["dropout"] for layer in plan["layers"]} == {0}
    sizes = [378, *[1000] * 5, 6005]
    plain = sum(inputs * outputs + outputs for inputs, outputs in pairwise(sizes))
    found = sum(parameter.numel() for parameter in AcousticModel(**plan).parameters())
    assert found - plain == (5000 if system == "S1" else 0)
