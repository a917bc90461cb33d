"""Outputs on a GPU: batches of utterances of similar length, read while the next are computed."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bayes_asr.cli import main
from bayes_asr.decode.forward import batches
from bayes_asr.decode.forward.batches import in_batches, in_windows
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods, load
from bayes_asr.kaldi_io.ark import iter_archive

FRAMES = 60
LENGTHS = (5, 40, 3, 40, 6, 41, 7, 2)


@pytest.fixture(scope="module")
def network(small_run: Path) -> LogLikelihoods:
    return load(small_run)


@pytest.fixture
def utterances(network: LogLikelihoods) -> list[tuple[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    (front_end,) = network.front_ends.values()
    size = front_end.stored_size
    return [(str(i), rng.standard_normal((n, size), "f")) for i, n in enumerate(LENGTHS)]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Gathers the lengths of each batch."""
    gathered: list[list[int]] = []
    compute = LogLikelihoods.compute_prepared

    def note(self: LogLikelihoods, matrices: Any) -> Any:
        gathered.append([len(matrix) for matrix in matrices])
        return compute(self, matrices)

    monkeypatch.setattr(LogLikelihoods, "compute_prepared", note)
    return gathered


@pytest.mark.parametrize("window", [1, 3, 8, 100])
def test_outputs_are_those_of_batches_in_the_same_order(
    network: LogLikelihoods,
    utterances: list[tuple[str, np.ndarray]],
    window: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "WINDOW", window)
    expected = list(in_batches(network, utterances, FRAMES))
    outputs = list(in_windows(network, utterances, FRAMES))
    assert [utt for utt, _ in outputs] == [utt for utt, _ in expected]
    for (_, output), (_, exact) in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output, exact, rtol=0, atol=1e-6)


def test_utterances_of_similar_length_are_computed_together(
    network: LogLikelihoods, utterances: list[tuple[str, np.ndarray]], computed: list[list[int]]
) -> None:
    list(in_windows(network, utterances, FRAMES))
    assert computed == [[41], [40], [40, 7, 6, 5], [3, 2]]


def test_a_window_has_the_frames_of_a_few_batches(
    network: LogLikelihoods,
    utterances: list[tuple[str, np.ndarray]],
    computed: list[list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "WINDOW_BATCHES", 2)
    assert [utt for utt, _ in in_windows(network, utterances, FRAMES)] == [*"01234567"]
    assert computed == [[40], [40, 6, 5, 3], [41, 7, 2]]


def test_a_window_is_computed_while_the_one_before_is_read(
    network: LogLikelihoods,
    utterances: list[tuple[str, np.ndarray]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "WINDOW", 1)
    second, compute = threading.Event(), LogLikelihoods.compute_prepared

    def note(self: LogLikelihoods, matrices: Any) -> Any:
        if len(matrices[0]) == LENGTHS[1]:
            second.set()
        return compute(self, matrices)

    monkeypatch.setattr(LogLikelihoods, "compute_prepared", note)
    outputs = in_windows(network, utterances, FRAMES)
    assert next(outputs)[0] == "0"
    assert second.wait(20)
    outputs.close()


def test_an_error_comes_behind_the_outputs_before_it(
    network: LogLikelihoods,
    utterances: list[tuple[str, np.ndarray]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: LogLikelihoods, matrices: Any) -> Any:
        if len(matrices[0]) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return compute(self, matrices)

    compute = LogLikelihoods.compute_prepared
    monkeypatch.setattr(batches, "WINDOW", 2)
    monkeypatch.setattr(LogLikelihoods, "compute_prepared", refuse)
    monkeypatch.setattr(batches, "BATCH_SEQUENCES", 1)
    outputs, names = in_windows(network, utterances, FRAMES), []
    with pytest.raises(MemoryError, match=r"for 1 utterance of 3 frames.*\(--device cpu\), or"):
        names.extend(utt for utt, _ in outputs)
    assert names == ["0", "1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device=cuda"], "finds no GPU here"),
        (["--device=cuda", "--chunk=3"], "goes without --onnx and --chunk"),
        (["--device=cuda", "--onnx=net.onnx"], "goes without --onnx and --chunk"),
    ],
)
def test_what_no_gpu_computes_is_refused(
    options: list[str],
    message: str,
    small_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["forward", str(small_run), "--on=test", f"--out={tmp_path}", *options]) != 0
    assert message in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.parametrize("size", [1, 5, 64])
def test_a_gpu_computes_what_the_cpu_does_in_any_batch(
    size: int, small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(device: str) -> dict[str, np.ndarray]:
        out = tmp_path / device
        words = ["forward", str(small_run), "--on=test", f"--out={out}", f"--device={device}"]
        assert main(words) == 0
        return dict(iter_archive(str(out / "loglikes.ark")))

    expected = forward("cpu")
    monkeypatch.setattr(batches, "BATCH_SEQUENCES", size)
    outputs = forward("cuda")
    assert [*outputs] == [*expected]
    for utt, exact in expected.items():
        np.testing.assert_allclose(outputs[utt], exact, rtol=0, atol=1e-5)
