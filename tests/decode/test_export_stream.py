"""The example of docs/deployment.md: a sound through ONNX Runtime and the embedded decoder."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bayes_asr
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.data.sound.audio import resample
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.decode.export import OLDEST_TORCH
from bayes_asr.decode.search.graph_dir import load_decoding_graph
from bayes_asr.decode.search.utterance import choose_engine, decode_utterance
from bayes_asr.kaldi_io.symbols import read_symbols
from tests.support.places import CONF, ROOT
from tests.support.sounds import riff
from tests.support.tones import RATE, TINY, command, speak

pytest.importorskip("torch", OLDEST_TORCH)
for needed in ("kaldi_native_fbank", "kaldifst", "onnxruntime", "onnxscript"):
    pytest.importorskip(needed)
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_onnx")]
CAUSAL = {"features.cmvn": "none", "model.bidirectional": "false", "features.deltas": 1}


@pytest.fixture(scope="module")
def stepped(run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run that reads forwards only, and its network step by step."""
    folder = tmp_path_factory.mktemp("stream")
    forwards, step = folder / "run", folder / "step.onnx"
    chosen = [f"--set={key}={value}" for key, value in {**TINY, **CAUSAL}.items()]
    given = ("train", CONF / "base.yaml", *chosen, f"--set=data.dir={run.parent}")
    command(*given, "--out", forwards)
    command("export", forwards, "--onnx", step, "--step")
    return forwards, step


@pytest.mark.parametrize("rate", [RATE, 44100])
def test_example_hears_what_the_whole_utterance_says(
    rate: int, run: Path, stepped: tuple[Path, Path], tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(\"\"\".*?)^```", page, flags=re.M | re.S)
    assert example.count("\n") <= 50
    (tmp_path / "stream.py").write_text(example)
    spoken = speak(["six", "one", "two", "two"], np.random.default_rng(99))
    sound, (forwards, step) = tmp_path / "sound.wav", stepped
    said = spoken.samples if rate == RATE else resample(spoken.samples[:, 0], RATE, rate)[:, None]
    sound.write_bytes(riff(said.round(), rate))
    graph, model = run.parent / "exp/graph", run.parent / "exp/ali/final.mdl"
    done = subprocess.run(
        [sys.executable, tmp_path / "stream.py", step, graph, model, "4", sound],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    network = bayes_asr.load(forwards)
    features = Analysis("fbank", bands=24)(spoken.samples[:, 0])
    loglikes = network(features).numpy()
    given = (SearchOptions(acoustic_scale=0.25, allow_partial=True), choose_engine())
    whole = decode_utterance(load_decoding_graph(graph, model), "whole", loglikes, *given)
    names = {number: word for word, number in read_symbols(graph / "words.txt").items()}
    assert whole.words
    assert done.stdout.split() == [names[word] for word in whole.words]
    assert done.stdout.split() == ["six", "one", "two", "two"]
