"""The named stacks of `conf/stacks`, and real speech through a TDNN and a CNN below Li-BRU."""

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from bayes_asr.base.errors import StoppedError
from bayes_asr.config.merge import load
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.components import architecture
from bayes_asr.train.start import train
from tests.support.places import CONF, RECIPES, ROOT
from tests.support.training_runs import assert_same, at_batch, history_of, states

STACKS = sorted(CONF.glob("stacks/*.yaml"))
STREAMS = {"sincnet": {"features": 3200}, "joint": {"features": 40, "fbank": 24}}
RNN = {"kind": "recurrent", "units": 64}
TDNN: list[dict[str, Any]] = [
    {"name": "tdnn1", "kind": "conv1d", "channels": 64},
    {"name": "tdnn2", "kind": "conv1d", "channels": 64, "dilation": 2, "residual": True},
    {"name": "rnn", **RNN},
]
CNN: list[dict[str, Any]] = [
    {"name": "maps", "kind": "conv2d", "channels": 8, "padding": 1, "pooling": 2, "dropout": 0.1},
    {"name": "narrow", "kind": "projection", "units": 64},
    {"name": "rnn", **RNN},
]


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_named_stack_is_a_network(path: Path) -> None:
    config = load([path])
    streams = STREAMS.get(path.stem, {"features": 40})
    plan = architecture(config.model, streams, {"pdfs": 7, "monophones": 3})
    net = AcousticModel(**plan).eval()
    x = {name: torch.randn(6, size) for name, size in streams.items()}
    with torch.no_grad():
        logits = net(x, PackedFrames((4, 2)))
    assert {name: tuple(y.shape) for name, y in logits.items()} == {
        "pdfs": (6, 7),
        "monophones": (6, 3),
    }
    assert torch.isfinite(logits["pdfs"]).all()


def test_page_names_every_stack_and_its_example_is_a_network() -> None:
    page = (ROOT / "docs" / "shapes.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+\.yaml)` \|", page, re.M)) == {path.name for path in STACKS}
    (example,) = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.S)]
    settings = [f"model.{key}={json.dumps(value)}" for key, value in example["model"].items()]
    targets = {"pdfs": 7, "monophones": 3}
    plan = architecture(load([], settings).model, {"features": 40}, targets)
    assert AcousticModel(**plan).strides["last"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("layers", [TDNN, CNN], ids=["tdnn", "cnn"])
def test_stack_learns_real_speech_and_is_resumed_bit_for_bit(
    layers: list[dict[str, Any]],
    kaldi_corpus: Callable[[str], Path],
    tmp_path: Path,
    set_threads: Callable[[int], None],
) -> None:
    """152 pdfs, 78 utterances: a network that learnt nothing errs in nine frames of ten."""
    set_threads(1)
    given = [
        f"data.dir={kaldi_corpus('timit_sample')}",
        f"model.stack={json.dumps(layers)}",
        "train.epochs=5",
        "train.learning_rate=4e-3",
        "train.noise=0",
        "train.tempo=0",
        "train.device=cpu",
    ]
    config = load([RECIPES / "timit_sample" / "config.yaml"], given)
    train(config, tmp_path / "whole")
    assert history_of(tmp_path / "whole")[-1]["dev_error"] < 0.68
    stop = at_batch(60, lambda: os.kill(os.getpid(), signal.SIGTERM))  # in the second epoch
    with stop, pytest.raises(StoppedError):
        train(config, tmp_path / "stopped")
    train(config, tmp_path / "stopped")
    assert_same(states(tmp_path / "stopped"), states(tmp_path / "whole"))
