"""How far back a loss reaches, against the derivation of a lecture and against differences."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.sets import open_set
from bayes_asr.train.gradient_reach import measure_reach
from bayes_asr.train.loader import Loader
from bayes_asr.train.runs.trained_network import TrainedNetwork, read_network
from tests.support.small_corpus import settings

LAGS = 4
TANH = ("model.unit=rnn", "model.norm=none", "model.dropout=0", "train.monophone_weight=0")


@pytest.fixture(scope="module")
def run(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reach") / "run"
    assert main(["train", "conf/base.yaml", *settings(small_corpus, *TANH), f"--out={path}"]) == 0
    return path


def opened(run: Path) -> tuple[TrainedNetwork, LabelledSet]:
    return read_network(run), open_set(load([run / "config.yaml"]), "dev")


@pytest.mark.parametrize("gain", [1.0, 5.0])
def test_norms_are_those_of_the_derivation(run: Path, gain: float) -> None:
    """dL/dh_t = W^T (1 - h_{t+1}^2) dL/dh_{t+1}, from the one frame that has a loss, both ways."""
    network, data = opened(run)
    trained = network.model.double().layers[0].V.detach().clone()
    reach = measure_reach(network, data, lags=LAGS, utterances=1, gain=gain)[0]
    assert (reach.layer, reach.unit) == ("layer1", "rnn")
    longest = max(data.lengths, key=lambda utt: data.lengths[utt])
    batch = Loader(data, network.front_ends, ["pdfs"], seed=0, epoch=1)([longest])
    x = batch.streams["features"].double()
    (layer,), (head,) = network.model.layers, network.model.heads
    middle, H = len(x) // 2, layer.units
    with torch.no_grad():
        h = layer(x, batch.frames)
        by_o = head(h)[middle].softmax(0)
        by_o[batch.targets["pdfs"][middle]] -= 1
        logs = []
        for direction, step in ((0, -1), (1, 1)):
            states = h[:, direction * H : (direction + 1) * H]
            V = gain * trained[direction]
            by_h, norms = head.weight[:, direction * H : (direction + 1) * H].T @ by_o, []
            for lag in range(LAGS):
                norms.append(by_h.norm().log().item())
                by_h = V @ ((1 - states[middle + lag * step] ** 2) * by_h)
            logs.append(norms)
    np.testing.assert_allclose(reach.log_norms, np.mean(logs, 0), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_every_layer_and_unit_has_a_reach(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    where = settings(small_corpus, "model.unit=torch-gru", "model.layers=2", "train.epochs=1")
    assert main(["train", "conf/base.yaml", *where, f"--out={tmp_path}/run"]) == 0
    network, data = opened(tmp_path / "run")
    before = {name: value.clone() for name, value in network.model.state_dict().items()}
    reaches = measure_reach(network, data, lags=LAGS, utterances=2)
    assert [reach.layer for reach in reaches] == ["layer1", "layer2"]
    assert all(np.isfinite(reach.log_norms).all() for reach in reaches)
    layer = network.model.layers[0]
    assert layer.fused
    assert "step" not in vars(layer.cell)
    assert all(torch.equal(before[n].double(), v) for n, v in network.model.state_dict().items())
    measure_reach(network, data, lags=LAGS, utterances=1, gain=3)
    assert all(
        torch.equal(before[n].double() * (3 if n.endswith(".V") else 1), v)
        for n, v in network.model.state_dict().items()
    )


def test_norms_are_printed_and_drawn(
    run: Path, small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "reach.svg"
    options = ["--lags=4", "--utterances=1"]
    assert (
        main(["gradients", str(run), str(small_run), *options, "--json", f"--out={picture}"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert [len(norms) for norms in found.values()] == [4, 4]
    assert picture.read_text().startswith("<?xml")
    assert main(["gradients", str(run), *options]) == 0
    assert "relative, at lags 0, 1, 2" in capsys.readouterr().out


def test_the_gain_is_measured_and_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [f"--lags={LAGS}", "--utterances=1", "--json"]
    assert main(["gradients", str(run), *options, "--gain", "1", "8"]) == 0
    found = json.loads(capsys.readouterr().out)
    network, data = opened(run)
    scaled = measure_reach(network, data, lags=LAGS, utterances=1, gain=8)
    assert list(found) == [str(run), f"{run}, V times 8"]
    assert found[f"{run}, V times 8"] == scaled[0].log_norms.tolist()
    assert found[str(run)] != found[f"{run}, V times 8"]


def test_units_without_recurrent_weights_have_no_gain(small_corpus: Path, tmp_path: Path) -> None:
    where = settings(small_corpus, "model.unit=ubru", "train.epochs=1")
    assert main(["train", "conf/base.yaml", *where, f"--out={tmp_path}/run"]) == 0
    network, data = opened(tmp_path / "run")
    with pytest.raises(InputError, match="no unit has recurrent weights V"):
        measure_reach(network, data, lags=LAGS, utterances=1, gain=2)


def test_gradients_that_overflow_are_refused(run: Path) -> None:
    network, data = opened(run)
    network.model.layers[0].V.data.fill_(float("inf"))
    with pytest.raises(InputError, match="not finite, or all 0"):
        measure_reach(network, data, lags=LAGS, utterances=1)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--lags=500"], "0 utterances have the 1000 frames that 500 lags on both sides need"),
        (["--layer=layer9", "--lags=3", "--utterances=1"], "no recurrent layer layer9; it has"),
        (["--out=picture.bmp"], "a picture is a file .svg, .png or .pdf"),
    ],
)
def test_what_cannot_be_measured_is_said(
    options: list[str], complaint: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gradients", str(run), *options]) == 1
    assert complaint in capsys.readouterr().err


def test_the_run_that_cannot_be_measured_is_named(
    run: Path, small_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gradients", str(small_run), str(run), "--lags=500"]) == 1
    assert f"{small_run}: 0 utterances have the 1000 frames" in capsys.readouterr().err
