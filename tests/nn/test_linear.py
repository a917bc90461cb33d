"""Layers over many frames are those of a computation in double precision."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from bayes_asr.nn import linear
from bayes_asr.nn.kernels.cpu import library
from bayes_asr.nn.linear import HAS_ONEDNN, Linear, has_product, product

every_path = pytest.mark.parametrize("path", ["torch", *library.paths()])


def with_gradients(layer: nn.Linear, x_NF: Tensor, grad_NX: Tensor) -> list[Tensor | None]:
    x = x_NF.detach().requires_grad_()
    y = layer(x)
    y.backward(grad_NX)
    return [y, x.grad, *(p.grad for p in layer.parameters())]


def by_columns(x: Tensor) -> Tensor:
    return x.T.contiguous().T


def every_other(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, 1)[:, ::2]


@every_path
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("stored", [torch.clone, by_columns, every_other])
@pytest.mark.parametrize("sizes", [(300, 1100, 550), (300, 320, 330), (257, 256, 511)])
def test_products_and_gradients_are_those_of_double_precision(
    sizes: tuple[int, int, int],
    stored: Callable[[Tensor], Tensor],
    bias: bool,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    if not (HAS_ONEDNN or has_product(torch.float32)):
        pytest.skip("this torch has no oneDNN")
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


@pytest.mark.parametrize("path", linear.PRODUCTS[torch.bfloat16])
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(301, 1100, 550), (257, 255, 511)])
def test_gradients_of_weights_are_not_rounded_to_bfloat16(
    sizes: tuple[int, int, int], given: torch.dtype, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path not in library.paths():
        pytest.skip(f"this machine and installation have no {path}")
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    torch.manual_seed(1)
    frames, inputs, outputs = sizes
    ours = Linear(inputs, outputs)
    x = torch.randn(frames, inputs).to(given)
    grad = torch.randn(frames, outputs).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        y, by_x, *found = with_gradients(ours, x, grad)
    assert y is not None
    assert by_x is not None
    assert (y.dtype, by_x.dtype) == (torch.bfloat16, given)
    rounded = nn.Linear(inputs, outputs).double()
    rounded.load_state_dict(ours.state_dict())
    rounded.weight.data = ours.weight.detach().bfloat16().double()
    exact = with_gradients(rounded, x.bfloat16().double(), grad.double())
    bounds = (2**-8, 2**-8, 1e-6, 1e-6)
    for mine, wanted, bound in zip((y, by_x, *found), exact, bounds, strict=True):
        assert mine is not None
        assert wanted is not None
        assert (mine - wanted).abs().max() < bound * wanted.abs().max()


@every_path
@pytest.mark.parametrize("dtype", library.STORAGES)
def test_compiled_products_are_taken_where_they_are_fast(
    path: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    taken, multiply = [], linear.multiply
    monkeypatch.setattr(linear, "multiply", lambda *a: taken.append(a[0]) or multiply(*a))
    layer, x = Linear(300, 300), torch.randn(300, 300, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        layer(x).sum().backward()
    fast = {
        torch.float32: ["avx2", "avx512", "avx512_bf16", "amx_bf16"],
        torch.bfloat16: ["avx512_bf16", "amx_bf16"],
    }
    assert taken == [path] * (3 if path in fast[dtype] else 0)


@every_path
@pytest.mark.parametrize("frames", [10, 300])
def test_half_precision_by_autocast_is_left_to_torch(
    frames: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    with torch.autocast("cpu", torch.float16):
        y = Linear(300, 300)(torch.randn(frames, 300))
    assert y.dtype == torch.float16


def test_other_devices_are_left_to_torch() -> None:
    y = Linear(300, 300, device="meta")(torch.empty(300, 300, device="meta"))
    assert (y.device.type, y.shape) == ("meta", (300, 300))


def test_more_dimensions_are_left_to_torch() -> None:
    assert Linear(300, 300)(torch.randn(2, 300, 300)).shape == (2, 300, 300)


@pytest.mark.parametrize("dtype", library.STORAGES)
@pytest.mark.parametrize("frames", [3, 300])
def test_products_have_the_type_that_is_asked_for(frames: int, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    a, b, bias = torch.randn(frames, 300).to(dtype), torch.randn(300, 300), torch.randn(300)
    exact = a.double() @ b.double() + bias
    for wanted in (None, torch.float32):
        y = product(a, b, bias, wanted)
        assert y.dtype == (wanted or dtype)
        assert (y - exact).abs().max() < (1e-4 if dtype == torch.float32 else 1.0)


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
