"""Weights of pytorch-kaldi's layers as those of ours, with equal outputs in evaluation.

Gates stand in the order of our units. Where ours lets the gate take the candidate and theirs the
old state, z of one is 1 - z of the other: \\sigma(-a) = 1 - \\sigma(a), so all that makes a is
negated. Their directions are tied, and their candidates are scaled in evaluation: both are options
of our layer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bayes_asr.catalogue import ACTIVATIONS, UNITS
from bayes_asr.errors import InputError
from bayes_asr.pytorch_kaldi.experiment import Architecture, Layer
from bayes_asr.pytorch_kaldi.weights import Weights


@dataclass(frozen=True)
class Gate:
    """A gate of theirs: the names of its weights, and whether it is negated."""

    w: str
    u: str
    negated: bool = False


GATES: Mapping[str, tuple[Gate, ...]] = {
    "liGRU": (Gate("wz", "uz", negated=True), Gate("wh", "uh")),
    "GRU": (Gate("wz", "uz", negated=True), Gate("wr", "ur"), Gate("wh", "uh")),
    "minimalGRU": (Gate("wz", "uz"), Gate("wh", "uh")),
    "RNN": (Gate("wh", "uh"),),
    "LSTM": (Gate("wix", "uih"), Gate("wfx", "ufh"), Gate("wcx", "uch"), Gate("wox", "uoh")),
    "MLP": (Gate("wx", ""),),
}
"""By class: the gates in the order of our unit."""

OUR_UNITS = {
    "liGRU": "li-gru",
    "GRU": "gru",
    "minimalGRU": "minimal-gru",
    "RNN": "rnn",
    "LSTM": "lstm",
    "MLP": "mlp",
}


def describe_layer(network: Architecture, layer: Layer) -> dict[str, Any]:
    """The options of our recurrent layer that computes a layer of theirs.

    InputError for what ours has not: another activation, layer normalisation of their form.
    """
    unit = OUR_UNITS[network.kind]
    if layer.layer_norm:
        raise InputError(
            f"[{network.section}] {network.name}: layer normalisation of theirs divides by another"
            " deviation, of the state and not of the input products; ours is another model"
        )
    activation = layer.activation
    known = UNITS[unit].activations or ("tanh",)
    if activation not in known or activation not in ACTIVATIONS:
        raise InputError(
            f"[{network.section}] {network.name}: activation {activation}; {unit} has"
            f" {', '.join(known)}"
        )
    dropout = layer.dropout[-1][0]
    return {
        "kind": "recurrent",
        "unit": unit,
        "units": layer.units,
        "options": {"activation": activation} if UNITS[unit].activations else {},
        "bidirectional": network.bidirectional,
        "tied_directions": True,
        "norm": "batch" if layer.batch_norm else "none",
        "dropout": dropout,
        "dropout_scaling": "inverted" if network.kind == "MLP" else "pytorch-kaldi",
        "input_dropout": 0.0,
        "initial_state": "fixed",
        "hand_on": "log",
        "input_init": "uniform",
    }


def convert_layer(network: Architecture, weights: Weights, number: int) -> dict[str, Tensor]:
    """The state of our layer (`describe_layer`) for the layer `number` of theirs, from 0.

    InputError where tensors are missing or of other shapes than the configuration says.
    """
    layer, gates = network.layers[number], GATES[network.kind]
    units = int(layer.units)

    def take(name: str, *shape: int) -> Tensor:
        found = weights.take(number, name)
        fits = all(want in (-1, size) for want, size in zip(shape, found.shape, strict=False))
        if found.ndim != len(shape) or not fits:
            wanted = ", ".join("any" if size < 0 else str(size) for size in shape)
            raise InputError(
                f"{weights.path}: {name} of layer {number + 1} is {list(found.shape)}, but"
                f" [{network.section}] {network.name} says [{wanted}]"
            )
        return found.float()

    def apply_sign(gate: Gate, tensor: Tensor) -> Tensor:
        return -tensor if gate.negated else tensor

    state = {
        "W.weight": torch.cat([apply_sign(g, take(f"{g.w}.weight", units, -1)) for g in gates])
    }
    if all(gate.u for gate in gates):
        recurrent = [apply_sign(g, take(f"{g.u}.weight", units, units)).T for g in gates]
        state["V"] = torch.cat(recurrent, 1).unsqueeze(0)
    if not layer.batch_norm:
        state["W.bias"] = torch.cat([apply_sign(g, take(f"{g.w}.bias", units)) for g in gates])
        return state
    norms = ["bn" if network.kind == "MLP" else f"bn_{gate.w}" for gate in gates]
    for name in ("weight", "bias", "running_mean", "running_var"):
        parts = [take(f"{norm}.{name}", units) for norm in norms]
        if name in ("bias", "running_mean"):
            parts = [apply_sign(gate, part) for gate, part in zip(gates, parts, strict=True)]
        state[f"norm.{name}"] = torch.cat(parts)
    if network.kind == "MLP":  # theirs adds a bias that the norm takes away again
        state["norm.running_mean"] = state["norm.running_mean"] - take("wx.bias", units)
    state["norm.num_batches_tracked"] = weights.take(number, f"{norms[0]}.num_batches_tracked")
    return state
