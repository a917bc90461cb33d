"""Initial weights of layers and heads, as torch and pytorch-kaldi draw them."""

import math

import torch
from torch import Tensor, nn

SPREAD = 0.01  # of weights of pytorch-kaldi's MLP: where Glorot has 6


def draw_mlp(linear: nn.Linear) -> None:
    r"""Draw as pytorch-kaldi's MLP: uniform within \sqrt{0.01 / (inputs + outputs)}, biases 0."""
    _draw_within(math.sqrt(SPREAD / (linear.in_features + linear.out_features)), linear.weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def draw_by_units(W: nn.Linear, V_SHX: Tensor | None, units: int) -> None:
    r"""Draw as torch.nn.RNN, all weights and biases: uniform within 1 / \sqrt{units}."""
    _draw_within(1 / math.sqrt(units), W.weight, W.bias, V_SHX)


def draw_as_pytorch_kaldi(unit: str, W: nn.Linear, V_SHX: Tensor | None, units: int) -> None:
    """Draw as the class of pytorch-kaldi with this unit: MLP, LSTM_cudnn or GRU_cudnn.

    Its other classes begin as `uniform`: W and V stay as they are.
    """
    if unit == "mlp":
        draw_mlp(W)
    if unit not in ("torch-lstm", "torch-gru") or V_SHX is None:
        return
    draw_by_units(W, None, units)
    if W.bias is not None:
        nn.init.zeros_(W.bias)
    # Each direction has one matrix for all gates, whose columns are orthogonal: theirs is V^T.
    for direction, W_XF in zip(V_SHX.data, W.weight.data.chunk(len(V_SHX)), strict=True):
        direction.copy_(nn.init.orthogonal_(torch.empty_like(direction.T)).T)
        if unit == "torch-gru":
            nn.init.xavier_uniform_(W_XF)


def _draw_within(bound: float, *tensors: Tensor | None) -> None:
    for tensor in tensors:
        if tensor is not None:
            nn.init.uniform_(tensor, -bound, bound)
