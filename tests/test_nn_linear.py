"""Products by oneDNN are those of a computation in double precision."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from bayes_asr.nn.linear import HAS_ONEDNN, Linear

pytestmark = pytest.mark.skipif(not HAS_ONEDNN, reason="this torch has no oneDNN")


def with_gradients(layer: nn.Linear, x_NF: Tensor, grad_NX: Tensor) -> list[Tensor | None]:
    x = x_NF.detach().requires_grad_()
    y = layer(x)
    y.backward(grad_NX)
    return [y, x.grad, *(p.grad for p in layer.parameters())]


def by_columns(x: Tensor) -> Tensor:
    return x.T.contiguous().T


def every_other(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, 1)[:, ::2]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("stored", [torch.clone, by_columns, every_other])
@pytest.mark.parametrize("sizes", [(300, 1100, 550), (300, 320, 330), (257, 256, 511)])
def test_products_and_gradients_are_those_of_double_precision(
    sizes: tuple[int, int, int], stored: Callable[[Tensor], Tensor], bias: bool
) -> None:
    torch.manual_seed(1)
    frames, inputs, outputs = sizes
    ours = Linear(inputs, outputs, bias=bias)
    double = nn.Linear(inputs, outputs, bias=bias).double()
    double.load_state_dict(ours.state_dict())
    x, grad = torch.randn(frames, inputs), torch.randn(frames, outputs)
    found = with_gradients(ours, stored(x), stored(grad))
    assert type(ours(x).grad_fn).__name__ == "_ProductBackward"
    assert ours(stored(x)).is_contiguous()
    for mine, exact in zip(found, with_gradients(double, x.double(), grad.double()), strict=True):
        assert mine is not None
        assert exact is not None
        assert (mine - exact).abs().max() < 1e-5 * exact.abs().max()


@pytest.mark.parametrize("sizes", [(300, 40, 1100), (10, 1100, 1100), (300, 1100, 48)])
def test_small_products_are_left_to_torch(sizes: tuple[int, int, int]) -> None:
    frames, inputs, outputs = sizes
    y = Linear(inputs, outputs)(torch.randn(frames, inputs))
    assert type(y.grad_fn).__name__ == "AddmmBackward0"


def test_gradients_stop_where_none_are_wanted() -> None:
    frozen = Linear(300, 300).requires_grad_(False)
    x = torch.randn(300, 300, requires_grad=True)
    frozen(x).sum().backward()
    assert x.grad is not None
    assert [p.grad for p in frozen.parameters()] == [None, None]
