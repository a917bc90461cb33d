"""Networks of `model.stack`: what is refused and why, what is trained, resumed and streamed."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bayes_asr
from bayes_asr.base.errors import InputError, StoppedError
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.data.corpus.sets import open_sets
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.components import architecture, plan_network, summarize_layers
from bayes_asr.train.runs.trained_network import read_network
from bayes_asr.train.start import train
from tests.support.small_corpus import DIMENSIONS, settings
from tests.support.training_runs import (
    BATCHES,
    assert_same,
    at_batch,
    config_of,
    history_of,
    states,
)

TDNN = [
    {"name": "front", "kind": "conv1d", "channels": 8, "causal": True, "dropout": 0.1},
    {"name": "narrow", "kind": "projection", "units": 6},
    {"name": "rnn", "kind": "recurrent", "units": 8, "bidirectional": False},
]
CNN = [
    {"name": "maps", "kind": "conv2d", "channels": 3, "padding": 1, "pooling": 2},
    {"name": "again", "kind": "conv2d", "channels": 4, "kernel": [3, 2]},
    {"name": "instance", "kind": "norm", "norm": "instance"},
    {"name": "rnn", "kind": "recurrent", "unit": "li-gru", "units": 8},
]
STRIDED = [
    {"name": "slow", "kind": "conv1d", "channels": 8, "stride": 2},
    {"name": "rnn", "kind": "recurrent", "units": 8, "reads": ["slow"], "residual": False},
    {"name": "quick", "kind": "mlp", "units": 6, "reads": ["rnn", "features"]},
    {"name": "most", "kind": "dropout", "of": "frames"},
    {"name": "last", "kind": "mlp", "units": 6, "residual": True},
]


def stack(layers: list[dict[str, Any]], **heads: str) -> list[str]:
    """Settings of a network of these layers."""
    return [f"model.stack={json.dumps(layers)}", f"model.heads={json.dumps(heads)}"]


def build(*layers: dict[str, Any], **heads: str) -> AcousticModel:
    model = load([], stack(list(layers), **heads)).model
    return AcousticModel(**architecture(model, {"features": 10}, {"pdfs": 4, "monophones": 3}))


A, B = {"name": "a", "kind": "mlp", "units": 6}, {"name": "b", "kind": "mlp", "units": 5}


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([{"kind": "mlp"}], r"model.stack has name None for layer 1; give it one of letters"),
        ([{**A, "name": "a.b"}], r"model.stack has name a.b for layer 1; give it one of letters"),
        ([{**A, "name": "pdfs"}], "has a layer pdfs, but a head has that name"),
        ([A, A], "model.stack has two layers a; give one of them another name"),
        ([{"name": "a", "kind": "conv1"}], r"layer a of kind conv1; kinds: .*mean conv1d\?"),
        ([{"name": "a"}], "model.stack has layer a of kind None; kinds: recurrent, mlp"),
        ([{**A, "unit": 3}], r"layer a \(mlp\): there is no option unit; .*mean units\?"),
        ([{**A, "redas": ["a"]}], r"there is no option redas; its options: .* mean reads\?"),
        ([{**A, "units": 0}], r"layer a \(mlp\): units is 0; it must be a whole number between 1"),
        ([{**A, "dropout": 1}], r"dropout is 1; it must be a number between 0 and 0.95"),
        ([{**A, "activation": "relux"}], r"activation is 'relux'; .*did you mean relu\?"),
        ([{**A, "join": "add"}], r"join is 'add'; it must be one of concat, sum"),
        ([{**A, "activation_trains": ["eta"]}], "relu has no parameters that could be trained"),
        ([{"name": "a", "kind": "sinc", "kernel": 128}], r"a \(sinc\): kernel is 128.*make it odd"),
        ([{"name": "a", "kind": "sinc", "sample_rate": 1000, "min_low": 450}], "leave no room"),
        ([{"name": "a", "kind": "conv2d", "kernel": 3}], r"kernel has 1 numbers; it is \[frames"),
        ([{"name": "a", "kind": "recurrent", "unit": "li-brux"}], r"li-brux; .*mean li-bru\?"),
        ([{"name": "a", "kind": "recurrent", "units": [3, 4]}], r"units is \[3, 4\]; a layer has"),
        ([{"name": "a", "kind": "recurrent", "layers": 3}], "there is no option layers"),
        ([{"name": "a", "kind": "recurrent", "unit": "gru", "hand_on": "prob"}], "gru computes no"),
        ([{**A, "reads": ["a"]}], "layer a reads itself"),
        ([{**A, "reads": ["b"]}, B], "layer a reads b, which comes later; put b before a"),
        ([{**A, "reads": ["feature"]}], r"a reads feature, which is no stream .*mean features\?"),
        ([{**A, "reads": ["features", "features"]}], "reads features, features, one of them twice"),
        ([{**A, "name": "features"}], "has a layer features, but a stream has that name"),
        ([A, {**B, "reads": ["features"]}], "layer a, whose outputs no layer and no head reads"),
        ([A, {**B, "reads": ["a", "features"], "join": "sum"}], "a has 6 numbers and features has"),
        ([A, {**B, "residual": True}], r"layer b \(mlp\): .*reads 6 numbers and has 5 outputs"),
        (
            [{"name": "a", "kind": "conv1d", "channels": 10, "stride": 2, "residual": True}],
            "reads 10 numbers and has 10 outputs of one of 2 frames",
        ),
        (
            [
                {"name": "a", "kind": "conv1d", "stride": 2},
                {"name": "b", "kind": "conv1d", "stride": 3, "reads": ["features"]},
                {"name": "c", "kind": "mlp", "reads": ["a", "b"]},
            ],
            "reads one of 2 frames of one layer and one of 3 of b, which is no multiple",
        ),
    ],
)
def test_what_is_no_network_is_refused_by_the_name_of_the_layer(
    layers: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        build(*layers)


def test_heads_read_what_is_there() -> None:
    with pytest.raises(InputError, match=r"pdfs: c, but there is no layer c; layers: a, b"):
        build(A, B, pdfs="c")
    with pytest.raises(InputError, match=r"model.heads has pdf, .* learns pdfs, .*mean pdfs\?"):
        build(A, B, pdf="a")
    with pytest.raises(InputError, match="layer b, whose outputs no layer and no head reads"):
        build(A, B, pdfs="a", monophones="a")
    assert [head.in_features for head in build(A, B, monophones="a").heads] == [5, 6]


def test_a_file_says_where_a_stack_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("model:\n  units: 4\n  stack:\n  - {name: a, kind: mlp, unit: 3}\n")
    with pytest.raises(InputError, match=r"c.yaml, line 4: model.stack layer a \(mlp\): there is"):
        load([path])
    path.write_text("model: {kinds: {conv1d: {kernel: 0}}}\n")
    with pytest.raises(InputError, match=r"model.kinds.conv1d.kernel is 0; it must be a whole"):
        load([path])


def test_layers_have_the_options_of_their_kind_where_they_give_none() -> None:
    given = [
        "model.unit=lstm",
        "model.peepholes=true",
        "model.kinds.mlp.units=7",
        *stack(
            [A | {"units": 6}, {"name": "b", "kind": "mlp"}, {"name": "c", "kind": "recurrent"}]
        ),
    ]
    layers = architecture(load([], given).model, {"features": 10}, {"pdfs": 4})["layers"]
    assert [layer.get("units") for layer in layers] == [6, 7, 550]
    assert (layers[2]["unit"], layers[2]["options"]) == ("lstm", {"peepholes": True})
    given[-2] = given[-2].replace('"recurrent"', '"recurrent", "unit": "li-gru"')
    layers = architecture(load([], given).model, {"features": 10}, {"pdfs": 4})["layers"]
    assert (layers[2]["unit"], layers[2]["options"]) == ("li-gru", {})


def test_the_short_form_is_a_stack_of_its_layers() -> None:
    """Written as a stack it is the same network, to the names and bytes of its weights."""
    short = load([], ["model.layers=2", "model.units=[6, 5]", "model.input_dropout=0.1"]).model
    long = [
        {"name": "layer1", "kind": "recurrent", "units": 6, "input_dropout": 0.0},
        {"name": "layer2", "kind": "recurrent", "units": 5, "input_dropout": 0.1},
    ]
    sizes = {"features": 10}, {"pdfs": 4, "monophones": 3}
    plans = [architecture(model, *sizes) for model in (short, load([], stack(long)).model)]
    assert plans[0] == plans[1]
    assert set(plans[0]) == {"streams", "layers", "heads"}
    assert plans[0]["layers"][1] == {
        "name": "layer2",
        "kind": "recurrent",
        "reads": ["layer1"],
        "units": 5,
        "input_dropout": 0.1,
        "unit": "li-bru",
        "bidirectional": True,
        "tied_directions": False,
        "norm": "batch",
        "dropout": 0.2,
        "dropout_scaling": "pytorch-kaldi",
        "initial_state": "fixed",
        "hand_on": "log",
        "input_init": "xavier",
        "options": {},
    }


def test_what_is_read_is_joined_as_it_says() -> None:
    torch.manual_seed(0)
    net = build(
        {"name": "a", "kind": "projection", "units": 6},
        {"name": "b", "kind": "projection", "units": 6, "reads": ["features"], "residual": False},
        {"name": "sum", "kind": "projection", "units": 6, "reads": ["a", "b"], "join": "sum"},
        {"name": "both", "kind": "projection", "units": 4, "reads": ["sum", "features"]},
        {"name": "last", "kind": "projection", "units": 4, "residual": True},
        monophones="sum",
    )
    x = torch.randn(7, 10)
    a, b, total, both, last = (layer.W for layer in net.layers)
    summed = total(a(x) + b(x))
    read = both(torch.cat((summed, x), 1))
    found = net({"features": x}, PackedFrames((4, 3)))
    torch.testing.assert_close(found["pdfs"], net.heads[0](last(read) + read))
    torch.testing.assert_close(found["monophones"], net.heads[1](summed))


def test_description_says_what_each_layer_reads_and_hands_on() -> None:
    said = summarize_layers(build(*STRIDED, monophones="rnn"))
    assert said[0] == "slow: conv1d, features (10) -> 8, one of 2 frames, 256 parameters"
    assert said[1].startswith("rnn: recurrent li-bru, slow (8) -> 16, one of 2 frames, ")
    assert said[1].endswith(" parameters, read by monophones")
    assert said[2] == "quick: mlp, rnn (16), features (10) -> 6, 168 parameters"
    assert said[4] == "last: mlp, most (6) -> 6, residual, 48 parameters, read by pdfs"


@pytest.mark.slow
@pytest.mark.parametrize("layers", [TDNN, CNN, STRIDED], ids=["tdnn", "cnn", "strided"])
def test_stack_learns_and_is_resumed_bit_for_bit(
    layers: list[dict[str, Any]], small_corpus: Path, tmp_path: Path
) -> None:
    given = stack(layers, monophones=layers[1]["name"])
    config = config_of(small_corpus, *given, "train.epochs=4")
    train(config, tmp_path / "whole")
    history = history_of(tmp_path / "whole")
    assert history[-1]["dev_error"] < 0.7 * history[0]["train_error"]
    stop = at_batch(BATCHES + 3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with stop, pytest.raises(StoppedError):
        train(config, tmp_path / "stopped")
    torch.manual_seed(9)
    train(config, tmp_path / "stopped")
    assert_same(states(tmp_path / "stopped"), states(tmp_path / "whole"))
    plan = plan_network(config, open_sets(config)[0])
    assert read_network(tmp_path / "whole").model.architecture == plan


@pytest.mark.parametrize("layers", [TDNN, CNN, STRIDED], ids=["tdnn", "cnn", "strided"])
def test_trained_stack_streams_or_says_why_not(
    layers: list[dict[str, Any]], small_corpus: Path, tmp_path: Path
) -> None:
    train(config_of(small_corpus, *stack(layers), "train.epochs=1"), tmp_path)
    network = bayes_asr.load(tmp_path)
    x = np.random.default_rng(0).standard_normal((23, DIMENSIONS)).astype(np.float32)
    if layers is TDNN:
        stream = network.stream()
        found = [*(stream(chunk) for chunk in np.split(x, [1, 2, 10])), stream.finish()]
        torch.testing.assert_close(torch.cat(found), network(x), rtol=0, atol=1e-6)
    else:
        names = {"cnn": r"maps, again, instance, rnn", "strided": "slow, rnn"}
        with pytest.raises(InputError, match=names["cnn" if layers is CNN else "strided"]):
            network.stream()


def test_verbs_know_stacks(
    small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, given = tmp_path / "run", settings(small_corpus, *stack(CNN))
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    assert main(["train", str(empty), *given, "--out", str(run)]) == 0
    assert main(["doctor", str(empty), *given]) in (0, 1)
    assert "parameters and a batch of" in capsys.readouterr().out
    assert main(["fold", str(run), "--out", str(tmp_path / "plain")]) == 1
    assert "has model.stack; only networks of model.unit: mlp" in capsys.readouterr().err
    wrong = settings(small_corpus, *stack([{**CNN[0], "kernel": [3, 9]}]))
    assert main(["doctor", str(empty), *wrong]) == 1
    assert "layer maps (conv2d): reads 5 frequencies" in capsys.readouterr().out
