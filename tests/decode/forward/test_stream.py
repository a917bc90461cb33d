"""Utterances that arrive in chunks: the whole is the oracle."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import bayes_asr
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.data.features.front_end import append_context, cmvn_statistics
from bayes_asr.data.features.streaming import StreamingFrontEnd
from bayes_asr.decode.forward.stream import StreamingLogLikelihoods
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.nn.network import AcousticModel, States
from tests.house.test_promises import untrained_run
from tests.support.nn_units import UNITS, batch, logits, model, name
from tests.support.small_corpus import DIMENSIONS, write_corpus

FRAMES = 23
STREAMED = [u for u in UNITS if not u["options"].get("smooth")]
cuts = st.lists(st.integers(0, FRAMES), max_size=8).map(sorted)


def streamed(net: AcousticModel, chunks: Iterable[torch.Tensor]) -> torch.Tensor:
    """Logits of a sequence in chunks."""
    states: States = []
    found = []
    for chunk in chunks:
        hidden, states = net.advance({"features": chunk}, states)
        found.append(net.heads[0](hidden))
    return torch.cat(found)


@pytest.mark.parametrize("unit", STREAMED, ids=name)
@pytest.mark.parametrize(
    ("norm", "dtype", "bound"), [("batch", torch.float64, 1e-12), ("layer", torch.float32, 1e-5)]
)
@given(cuts=st.lists(st.integers(1, FRAMES - 1), unique=True, max_size=8).map(sorted))
@example(cuts=[11, 13])
@settings(max_examples=4)
def test_chunks_give_what_the_whole_gives(
    unit: dict[str, Any], norm: str, dtype: torch.dtype, bound: float, cuts: list[int]
) -> None:
    net = model(**unit, bidirectional=False, norm=norm, dropout=0.3, initial_state="trained")
    net = net.to(dtype).eval().requires_grad_(False)
    x = batch((FRAMES,))[0].to(dtype)
    (whole,) = logits(net, [x])
    assert not net.looks_ahead
    found = streamed(net, x.tensor_split(cuts))
    torch.testing.assert_close(found, whole, rtol=0, atol=bound)


@pytest.mark.parametrize(
    "options",
    [{"unit": "li-bru"}, {"unit": "ubru", "options": {"smooth": True}, "bidirectional": False}],
    ids=["bidirectional", "smoother"],
)
def test_what_reads_later_frames_looks_ahead(options: dict[str, Any]) -> None:
    assert model(**options).looks_ahead


@given(
    cuts=cuts,
    order=st.integers(0, 3),
    left=st.integers(0, 4),
    right=st.integers(0, 4),
    frames=st.integers(0, FRAMES),
)
def test_arriving_features_are_prepared_as_the_whole(
    cuts: list[int], order: int, left: int, right: int, frames: int
) -> None:
    whole = np.random.default_rng(1).standard_normal((frames, 2)).astype(np.float32)
    arriving = StreamingFrontEnd(order=order, left=left, right=right)
    for _ in range(2):  # the second utterance does not know of the first
        ready = []
        for count, part in zip([*cuts, frames], np.split(whole, cuts), strict=True):
            chunk = part.copy()
            ready += [*arriving.push(chunk)]
            chunk[:] = np.nan  # as who reads the next one into the same memory
            assert len(ready) == max(0, min(count, frames) - arriving.latency)
        ready += [*arriving.finish()]
        if frames:
            expected = append_context(whole, order=order, left=left, right=right)
            np.testing.assert_array_equal(ready, expected, strict=True)
        assert len(ready) == frames


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything on, that reads forwards only."""
    root = write_corpus(tmp_path_factory.mktemp("stream"))
    options = ["features.cmvn=mean-variance", "features.deltas=1", "features.left_context=3"]
    options += ["features.right_context=1", "model.bidirectional=false", f"data.dir={root}"]
    return untrained_run(root / "run", DIMENSIONS * 2 * 5, 6, *options, bidirectional=False)


def through(stream: StreamingLogLikelihoods, matrix: np.ndarray, cuts: list[int]) -> torch.Tensor:
    return torch.cat([*(stream(chunk) for chunk in np.split(matrix, cuts)), stream.finish()])


def test_streams_give_what_forward_gives(run: Path) -> None:
    network = bayes_asr.load(run)
    rng = np.random.default_rng(2)
    speakers = [rng.standard_normal((frames, DIMENSIONS)) for frames in (40, 30)]
    stats = [cmvn_statistics([x]) for x in speakers]
    streams = [network.stream(cmvn) for cmvn in stats]
    assert streams[0].latency == 2 + 1
    whole = [network(x, cmvn) for x, cmvn in zip(speakers, stats, strict=True)]
    found: list[list[torch.Tensor]] = [[], []]
    for start in range(0, 40, 7):  # two streams of one network in turn
        for stream, x, parts in zip(streams, speakers, found, strict=True):
            parts.append(stream(x[start : start + 7]))
    for stream, parts, expected in zip(streams, found, whole, strict=True):
        parts.append(stream.finish())
        torch.testing.assert_close(torch.cat(parts), expected, rtol=0, atol=1e-6)
    streams[0](speakers[1])
    streams[0].reset()
    for cuts in ([], [1, 1, 2, 39]):  # after a reset, and after an end
        again = through(streams[0], speakers[0], cuts)
        torch.testing.assert_close(again, whole[0], rtol=0, atol=1e-6)
    assert streams[0].finish().shape == (0, 6)
    with pytest.raises(ValueError, match=r"features are \[40, 2\], .* reads \[T, 5\]"):
        streams[0](speakers[0][:, :2])


def test_single_precision_streams_agree_to_its_own_rounding(run: Path) -> None:
    network = bayes_asr.load(run).float()
    x = np.random.default_rng(3).standard_normal((50, DIMENSIONS)).astype(np.float32)
    cmvn = cmvn_statistics([x])
    found = through(network.stream(cmvn), x, [10, 20])
    torch.testing.assert_close(found, network(x, cmvn), rtol=0, atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_shell_gives_the_same_in_chunks(run: Path, chunk: int, tmp_path: Path) -> None:
    outs = [tmp_path / "whole", tmp_path / "chunks"]
    for out, more in zip(outs, ([], [f"--chunk={chunk}"]), strict=True):
        assert main(["forward", str(run), "--on=dev", f"--out={out}", *more]) == 0
    whole, found = (dict(iter_matrices(out / "loglikes.scp")) for out in outs)
    assert list(found) == list(whole)
    for utt, expected in whole.items():
        np.testing.assert_allclose(found[utt], expected, rtol=0, atol=1e-6)


def test_networks_that_read_backwards_are_refused(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=r"model\.bidirectional: false"):
        bayes_asr.load(small_run).stream()
    assert main(["forward", str(small_run), "--on=dev", f"--out={tmp_path}", "--chunk=9"]) == 1
    assert "model.bidirectional: false" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]
