"""The compiled loss is torch's in double precision, and counts its errors."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from torch.nn import functional

from bayes_asr.nn.criteria import Loss, cross_entropy
from bayes_asr.nn.kernels.cpu import library
from bayes_asr.nn.kernels.cpu.cross_entropy import cross_entropy as compiled_cross_entropy

PATHS = list(library.paths())
every_path = pytest.mark.parametrize("path", ["torch", *PATHS])
every_type = pytest.mark.parametrize("dtype", library.STORAGES)


def outputs_and_labels(rows: int, outputs: int, spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows * outputs)
    return spread * torch.randn(rows, outputs), torch.randint(outputs, (rows,))


def with_gradient(
    logits: torch.Tensor, labels: torch.Tensor, frames: float
) -> tuple[Loss, torch.Tensor]:
    x = logits.detach().requires_grad_()
    loss = cross_entropy(x, labels, frames)
    (gradient,) = torch.autograd.grad(loss.mean, x)
    return loss, gradient


@every_path
@every_type
@pytest.mark.parametrize("spread", [0.1, 5.0, 200.0])
@pytest.mark.parametrize("shape", [(1, 1), (7, 2), (30, 16), (5, 33), (64, 1948)])
def test_losses_and_gradients_are_those_of_double_precision(
    shape: tuple[int, int],
    spread: float,
    dtype: torch.dtype,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    logits, labels = outputs_and_labels(*shape, spread)
    logits = logits.to(dtype)
    loss, gradient = with_gradient(logits, labels, 20.0)
    x = logits.double().requires_grad_()
    exact = functional.cross_entropy(x, labels, reduction="sum") / 20
    (wanted,) = torch.autograd.grad(exact, x)
    assert loss.mean.dtype == torch.float32
    assert loss.mean.item() == pytest.approx(exact.item(), rel=1e-6, abs=1e-7)
    assert loss.errors.item() == (logits.float().argmax(1) != labels).sum().item()
    assert gradient.dtype == dtype
    rounding = 2**-8 if dtype == torch.bfloat16 else 1e-5
    assert ((gradient - wanted).abs() <= rounding * wanted.abs() + 2e-7 / 20).all()


small = st.integers(-2, 2).map(float)


@pytest.mark.slow
@settings(max_examples=100)
@example(np.zeros((1, 3), "float32"), 1)
@given(
    st.tuples(st.integers(1, 6), st.integers(1, 40)).flatmap(
        lambda shape: arrays("float32", shape, elements=small)
    ),
    st.integers(0, 39),
)
def test_first_of_equal_outputs_counts(found: NDArray[Any], label: int) -> None:
    logits = torch.from_numpy(found)
    labels = torch.full((len(found),), label % found.shape[1])
    wrong = torch.from_numpy(found.argmax(1)) != labels
    for path in PATHS:
        for dtype in library.STORAGES:
            _, found_wrong, _ = compiled_cross_entropy(
                path, logits.to(dtype), labels, 1.0, with_gradient=False
            )
            assert torch.equal(found_wrong, wrong)


@every_path
@every_type
def test_weights_of_heads_reach_the_gradient(
    path: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    logits, labels = outputs_and_labels(60, 500, 1.0)
    _, gradient = with_gradient(logits.to(dtype), labels, 6.0)
    x = logits.to(dtype).requires_grad_()
    (0.3 * cross_entropy(x, labels, 6.0).mean).backward()
    assert x.grad is not None
    assert x.grad.dtype == dtype
    ratios = x.grad.double() / gradient.double()
    assert ratios.mean().item() == pytest.approx(0.3, rel=3e-4)  # 0.3 itself is 0.2 % off


@every_path
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_makes_the_loss_not_finite(
    path: str, bad: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    logits, labels = outputs_and_labels(6, 40, 1.0)
    logits[2, 37] = bad
    assert not cross_entropy(logits, labels, 6.0).mean.isfinite()


@every_path
def test_an_impossible_output_costs_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    logits, labels = outputs_and_labels(6, 40, 1.0)
    more = functional.pad(logits, (0, 3), value=-math.inf)
    assert torch.allclose(
        cross_entropy(more, labels, 6.0).mean, cross_entropy(logits, labels, 6.0).mean, rtol=1e-6
    )


@every_path
def test_a_batch_without_frames(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    loss, gradient = with_gradient(torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64), 3.0)
    assert (loss.mean.item(), loss.errors.item(), gradient.shape) == (0, 0, (0, 5))


@every_path
@pytest.mark.parametrize("label", [-1, 5, -100])
def test_labels_without_output_are_refused(
    label: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    with pytest.raises(ValueError, match=rf"labels are from .*{label}.*; there are 5 outputs"):
        cross_entropy(torch.zeros(2, 5), torch.tensor([0, label]), 2.0)


def test_double_precision_stays_so() -> None:
    logits, labels = outputs_and_labels(9, 30, 1.0)
    exact = functional.cross_entropy(logits.double(), labels, reduction="sum") / 9
    assert torch.equal(cross_entropy(logits.double(), labels, 9.0).mean, exact)


def test_outputs_far_below_the_largest_have_no_gradient() -> None:
    _, gradient = with_gradient(torch.tensor([[300.0, 0.0, 5.0]]), torch.tensor([2]), 1.0)
    assert gradient.tolist() == [[1.0, 0.0, -1.0]]


@pytest.mark.skipif(not PATHS, reason="no compiled loss: install with a C++ compiler")
@every_type
def test_number_of_threads_changes_no_digit(
    dtype: torch.dtype, set_threads: Callable[[int], None]
) -> None:
    logits, labels = outputs_and_labels(50, 900, 3.0)
    found = []
    for threads in (1, 2, 5):
        set_threads(threads)
        loss, gradient = with_gradient(logits.to(dtype), labels, 50.0)
        found.append((loss.mean, gradient))
    assert all(torch.equal(a, b) for one in found[1:] for a, b in zip(found[0], one, strict=True))
