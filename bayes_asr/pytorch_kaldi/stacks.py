"""From the operations of `[model]` to our `model.stack` and heads."""

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bayes_asr.config.catalogue import UNITS
from bayes_asr.pytorch_kaldi.architectures import (
    CUDNN,
    PREFIXES,
    RECURRENT,
    Architecture,
    LayerOptions,
    by_epoch,
)
from bayes_asr.pytorch_kaldi.experiment import Experiment
from bayes_asr.pytorch_kaldi.notes import Notes
from bayes_asr.pytorch_kaldi.operations import Operation
from bayes_asr.pytorch_kaldi.sections import parse_flag, parse_whole

ACTIVATIONS = {
    "relu": "relu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "leaky_relu": "leaky-relu",
    "elu": "elu",
    "linear": "linear",
    "softmax": "log-softmax",
}
OUR_UNITS = {
    "liGRU": "li-gru",
    "GRU": "gru",
    "minimalGRU": "minimal-gru",
    "RNN": "rnn",
    "LSTM": "lstm",
}
OF_LAYERS = ("name", "kind", "reads", "join")  # each has its own
CUDNN_UNITS = {"LSTM_cudnn": "torch-lstm", "GRU_cudnn": "torch-gru", "RNN_cudnn": "rnn"}


@dataclass(frozen=True)
class Source:
    """The inputs of a layer: names of streams and layers, and how they are joined."""

    reads: tuple[str, ...]
    join: str = "concat"


@dataclass(frozen=True)
class Origin:
    """The part of a network of theirs that a layer or head of ours comes from.

    part: the number of the layer, from 0; `ln0` or `bn0`, a norm of the input; "": nothing that
    has weights.
    """

    network: Architecture
    part: int | str
    is_head: bool = False


@dataclass
class Stack:
    """The layers and heads of a network of ours.

    layers: of `model.stack`; heads: the layer that the head of a label reads; origins: of each
    layer by its name, and of each head by the label.
    """

    layers: list[dict[str, Any]] = field(default_factory=list)
    heads: dict[str, str] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)

    def leave_out(self, labels: Collection[str]) -> None:
        """Leave out the heads of labels, and the layers that no other head needs."""
        self.heads = {label: layer for label, layer in self.heads.items() if label not in labels}
        needed = {*self.heads, *self.heads.values()}
        for layer in reversed(self.layers):
            if layer["name"] in needed:
                needed.update(layer["reads"])
        self.layers = [layer for layer in self.layers if layer["name"] in needed]
        self.origins = {name: origin for name, origin in self.origins.items() if name in needed}

    def list_parts(self, network: Architecture) -> list[str]:
        """The layers and labels that a network of theirs has become."""
        return [name for name, origin in self.origins.items() if origin.network is network]


def share_options(layers: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Take the options that all recurrent layers have alike out of them, for the model.

    Another unit on top of the configuration, as of conf/units, is that of all layers then. Nothing
    where they have several units.
    """
    recurrent = [layer for layer in layers if layer["kind"] == "recurrent"]
    if len({layer["unit"] for layer in recurrent}) != 1:
        return {}
    alike = {
        key: value
        for key, value in recurrent[0].items()
        if key not in OF_LAYERS and all(layer.get(key) == value for layer in recurrent)
    }
    for layer, key in itertools.product(recurrent, alike):
        del layer[key]
    # A default is left to the unit, as that on top may have another.
    if "activation" in alike and alike["activation"] == UNITS[alike["unit"]].activations[0]:
        alike["activation"] = None
    return alike


def build_stack(
    experiment: Experiment, streams: Mapping[str, str], notes: Notes, *, like_theirs: bool
) -> Stack | None:
    """The stack of an experiment; None, with a note, where ours has no such layers.

    streams: our names of their streams; like_theirs: first weights as theirs draws them.
    """
    builder = _Builder(experiment, streams, notes, like_theirs)
    # Operations stand in the order of computation, so what one reads is known before it.
    for operation in experiment.operations:
        builder.take(operation)
    return None if builder.failed else builder.stack


def list_costs(experiment: Experiment, notes: Notes) -> dict[tuple[str, str], float]:
    """The weight of each cost_nll, by (value, label), in loss_final; others are said."""
    by_result = {step.result: step for step in experiment.operations}

    def weigh(name: str, weight: float) -> dict[tuple[str, str], float]:
        operation = by_result.get(name)
        if operation is None:
            return {}
        # Adding a constant to a loss changes no gradient, so its weight stays.
        inner = {"mult_constant": weight * operation.constant, "sum_constant": weight}
        if operation.kind == "cost_nll":
            return {(operation.first, operation.second): weight}
        if operation.kind in inner:
            return weigh(operation.first, inner[operation.kind])
        if operation.kind in ("sum", "avg"):
            # Weights multiply on the way from the final loss to each cost.
            part = weight / 2 if operation.kind == "avg" else weight
            costs = [weigh(operation.first, part), weigh(operation.second, part)]
            return {
                key: sum(weights.get(key, 0.0) for weights in costs)
                for weights in costs
                for key in weights
            }
        notes.say(operation.line, f"[model] {name}", f"{operation.kind} is no loss of ours")
        return {}

    return weigh("loss_final", 1.0)


class _Builder:
    """Walks through the operations and appends layers."""

    def __init__(
        self, experiment: Experiment, streams: Mapping[str, str], notes: Notes, like_theirs: bool
    ) -> None:
        self.experiment, self.notes, self.failed = experiment, notes, False
        self.like_theirs = like_theirs
        self.stack = Stack()
        # Values are known by what they read: a join adds no layer until one reads it.
        self.known = {name: Source((stream,)) for name, stream in streams.items()}
        self.labels: dict[str, list[str]] = {}
        for operation in experiment.operations:
            if operation.kind == "cost_nll":
                self.labels.setdefault(operation.first, []).append(operation.second)

    def take(self, operation: Operation) -> None:
        """Append the layers of an operation on values; costs are no layers."""
        if self.failed:
            return
        if operation.kind == "compute":
            self._compute(operation)
        elif operation.kind == "concatenate" or (
            operation.kind == "sum" and operation.first in self.known
        ):
            self._join(operation, "concat" if operation.kind == "concatenate" else "sum")
        elif not operation.kind.startswith(("cost", "mse")) and operation.first in self.known:
            self._fail(operation, f"{operation.kind} of values has no counterpart")

    def _fail(self, operation: Operation, why: str) -> None:
        self.failed = True
        self.notes.say(
            operation.line, f"[model] {operation.result}", f"{why}; write model yourself"
        )

    def _join(self, operation: Operation, join: str) -> None:
        sources = [self.known.get(operation.first), self.known.get(operation.second)]
        reads: tuple[str, ...] = ()
        for source in sources:
            # A sum of a concatenation, or the reverse, would need a layer of its own between.
            if source is None or (len(source.reads) > 1 and source.join != join):
                self._fail(operation, "sums and concatenations of each other have no counterpart")
                return
            reads += source.reads
        self.known[operation.result] = Source(reads, join)

    def _compute(self, operation: Operation) -> None:
        network = self.experiment.architectures[operation.first]
        source = self.known.get(operation.second)
        if source is None:
            self._fail(operation, f"reads {operation.second}, which is a head")
            return
        if self.stack.list_parts(network):
            self._fail(operation, f"{network.name} computes twice: weights are not shared here")
            return
        if not network.layers:
            self._fail(operation, f"class {network.kind} has no counterpart")
            return
        self._check_norms(network)
        self._check_beginning(network)
        hidden = network.layers
        labels = list(dict.fromkeys(self.labels.get(operation.result, [])))
        if len(labels) > 1:
            self._fail(operation, f"is compared with {' and '.join(labels)}: a head has one")
            return
        label = labels[0] if labels else None
        if label in self.stack.heads:
            self._fail(operation, f"{label} has another head already, and has one here")
            return
        # The last layer of an MLP with softmax is a head here, and no layer of the stack.
        if label is not None and network.kind == "MLP" and hidden[-1].activation == "softmax":
            hidden = hidden[:-1]
        else:
            label = None
        if any(isinstance(layer.units, str) for layer in hidden):
            self._fail(operation, "N_out_LABEL is the width of a layer that is no head")
            return
        source = self._append_layers(network, hidden, source)
        if label is None:
            self.known[operation.result] = source
            return
        self._check_head(network, network.layers[-1], label)
        if len(source.reads) > 1 or source.reads[0] in self._streams:
            nothing = {"kind": "dropout", "dropout": 0.0}  # heads read layers
            source = self._append(Origin(network, ""), f"{network.name}_in", nothing, source)
        self.stack.heads[label] = source.reads[0]
        self.stack.origins[label] = Origin(network, len(hidden), is_head=True)

    @property
    def _streams(self) -> set[str]:
        names = {layer["name"] for layer in self.stack.layers}
        return {name for source in self.known.values() for name in source.reads} - names

    def _check_norms(self, network: Architecture) -> None:
        """Say where theirs takes the layer norm of the first layer off, whatever stands there."""
        option = network.section.get(f"{PREFIXES.get(network.kind, '')}_use_laynorm")
        on = option and parse_flag(option, option.text.split(",")[0].strip())
        if option and on and not network.layers[0].layer_norm:
            what = f"[{option.section}] {option.name} = {option.text}"
            why = "the first is off in theirs too, as a network reads sequences"
            self.notes.say(option.line, what, why)

    def _check_beginning(self, network: Architecture) -> None:
        """Say of switches that are off what is on here whatever a configuration says."""
        switches = {}
        if network.kind in RECURRENT:
            switches[f"{PREFIXES[network.kind]}_orthinit"] = "recurrent weights begin orthogonal"
        if network.kind in CUDNN:
            switches["bias"] = "it has biases"
        for name, what in switches.items():
            option = network.section.get(name)
            if option and not parse_flag(option):
                self.notes.say(option.line, f"[{option.section}] {name}", f"{what} here")

    def _check_head(self, network: Architecture, layer: LayerOptions, label: str) -> None:
        if layer.batch_norm or layer.layer_norm or any(value for value, _ in layer.dropout):
            self._say(network, "heads have no norm and no dropout here")
        if isinstance(layer.units, int):
            self._say(network, f"not {layer.units}: heads have as many outputs as there are labels")
        elif layer.units != label:
            self._say(network, f"not N_out_{layer.units}: its outputs are of {label}")

    def _append_layers(
        self, network: Architecture, layers: Iterable[LayerOptions], source: Source
    ) -> Source:
        # The order is theirs: layer norm of the input comes before batch norm.
        if network.layer_norm_input:
            norm = {"kind": "norm", "norm": "layer-pytorch-kaldi"}
            source = self._append(Origin(network, "ln0"), f"{network.name}_ln0", norm, source)
        if network.batch_norm_input:
            norm = {"kind": "norm", "norm": "batch"}
            source = self._append(Origin(network, "bn0"), f"{network.name}_bn0", norm, source)
        described = list(layers)
        for number, layer in enumerate(described):
            if network.kind in CUDNN and number and any(value for value, _ in layer.dropout):
                # torch's modules drop each number of each frame between two layers.
                drop = {"kind": "dropout", "of": "units", "dropout": by_epoch(layer.dropout, float)}
                name = f"{network.name}_drop{number}"
                source = self._append(Origin(network, ""), name, drop, source)
            name = network.name if len(described) == 1 else f"{network.name}_{number + 1}"
            options = self._describe(network, layer, number)
            source = self._append(Origin(network, number), name, options, source)
        return source

    def _append(self, origin: Origin, name: str, options: dict[str, Any], source: Source) -> Source:
        join = {"join": "sum"} if source.join == "sum" else {}
        self.stack.layers.append({"name": name, "reads": list(source.reads), **join, **options})
        self.stack.origins[name] = origin
        return Source((name,))

    def _describe(self, network: Architecture, layer: LayerOptions, number: int) -> dict[str, Any]:
        """A layer as `model.stack` takes it; what ours has not is said."""
        dropout = by_epoch(layer.dropout, float)
        activation = ACTIVATIONS.get(layer.activation)
        if activation is None:
            self._say(network, f"activation {layer.activation} has no counterpart; relu is taken")
            activation = "relu"
        if network.kind in CUDNN:
            return self._describe_cudnn(network, layer, activation)
        norm = "batch" if layer.batch_norm else "none"
        shared: dict[str, Any] = {"norm": norm, "activation": activation, "dropout": dropout}
        if network.kind in RECURRENT:
            return self._describe_recurrent(network, layer, shared)
        if layer.layer_norm:
            shared["norm"] = "layer-pytorch-kaldi"
            if layer.batch_norm:
                self._say(network, "two norms of one layer: batch normalisation is left out")
        if network.kind == "MLP":
            # Batch norm would take a bias off again, and layer norm does not.
            bias = {"bias": True} if layer.layer_norm else {}
            return {"kind": "mlp", "units": layer.units, **bias, **shared}
        shared |= {"channels": layer.units, "pooling": layer.pooling}
        if network.kind == "SincNet" and not number:
            kernel = layer.kernel + 1 - layer.kernel % 2  # theirs makes it odd, too
            return {"kind": "sinc", "kernel": kernel, **_describe_band(network), **shared}
        # Their convolution runs along the features of a frame alone.
        return {"kind": "conv2d", "kernel": [1, layer.kernel], **shared}

    def _describe_cudnn(
        self, network: Architecture, layer: LayerOptions, activation: str
    ) -> dict[str, Any]:
        """A layer of a class of cuDNN."""
        unit = CUDNN_UNITS[network.kind]
        return {
            "kind": "recurrent",
            "unit": unit,
            "units": layer.units,
            **({"activation": activation} if unit == "rnn" else {}),
            "bidirectional": network.bidirectional,
            "tied_directions": False,
            "norm": "none",
            "dropout": 0.0,
            "input_dropout": 0.0,
            "input_init": self._choose_first_weights(network),
        }

    def _describe_recurrent(
        self, network: Architecture, layer: LayerOptions, shared: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A recurrent layer of theirs; shared: the options that all kinds of layers have."""
        unit, activation = OUR_UNITS[network.kind], shared["activation"]
        if layer.layer_norm:
            self._say(network, "layer normalisation of the state has no counterpart; left out")
        if unit == "lstm" and activation != "tanh":
            self._say(network, f"lstm has tanh alone, not {activation}")
        return {
            "kind": "recurrent",
            "unit": unit,
            "units": layer.units,
            **({} if unit == "lstm" else {"activation": activation}),
            "bidirectional": network.bidirectional,
            "tied_directions": True,
            "norm": shared["norm"],
            "dropout": shared["dropout"],
            "dropout_scaling": "pytorch-kaldi",
            "input_init": "uniform",
        }

    def _choose_first_weights(self, network: Architecture) -> str:
        """The first weights of a class of cuDNN."""
        if not self.like_theirs:
            return "uniform"
        if network.kind == "RNN_cudnn":
            return "uniform-units"
        if network.kind == "LSTM_cudnn" and not parse_flag(network.section.take("batch_first")):
            self._say(network, "recurrent weights begin orthogonal here, uniform there")
        return "pytorch-kaldi"

    def _say(self, network: Architecture, why: str) -> None:
        section = network.section
        self.notes.say(section.line, f"[{section.name}] {network.name}", why)


def _describe_band(network: Architecture) -> dict[str, float]:
    """The frequencies of a SincNet, in Hz."""
    names = {"sample_rate": "sample_rate", "min_low": "min_low_hz", "min_band": "min_band_hz"}
    options = {key: network.section.take(f"sinc_{name}") for key, name in names.items()}
    return {key: parse_whole(option, option.text) for key, option in options.items()}
