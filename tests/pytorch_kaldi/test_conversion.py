"""Weights of pytorch-kaldi in our layers: the same outputs as its equations, and as its classes."""

import itertools
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from bayes_asr.errors import InputError
from bayes_asr.nn.frames import pack, unpack
from bayes_asr.nn.network import AcousticModel
from bayes_asr.pytorch_kaldi.conversion import convert_layer, describe_layer
from bayes_asr.pytorch_kaldi.experiment import Architecture, Layer
from bayes_asr.pytorch_kaldi.weights import Weights, read_weights
from tests.support import their_networks
from tests.support.their_networks import GATES, INPUTS, UNITS

FORMS = [
    {"batch_norm": norm, "bidirectional": both, "activation": activation, "dropout": 0.2}
    for norm, both, activation in itertools.product((True, False), (True, False), ("tanh", "relu"))
]
CASES = [
    (kind, form)
    for kind, form in itertools.product(GATES, FORMS)
    if kind != "LSTM" or form["activation"] == "tanh"
]
LENGTHS = (9, 1, 6)


def name(case: object) -> str:
    if isinstance(case, Mapping):
        return "-".join(str(value) for value in case.values())
    return str(case)


def network_of(kind: str, layers: tuple[Layer, ...], *, bidirectional: bool) -> Architecture:
    """A section of a configuration, of which a conversion reads class and layers."""
    rate = ((0.1, 0),)
    about = (bidirectional, False, rate, 0.5, 0.001, "sgd", {}, "architecture1", 1)
    return Architecture("net", kind, layers, False, False, *about)


def ours(network: Architecture, weights: Weights, inputs: int) -> AcousticModel:
    """Our network with their weights, in evaluation."""
    reads = ["features", *(f"layer{n + 1}" for n in range(len(network.layers)))]
    layers = [
        {"name": reads[n + 1], "reads": [reads[n]], **describe_layer(network, layer)}
        for n, layer in enumerate(network.layers)
    ]
    model = AcousticModel({"features": inputs}, layers, {})
    for number, layer in enumerate(model.layers):
        layer.load_state_dict(convert_layer(network, weights, number))
    return model.eval()


def save(path: Path, state: dict[str, Any]) -> Path:
    """A file as core.py writes it."""
    optimizer = torch.optim.RMSprop([torch.nn.Parameter(torch.ones(1))]).state_dict()
    torch.save({"model_par": state, "optimizer_par": optimizer}, path)
    return path


def outputs(model: AcousticModel, utterances: list[torch.Tensor]) -> list[torch.Tensor]:
    x_NF, frames, order = pack(utterances)
    with torch.no_grad():
        return unpack(model.hidden({"features": x_NF}, frames), frames, order)


@pytest.mark.parametrize("oracle", ["equations", "their code"])
@pytest.mark.parametrize(("kind", "form"), CASES, ids=name)
def test_our_layers_give_what_theirs_give(
    kind: str, form: dict[str, Any], oracle: str, tmp_path: Path
) -> None:
    shape = {key: form[key] for key in ("batch_norm", "bidirectional")}
    state = their_networks.make_up(kind, **shape)
    utterances = [torch.randn(frames, INPUTS) for frames in LENGTHS]
    if oracle == "equations":
        expected = [their_networks.compute(kind, state, x, **form) for x in utterances]
    else:
        library = their_networks.load_theirs()
        given = {**their_networks.options(kind, **form), "use_cuda": "False", "to_do": "forward"}
        theirs = getattr(library, kind)(given, INPUTS)
        theirs.load_state_dict(state)
        with torch.no_grad():
            expected = [theirs.eval()(x[:, None])[:, 0] for x in utterances]
    layers = tuple(
        Layer(units, ((0.2, 0),), form["batch_norm"], False, form["activation"]) for units in UNITS
    )
    network = network_of(kind, layers, bidirectional=form["bidirectional"])
    weights = read_weights(save(tmp_path / "n.pkl", state))
    found = outputs(ours(network, weights, INPUTS), utterances)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("oracle", ["equations", "their code"])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_an_mlp_keeps_its_useless_bias_out_of_the_norm(
    batch_norm: bool, oracle: str, tmp_path: Path
) -> None:
    """Theirs adds a bias in front of a batch norm; frames it normalised show whether it counts."""
    torch.manual_seed(1)
    state: dict[str, torch.Tensor] = {}
    for number, (units, inputs) in enumerate(((4, INPUTS), (3, 4))):
        state[f"wx.{number}.weight"] = torch.randn(units, inputs)
        state[f"wx.{number}.bias"] = torch.randn(units)
        state |= their_networks.make_up_unused(number, units)
        state |= their_networks.make_up_norm(f"bn.{number}", units)
    x = torch.randn(7, INPUTS)
    if oracle == "their code":
        library = their_networks.load_theirs()
        flags = {f"dnn_use_{n}norm": "False,False" for n in ("batch", "lay")}
        flags["dnn_use_batchnorm"] = f"{batch_norm},{batch_norm}"
        inputs_only = {"dnn_use_laynorm_inp": "False", "dnn_use_batchnorm_inp": "False"}
        given = {"dnn_lay": "4,3", "dnn_drop": "0.1,0.1", "dnn_act": "sigmoid,relu"}
        theirs = library.MLP({**given, **flags, **inputs_only}, INPUTS)
        theirs.load_state_dict(state)
        with torch.no_grad():
            expected = theirs.eval()(x)
    else:
        expected = x
        for number, act in enumerate((torch.sigmoid, torch.relu)):
            w = {n.replace(f".{number}.", "."): v for n, v in state.items() if f".{number}." in n}
            expected = expected @ w["wx.weight"].T + w["wx.bias"]
            if batch_norm:
                scaled = (expected - w["bn.running_mean"]) / (w["bn.running_var"] + 1e-5).sqrt()
                expected = scaled * w["bn.weight"] + w["bn.bias"]
            expected = act(expected)
    layers = tuple(
        Layer(units, ((0.1, 0),), batch_norm, False, act)
        for units, act in ((4, "sigmoid"), (3, "relu"))
    )
    network = network_of("MLP", layers, bidirectional=False)
    weights = read_weights(save(tmp_path / "n.pkl", state))
    (found,) = outputs(ours(network, weights, INPUTS), [x])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


# --- what is refused


class Harm:
    """What a hostile file would run."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (exec, ("open('executed', 'w')",))


@pytest.mark.parametrize("form", ["torch", "pickle"])
def test_nothing_in_a_file_is_executed(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "n.pkl"
    if form == "torch":
        torch.save({"model_par": {"wh.0.weight": Harm()}}, path)
    else:
        path.write_bytes(pickle.dumps({"model_par": Harm()}, protocol=2))
    with pytest.raises(InputError, match=r"n.pkl: "):
        read_weights(path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"state_dict": {}}, "has no model_par"),
        ([], "has no model_par"),
        ({"model_par": {}}, "has layers none"),
        ({"model_par": {"wh.1.weight": torch.ones(1)}}, "has layers 1"),
        ({"model_par": {"wh.0.weight": 3}}, "wh.0.weight is no tensor"),
        ({"model_par": {"fc.weight": torch.ones(1)}}, "fc.weight is no tensor of a layer"),
    ],
)
def test_other_files_are_named(content: object, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "n.pkl")
    with pytest.raises(InputError, match=message):
        read_weights(tmp_path / "n.pkl")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    state = their_networks.make_up("RNN", batch_norm=True, bidirectional=True)
    path = save(tmp_path / "n.pkl", state)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match=r"n.pkl: cannot be read as a file of pytorch-kaldi"):
        read_weights(path)
    with pytest.raises(InputError, match=r"gone.pkl: not there"):
        read_weights(tmp_path / "gone.pkl")


def test_data_parallel_names_are_the_same_network(tmp_path: Path) -> None:
    state = their_networks.make_up("liGRU", batch_norm=True, bidirectional=True)
    plain = read_weights(save(tmp_path / "a.pkl", state))
    parallel = {f"module.{name}": tensor for name, tensor in state.items()}
    found = read_weights(save(tmp_path / "b.pkl", parallel))
    assert [set(one) for one in found.layers] == [set(one) for one in plain.layers]


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Layer(4, ((0.2, 0),), True, True, "relu"), "layer normalisation of theirs"),
        (Layer(4, ((0.2, 0),), True, False, "leaky_relu"), "activation leaky_relu; li-gru has"),
    ],
)
def test_layers_that_ours_have_not_are_refused(layer: Layer, message: str) -> None:
    with pytest.raises(InputError, match=message):
        describe_layer(network_of("liGRU", (layer,), bidirectional=True), layer)


def test_weights_of_another_size_or_class_are_named(tmp_path: Path) -> None:
    state = their_networks.make_up("liGRU", batch_norm=True, bidirectional=True)
    weights = read_weights(save(tmp_path / "n.pkl", state))
    other = (Layer(6, ((0.2, 0),), True, False, "relu"),)
    with pytest.raises(
        InputError, match=r"wz.weight of layer 1 is \[4, 5\], but .* says \[6, any\]"
    ):
        convert_layer(network_of("liGRU", other, bidirectional=True), weights, 0)
    same = (Layer(4, ((0.2, 0),), True, False, "tanh"),)
    with pytest.raises(InputError, match=r"layer 1 has no wr.weight"):
        convert_layer(network_of("GRU", same, bidirectional=True), weights, 0)
