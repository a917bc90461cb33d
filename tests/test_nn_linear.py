"""Products with padded rows are those of torch.nn.Linear."""

import pytest
import torch
from torch import nn

from bayes_asr.nn.linear import LINE, Linear, padded


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("frames", "inputs", "outputs"), [(300, 1100, 550), (300, 320, 330)])
def test_products_and_gradients_are_torchs(
    frames: int, inputs: int, outputs: int, bias: bool
) -> None:
    torch.manual_seed(1)
    ours = Linear(inputs, outputs, bias=bias)
    torchs = nn.Linear(inputs, outputs, bias=bias)
    torchs.load_state_dict(ours.state_dict())
    x, grad = torch.randn(frames, inputs), torch.randn(frames, outputs)
    found = []
    for layer in (ours, torchs):
        x_NF = x.clone().requires_grad_()
        y = layer(x_NF)
        y.backward(grad)
        found.append([y, x_NF.grad, *(p.grad for p in layer.parameters())])
    assert "PaddedProduct" in _graph_of(ours(x))
    for mine, theirs in zip(*found, strict=True):
        assert mine.is_contiguous()
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-4)


def _graph_of(y: torch.Tensor) -> str:
    node = y.grad_fn
    assert node is not None
    return " ".join(n.name() for n in [node, *(n for n, _ in node.next_functions if n)])


@pytest.mark.parametrize(
    ("frames", "inputs", "outputs"), [(300, 512, 512), (300, 40, 1100), (10, 1100, 1100)]
)
def test_what_gains_nothing_is_left_to_torch(frames: int, inputs: int, outputs: int) -> None:
    y = Linear(inputs, outputs, bias=False)(torch.randn(frames, inputs))
    assert "PaddedProduct" not in _graph_of(y)


@pytest.mark.parametrize("columns", [1, LINE, LINE + 1, 1100])
def test_padded_rows_start_at_whole_lines(columns: int) -> None:
    matrix = torch.randn(7, columns)
    wide = padded(matrix)
    assert torch.equal(wide, matrix)
    assert wide.stride(0) % LINE == 0
