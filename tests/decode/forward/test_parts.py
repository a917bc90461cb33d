"""Layers, heads and averages of networks that read several streams and branch."""

import json
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest
import torch

import bayes_asr
from bayes_asr.cli import main
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.part import extract_head, extract_layer
from bayes_asr.train.runs.trained_network import read_network
from tests.support.nn_layers import FORMS, INPUTS, STREAM, name_form, network_of, stacked
from tests.support.places import CONF
from tests.support.small_corpus import SETS, made_up, settings
from tests.support.two_streams import BOTH, OTHER, at_frames, other_features, write_both

Matrices = dict[str, np.ndarray]
RATE = 2
STACK = [
    {"name": "voice", "kind": "recurrent", "units": 3, "reads": [OTHER], "bidirectional": False},
    {"name": "slow", "kind": "conv1d", "channels": 4, "stride": 2, "reads": [FEATURES]},
    {"name": "alone", "kind": "mlp", "units": 6, "reads": [FEATURES]},
    {"name": "both", "kind": "mlp", "units": 5, "reads": ["slow", "voice"], "norm": "none"},
]
TWO = (
    *(*BOTH, f"streams.{OTHER}.subsampling={RATE}", "streams.pitch.cmvn=mean"),
    *(f"model.stack={json.dumps(STACK)}", "model.heads={monophones: alone}"),
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two streams whose heads read different layers, and one of one stream."""
    root = write_both(tmp_path_factory.mktemp("corpus"), RATE)
    for name, given in (("two", TWO), ("one", ("features.deltas=1",))):
        options = [str(CONF / "base.yaml"), *settings(root, *given), f"--out={root / name}"]
        assert main(["train", *options]) == 0
    return root


def forward(run: Path, out: Path, *options: str, on: str = "--on=test") -> Matrices:
    assert main(["forward", str(run), on, f"--out={out}", *options]) == 0
    (scp,) = out.glob("*.scp")
    return dict(kaldiio.load_scp(str(scp)))


def spoken(corpus: Path) -> dict[str, tuple[Matrices, Matrices]]:
    """Both streams of each utterance of the test set, and statistics of its speaker."""
    other, first = other_features("test", RATE), made_up("test", SETS["test"])[0]
    stats = dict(kaldiio.load_scp(str(corpus / "other/test/cmvn.scp")))
    return {
        utt: ({FEATURES: x, OTHER: other[utt]}, {OTHER: stats[utt.split("-")[0]]})
        for utt, x in first.items()
    }


def by_hand(corpus: Path) -> dict[str, dict[str, np.ndarray]]:
    """What each layer of the whole network gives, and the logits of its heads, by utterance."""
    network = read_network(corpus / "two")
    model, found = network.model.double().eval(), {}
    given: dict[str, Any] = {}
    for layer, name in zip(model.layers, model.names, strict=True):
        layer.register_forward_hook(lambda _, __, y, name=name: given.update({name: y}))
    for utt, (features, stats) in spoken(corpus).items():
        frames, read = len(features[FEATURES]), {}
        for name, end in network.front_ends.items():
            x = end.prepare(features[name], stats.get(name))
            x = at_frames(RATE, x, frames) if name == OTHER else x
            content = end.content()
            read[name] = torch.from_numpy(
                (x.astype(float) - content["mean"]) / content["deviation"]
            )
        with torch.no_grad():
            heads = model(read, PackedFrames((frames,)))
        held = {
            name: y.repeat_interleave(2, 0)[:frames] if len(y) < frames else y
            for name, y in given.items()
        }
        found[utt] = {name: y.numpy() for name, y in {**held, **heads}.items()}
    return found


def assert_close(found: Matrices, expected: Matrices, atol: float = 1e-5) -> None:
    assert list(found) == list(expected)
    for utt, matrix in expected.items():
        np.testing.assert_allclose(found[utt], matrix, rtol=0, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["voice", "slow", "alone", "both"])
def test_a_layer_is_that_of_the_whole_network(name: str, corpus: Path, tmp_path: Path) -> None:
    """At every frame, behind a stride too; also by the files of --data, and in Python."""
    expected = {utt: layers[name] for utt, layers in by_hand(corpus).items()}
    assert_close(forward(corpus / "two", tmp_path / "set", f"--layer={name}"), expected)
    network = bayes_asr.load(corpus / "two", layer=name)
    reads = {"voice": [FEATURES, OTHER], "both": [FEATURES, OTHER]}.get(name, [FEATURES])
    loaded = {
        utt: network({stream: x[stream] for stream in reads}, stats).numpy()
        for utt, (x, stats) in spoken(corpus).items()
    }
    assert_close(loaded, expected)
    more = [f"--stream={OTHER}={corpus / 'other/test'}"] if OTHER in reads else []
    data = f"--data={corpus / 'data/test'}"
    written = forward(corpus / "two", tmp_path / "data", f"--layer={name}", *more, on=data)
    assert_close(written, expected)


@pytest.mark.parametrize("head", ["pdfs", "monophones"])
def test_a_head_is_that_of_the_whole_network(head: str, corpus: Path, tmp_path: Path) -> None:
    """The heads read different layers, and the second needs no second stream."""
    logits = {utt: torch.from_numpy(found[head]) for utt, found in by_hand(corpus).items()}
    expected = {utt: z.softmax(-1).numpy() for utt, z in logits.items()}
    given = [f"--head={head}", "--kind=posteriors"]
    assert_close(forward(corpus / "two", tmp_path, *given), expected)


def test_what_reads_no_later_frames_is_computed_in_chunks(corpus: Path, tmp_path: Path) -> None:
    whole = forward(corpus / "two", tmp_path / "whole", "--layer=voice")
    chunks = forward(corpus / "two", tmp_path / "chunks", "--layer=voice", "--chunk=4")
    assert_close(chunks, whole)


@pytest.mark.slow
def test_an_average_of_networks_of_other_streams(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(corpus / name) for name in ("one", "two")]
    assert main(["combine", *runs, f"--out={tmp_path / 'avg'}", "--average=posteriors"]) == 0
    parts = [
        forward(corpus / name, tmp_path / name, "--kind=posteriors") for name in ("one", "two")
    ]
    expected = {utt: (x.astype(float) + parts[1][utt]) / 2 for utt, x in parts[0].items()}
    found = forward(tmp_path / "avg", tmp_path / "out", "--kind=posteriors")
    assert_close(found, expected)
    data, other = f"--data={corpus / 'data/test'}", f"--stream={OTHER}={corpus / 'other/test'}"
    again = forward(tmp_path / "avg", tmp_path / "data", "--kind=posteriors", other, on=data)
    assert_close(again, found, 0)
    network = bayes_asr.load(tmp_path / "avg", kind="posteriors")
    loaded = {utt: network(x, stats).numpy() for utt, (x, stats) in spoken(corpus).items()}
    assert_close(loaded, found, 2e-6)
    x, stats = spoken(corpus)["test0-0"]
    with pytest.raises(ValueError, match="pass pitch too"):
        network(x[FEATURES], stats)
    capsys.readouterr()
    for given, said in (
        ([data], "this network reads features, pitch: give --stream pitch=DIR"),
        ([data, other.replace("pitch=", "pich=")], "no stream pich, but features, pitch; did you"),
    ):
        out = f"--out={tmp_path / 'none'}"
        assert main(["forward", str(tmp_path / "avg"), *given, out]) == 1
        assert said in capsys.readouterr().err
    assert not (tmp_path / "none/loglikes.ark").exists()


def test_no_stream_is_overwritten_by_a_layer(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--on=test", "--layer=both", f"--out={corpus / 'other/test'}"]
    assert main(["forward", str(corpus / "two"), *given]) == 1
    assert "other/test: is the data directory that is read" in capsys.readouterr().err


# --- every kind of layer


@pytest.mark.parametrize("form", FORMS, ids=name_form)
def test_a_part_has_what_its_layer_computes(form: dict[str, Any]) -> None:
    model = network_of(form).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    frames = PackedFrames((9, 5))
    x = {STREAM: torch.randn(14, INPUTS, dtype=torch.double)}
    with torch.no_grad():
        (computed,) = model._compute(["tested"], x, frames, None).values()
        expected = frames.repeat(computed, model.strides["tested"])
        assert torch.equal(extract_layer(model, "tested").hidden(x, frames), expected)
        for name, logits in model(x, frames).items():
            assert torch.equal(extract_head(model, name)(x, frames)[name], logits)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_part_has_no_layers_but_those_it_needs() -> None:
    branch = {"kind": "mlp", "units": 6, "norm": "none", "reads": [STREAM]}
    last = {"name": "last", "kind": "mlp", "units": 5, "norm": "none", "reads": ["a"]}
    model = stacked({"name": "a", **branch}, {"name": "b", **branch}, last, heads={"pdfs": "b"})
    assert extract_head(model, "pdfs").names == ["b"]
    assert extract_head(model, "monophones").names == ["a", "last"]
    assert extract_layer(model, "a").outputs == ()
