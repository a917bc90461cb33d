"""Exported networks of several streams: one input for each, and what `load` gives."""

from pathlib import Path

import numpy as np
import pytest
import torch

import bayes_asr
from bayes_asr.cli import main
from bayes_asr.data.features.front_end import FEATURES, append_context
from bayes_asr.decode.export import OLDEST_TORCH, export_onnx, export_program
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.train.start import train
from tests.decode.forward.test_several_streams import network, utterance
from tests.support.training_runs import config_of
from tests.support.two_streams import BOTH, OTHER, at_frames, write_both

pytest.importorskip("torch", OLDEST_TORCH)
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("quick_onnx")
BOUND = 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1, 3])
def test_utterances_go_in_stream_by_stream(rate: int, tmp_path: Path) -> None:
    """Of a stream at another rate, deltas and frames are the caller's."""
    net = network(rate, order=1, right=1)
    export_onnx(net, tmp_path / "network.onnx")
    runtime = onnxruntime.InferenceSession(tmp_path / "network.onnx")
    assert [one.name for one in runtime.get_inputs()] == [FEATURES, OTHER]
    program = export_program(net).module()
    for frames in (1, 7, 40):
        x = utterance(rate, frames)
        inputs = dict(x)
        if rate != 1:
            deltas = append_context(x[OTHER], order=1, left=0, right=0)
            inputs[OTHER] = at_frames(rate, deltas, frames)
        (found,) = runtime.run(["loglikes"], inputs)
        np.testing.assert_allclose(found, net(x).numpy(), rtol=0, atol=BOUND)
        with torch.no_grad():
            plain = program(*map(torch.from_numpy, inputs.values()))
        np.testing.assert_allclose(plain.numpy(), net(x).numpy(), rtol=0, atol=BOUND)


@pytest.mark.slow
def test_steps_take_prepared_frames_of_each_stream(tmp_path: Path) -> None:
    net = network(-2, order=1, right=1)
    export_onnx(net, tmp_path / "network.onnx", step=True)
    runtime = onnxruntime.InferenceSession(tmp_path / "network.onnx")
    names = [one.name for one in runtime.get_inputs()]
    assert names == [FEATURES, OTHER, "begins", "state1", "state2"]
    x = utterance(-2, 9)
    prepared = {
        FEATURES: append_context(x[FEATURES], order=0, left=0, right=1),
        OTHER: at_frames(-2, append_context(x[OTHER], order=1, left=0, right=0), 9),
    }
    states = [np.zeros(one.shape, np.float32) for one in runtime.get_inputs()[3:]]
    found = []
    for frame in range(9):
        given = {name: values[frame : frame + 1] for name, values in prepared.items()}
        begins = {"begins": np.array(frame == 0)}
        loglikes, *states = runtime.run(
            None, given | begins | dict(zip(names[3:], states, strict=True))
        )
        found.append(loglikes)
    np.testing.assert_allclose(np.concatenate(found), net(x).numpy(), rtol=0, atol=BOUND)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1, 3, "utterance"])
def test_forward_computes_with_the_file(rate: int | str, tmp_path: Path) -> None:
    """Utterances as a whole, and step by step."""
    corpus = write_both(tmp_path / "corpus", rate)
    run, file = tmp_path / "run", tmp_path / "network.onnx"
    around = () if rate == "utterance" else (f"streams.{OTHER}.deltas=1",)
    more = (f"streams.{OTHER}.subsampling={rate}", *around, "model.bidirectional=false")
    train(config_of(corpus, *BOTH, *more, "train.epochs=1"), run)
    assert bayes_asr.load(run).front_ends[OTHER].subsampling == rate

    def loglikes(name: str, *options: str) -> dict[str, np.ndarray]:
        assert main(["forward", str(run), "--on=test", *options, f"--out={tmp_path / name}"]) == 0
        return dict(iter_matrices(tmp_path / name / "loglikes.scp"))

    wanted = loglikes("load")
    for form, step in {"whole": [], "step": ["--step"]}.items():
        assert main(["export", str(run), f"--onnx={file}", *step]) == 0
        found = loglikes(form, f"--onnx={file}")
        assert list(found) == list(wanted)
        for utt, expected in wanted.items():
            np.testing.assert_allclose(found[utt], expected, rtol=0, atol=BOUND)
