"""Feed-forward networks without the parameters of their activations (Zhang & Woodland 2015)."""

import torch
from torch import Tensor, nn

from bayes_asr.base.errors import InputError
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.norm import BatchNorm, SharedBatchNorm
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.nn.units.activations import FIXED, PReLU, PSigmoid
from bayes_asr.nn.units.conventional import MLP


@torch.no_grad()
def fold(model: AcousticModel) -> AcousticModel:
    """Return a plain network that in evaluation equals `model`.

    gamma and theta, and the statistics of batch normalisation, go into the weights before an
    activation; eta and alpha, and the scaling of dropout, into those after it. InputError where
    that is impossible: layers that are not `mlp`, layer normalisation, p-relu with a beta.
    """
    layers = [layer for layer in model.layers if isinstance(layer, RecurrentLayer)]
    pairs = zip(
        model.nodes[1:], model.names, strict=False
    )  # each layer but the first, and its input
    stacked = all(node.reads == (name,) for node, name in pairs)
    residual = any(node.residual for node in model.nodes)
    kinds = {described["kind"] for described in model.architecture["layers"]}
    model.check_frames_labelled()
    if kinds != {"recurrent"} or not stacked or residual or model.has_lower_heads:
        raise InputError("only networks of unit mlp, one layer on the other, can be folded")
    heads = [head for head in model.heads if isinstance(head, nn.Linear)]
    plain_layers = [
        {
            **described,
            "options": {"activation": _plain_activation(layer)},
            "norm": "none",
            "dropout": 0.0,
            "input_dropout": 0.0,
            "initial_state": "fixed",
        }
        for described, layer in zip(model.architecture["layers"], layers, strict=True)
    ]
    # A layer computes eta f(gamma (W x + b) - theta): gamma and theta go into its own W and b, eta
    # and the scale of dropout into the W of the layer above, as `gain` of its columns.
    weights: dict[str, Tensor] = {}
    gain = torch.ones_like(layers[0].W.weight[0])
    for i, layer in enumerate(layers):
        weight, bias = _affine(layer)
        gamma, theta, eta = _scales(layer)
        weights[f"layers.{i}.W.weight"] = gamma[:, None] * weight * gain
        weights[f"layers.{i}.W.bias"] = gamma * bias - theta
        gain = eta if layer.inverted else eta * (1 - layer.dropout)
    for i, head in enumerate(heads):
        weights[f"heads.{i}.weight"], weights[f"heads.{i}.bias"] = head.weight * gain, head.bias
    plain = AcousticModel(**{**model.architecture, "layers": plain_layers}).to(gain)
    plain.load_state_dict(weights)
    return plain


def _plain_activation(layer: RecurrentLayer) -> str:
    """The name of the activation without its parameters."""
    if not isinstance(layer.cell, MLP):
        raise InputError("only networks of unit mlp can be folded")
    activation = layer.cell.activation
    if isinstance(activation, PSigmoid):
        return "sigmoid"
    if isinstance(activation, PReLU):
        if isinstance(activation.beta, Tensor):
            raise InputError("p-relu with a trained beta has no plain network that equals it")
        return "relu"
    return next(name for name, fixed in FIXED.items() if fixed is activation)


def _affine(layer: RecurrentLayer) -> tuple[Tensor, Tensor]:
    """Weights [H, F] and bias [H] of the pre-activations, normalisation included."""
    weight, norm, sign = layer.W.weight, layer.norm, 1
    if isinstance(norm, SharedBatchNorm):
        sign = -1 if norm.opposed else 1
        norm = norm.norm
    if isinstance(norm, BatchNorm):
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        bias = norm.bias - scale * norm.running_mean
        return sign * scale[:, None] * weight, sign * bias
    if layer.W.bias is None:
        raise InputError("layer normalisation depends on the input: it cannot be folded")
    return weight, layer.W.bias


def _scales(layer: RecurrentLayer) -> tuple[Tensor, Tensor, Tensor]:
    """gamma and theta inside the activation, and the factor of its value, each [H]."""
    activation = layer.cell.activation
    ones = layer.W.weight.new_ones(layer.units)
    if isinstance(activation, PSigmoid):
        values = (activation.gamma, activation.theta, activation.eta)
        gamma, theta, eta = ((ones * value).view(-1) for value in values)
        return gamma, theta, eta
    if isinstance(activation, PReLU):
        return ones, 0 * ones, (ones * activation.alpha).view(-1)
    return ones, 0 * ones, ones
