"""Weights of pytorch-kaldi's layers as those of ours, with equal outputs in evaluation.

Gates stand in the order of our units. Where ours lets the gate take the candidate and theirs the
old state, z of one is 1 - z of the other: \\sigma(-a) = 1 - \\sigma(a), so all that makes a is
negated. Their directions are tied, and their candidates are scaled in evaluation: both are options
of our layer. A bias that the norm behind it takes away again goes into its running mean.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.pytorch_kaldi.architectures import LayerOptions
from bayes_asr.pytorch_kaldi.sections import parse_flag
from bayes_asr.pytorch_kaldi.stacks import Origin
from bayes_asr.pytorch_kaldi.weights import Weights

State = dict[str, Tensor]


@dataclass(frozen=True)
class Gate:
    """A gate of theirs: the names of its weights, and whether it is negated."""

    w: str
    u: str
    negated: bool = False

    def sign(self, tensor: Tensor) -> Tensor:
        """The tensor of our gate, negated where the gate of theirs is."""
        # sigmoid(-x) = 1 - sigmoid(x): a gate with the roles of its two inputs exchanged.
        return -tensor if self.negated else tensor


GATES: Mapping[str, tuple[Gate, ...]] = {
    "liGRU": (Gate("wz", "uz", negated=True), Gate("wh", "uh")),
    "GRU": (Gate("wz", "uz", negated=True), Gate("wr", "ur"), Gate("wh", "uh")),
    "minimalGRU": (Gate("wz", "uz"), Gate("wh", "uh")),
    "RNN": (Gate("wh", "uh"),),
    "LSTM": (Gate("wix", "uih"), Gate("wfx", "ufh"), Gate("wcx", "uch"), Gate("wox", "uoh")),
}
"""By class: the gates in the order of our unit."""
TORCH_GATES = {"LSTM_cudnn": 4, "GRU_cudnn": 3, "RNN_cudnn": 1}
"""By class of torch's modules, whose gates are in the order of our unit: how many these are."""
STATISTICS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
EPSILON = 1e-5  # of torch's batch norm


def convert(origin: Origin, weights: Weights) -> State:
    """The state of our layer or head for what it is of a network of theirs.

    InputError where tensors are missing or of other shapes than the configuration says, and for
    what ours has not: other norms of recurrent layers and heads than batch normalisation of the
    former, two norms of one layer.
    """
    reader = _Reader(origin, weights)
    if origin.part == "":
        return {}
    if isinstance(origin.part, str):
        return _convert_input_norm(reader, origin.part)
    layer = origin.network.layers[origin.part]
    if layer.layer_norm and layer.batch_norm:
        raise reader.refuse("has two norms, and a layer has one here")
    if origin.is_head:
        return _convert_head(reader, layer)
    kind = origin.network.kind
    if kind in GATES:
        return _convert_recurrent(reader, layer, GATES[kind])
    if kind in TORCH_GATES:
        return _convert_torch(reader, layer, TORCH_GATES[kind])
    if kind == "MLP":
        return _convert_mlp(reader, layer)
    if kind in ("CNN", "SincNet"):
        return _convert_maps(reader, layer)
    raise reader.refuse(f"is of class {kind}, whose weights are not read")


class _Reader:
    """Takes tensors of a layer, and compares their shapes with the configuration."""

    def __init__(self, origin: Origin, weights: Weights) -> None:
        self.origin, self.weights = origin, weights

    @property
    def _where(self) -> str:
        return f"[{self.origin.network.section.name}] {self.origin.network.name}"

    def refuse(self, why: str) -> InputError:
        """The error that a layer cannot be converted."""
        part = self.origin.part
        what = f"layer {part + 1}" if isinstance(part, int) else part
        return InputError(f"{self._where}: {what} {why}; train it here instead")

    def take(self, name: str, *shape: int) -> Tensor:
        """A tensor of the layer, of these sizes, of which -1 is any."""
        part = self.origin.part
        if isinstance(part, str):
            return self.compare(f"{part}.{name}", self.weights.take_input(f"{part}.{name}"), shape)
        return self.compare(f"{name} of layer {part + 1}", self.weights.take(part, name), shape)

    def compare(self, name: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The tensor of a name, if it has this shape."""
        fits = all(want in (-1, size) for want, size in zip(shape, tensor.shape, strict=False))
        if tensor.ndim != len(shape) or not fits:
            expected = ", ".join("any" if size < 0 else str(size) for size in shape)
            raise InputError(
                f"{self.weights.path}: {name} is {list(tensor.shape)}, but {self._where} says"
                f" [{expected}]"
            )
        return tensor.float()

    def take_batch_norm(self, prefix: str, units: int) -> State:
        """A batch norm, by the names of torch."""
        return {
            name: self.take(prefix + name, *([] if name.startswith("num") else [units]))
            for name in STATISTICS
        }


def _name(prefix: str, state: State) -> State:
    return {f"{prefix}.{name}": tensor for name, tensor in state.items()}


def _convert_input_norm(reader: _Reader, kind: str) -> State:
    if kind == "bn0":
        return _name("norm", reader.take_batch_norm("", -1))
    scale, shift = reader.take("gamma", -1), reader.take("beta", -1)
    return {"norm.weight": scale[None], "norm.bias": shift[None]}


def _convert_head(reader: _Reader, layer: LayerOptions) -> State:
    if layer.batch_norm or layer.layer_norm:
        raise reader.refuse("is a head with a norm, which heads have not here")
    weight = reader.take("wx.weight", *_outputs(layer), -1)
    return {"weight": weight, "bias": reader.take("wx.bias", len(weight))}


def _outputs(layer: LayerOptions) -> tuple[int]:
    """The number of outputs by the configuration; any for those that it counts in labels."""
    return (layer.units if isinstance(layer.units, int) else -1,)


def _convert_recurrent(reader: _Reader, layer: LayerOptions, gates: tuple[Gate, ...]) -> State:
    if layer.layer_norm:
        raise reader.refuse(
            "normalises its state by its units, and ours the input products: another model"
        )
    if reader.origin.network.kind == "LSTM" and layer.activation != "tanh":
        raise reader.refuse(f"has the activation {layer.activation}, and LSTM has tanh here")
    (units,) = _outputs(layer)

    def gather(name: str, *shape: int) -> Tensor:
        # Gates lie one below the other in one matrix, in the order of our unit.
        return torch.cat([gate.sign(reader.take(f"{gate.w}.{name}", *shape)) for gate in gates])

    state = {"W.weight": gather("weight", units, -1)}
    # Theirs multiplies U h, ours h V: the matrix is transposed.
    recurrent = [gate.sign(reader.take(f"{gate.u}.weight", units, units)).T for gate in gates]
    state["V"] = torch.cat(recurrent, 1).unsqueeze(0)
    if not layer.batch_norm:
        return {**state, "W.bias": gather("bias", units)}
    norms = [reader.take_batch_norm(f"bn_{gate.w}.", units) for gate in gates]
    for name in ("weight", "bias", "running_mean", "running_var"):
        # Of a batch norm, x -> -x negates mean and shift; scale and variance stay.
        negated = name in ("bias", "running_mean")
        parts = [
            gate.sign(norm[name]) if negated else norm[name]
            for gate, norm in zip(gates, norms, strict=True)
        ]
        state[f"norm.{name}"] = torch.cat(parts)
    return {**state, "norm.num_batches_tracked": norms[0]["num_batches_tracked"]}


def _convert_torch(reader: _Reader, layer: LayerOptions, gates: int) -> State:
    """Theirs has two biases, or none. That behind the recurrent product of the candidate of a GRU
    is multiplied by a gate; elsewhere their sum counts.
    """
    (units,) = _outputs(layer)
    network = reader.origin.network
    ends = ("", "_reverse") if network.bidirectional else ("",)

    def each(name: str, *shape: int) -> list[Tensor]:
        return [reader.take(name + end, gates * units, *shape) for end in ends]

    recurrent = [weight.T for weight in each("weight_hh", units)]
    state = {"W.weight": torch.cat(each("weight_ih", -1)), "V": torch.stack(recurrent)}
    biases = [torch.zeros(len(ends), gates * units)] * 2
    if parse_flag(network.section.take("bias")):
        biases = [torch.stack(each(f"bias_{kind}")) for kind in ("ih", "hh")]
    biases_in, behind = biases
    if network.kind == "GRU_cudnn":
        state["cell.recurrent_bias"] = behind[:, -units:]
        # The biases of the other gates are sums, so they go in front with the input's.
        behind = torch.cat((behind[:, :-units], torch.zeros(len(ends), units)), 1)
    return {**state, "W.bias": (biases_in + behind).flatten()}


def _convert_mlp(reader: _Reader, layer: LayerOptions) -> State:
    """Theirs has a bias in front of every norm. That of layers depends on it."""
    weight = reader.take("wx.weight", *_outputs(layer), -1)
    units = len(weight)
    state, bias = {"W.weight": weight}, reader.take("wx.bias", units)
    if layer.batch_norm:
        norm = reader.take_batch_norm("bn.", units)
        # A bias in front of batch norm only shifts its mean, so it is taken off there.
        norm["running_mean"] = norm["running_mean"] - bias
        return {**state, **_name("norm", norm)}
    if layer.layer_norm:
        scale, shift = reader.take("ln.gamma", units), reader.take("ln.beta", units)
        return {**state, "W.bias": bias, "norm.weight": scale[None], "norm.bias": shift[None]}
    return {**state, "W.bias": bias}


def _convert_maps(reader: _Reader, layer: LayerOptions) -> State:
    """A convolution, whose bias is one of all frequencies of a channel.

    Theirs gives batch norm the number of frequencies in place of torch's epsilon.
    """
    (channels,) = _outputs(layer)
    if reader.origin.network.kind == "SincNet" and reader.origin.part == 0:
        low, band = (reader.take(f"conv.{name}_hz_", channels, 1) for name in ("low", "band"))
        state, bias = {"low": low[:, 0], "band": band[:, 0]}, torch.zeros(channels)
    else:
        weight = reader.take("conv.weight", channels, -1, layer.kernel)
        # The kernel has a height of one: [channels, inputs, 1, width].
        state, bias = {"convolution.weight": weight[:, :, None]}, reader.take("conv.bias", channels)
        if not layer.batch_norm and not layer.layer_norm:
            return {**state, "convolution.bias": bias}
    scale, shift = (reader.take(f"ln.{name}", channels, -1) for name in ("gamma", "beta"))
    if layer.batch_norm:
        norm = reader.take_batch_norm("bn.", channels)
        norm["running_mean"] = norm["running_mean"] - bias
        # var' + EPSILON = var + frequencies, so the square root under the norm is theirs.
        norm["running_var"] = norm["running_var"] + (scale.shape[1] - EPSILON)
        return {**state, **_name("maps.norm", norm)}
    if layer.layer_norm:
        return {**state, "maps.norm.weight": scale, "maps.norm.bias": shift}
    return state
