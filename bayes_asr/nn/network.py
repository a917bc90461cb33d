"""The acoustic model: layers from streams of features, and heads on them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import LAYERS, find
from bayes_asr.nn.frames import WHOLE, PackedFrames, describe_stride
from bayes_asr.nn.layer import LAYER_KEYS, Layer, State
from bayes_asr.nn.linear import Linear

States = list[State]
"""The state of each layer after a frame of one sequence."""

Streams = Mapping[str, Tensor]
"""Features by the name of their stream, each [N, F] of the same packed frames."""


class Node(NamedTuple):
    """The place of a layer in the graph of its network."""

    name: str
    reads: tuple[str, ...]
    """The streams and layers that it reads, by name."""
    sums: bool
    """Whether they are added up; they are read side by side otherwise."""
    residual: bool
    """Whether the inputs are added to the outputs."""

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> "Node":
        """The node of a layer that is described as `AcousticModel` takes it."""
        sums, residual = description.get("join") == "sum", bool(description.get("residual"))
        return cls(str(description["name"]), tuple(description["reads"]), sums, residual)


class AcousticModel(nn.Module):
    """A network from streams of features to the logits of named outputs, the pdfs first.

    streams: size of the vectors of each stream, by name.
    layers: a description of each layer: its `name`; its `kind` (`catalogue.LAYERS`); the streams
    and the layers before it that it `reads`, by name; if need be `join`, which puts several of them
    side by side (`concat`) or adds them up (`sum`), and `residual`, which adds the inputs to the
    outputs; and the options of that kind.
    heads: number of outputs of each head, by name. head_reads: the layer that a head reads, by its
    name; the others read the last layer. of_utterances: heads with one row of outputs for each
    utterance, behind a layer that has pooled all of it; the others have one for each frame, or for
    the first of every `output_stride` frames. of_numbers: heads whose outputs are real numbers.
    `architecture` holds these arguments as plain values.

    Behind layers with a stride, layers compute fewer frames. Where a layer also reads one that has
    more of them, and at heads, each vector is repeated up to the next (`PackedFrames.repeat`).
    """

    writes_sequences: ClassVar[bool] = False

    def __init__(
        self,
        streams: Mapping[str, int],
        layers: Sequence[Mapping[str, Any]],
        heads: Mapping[str, int],
        head_reads: Mapping[str, str] | None = None,
        of_utterances: Sequence[str] = (),
        output_stride: int = 1,
        of_numbers: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.architecture: dict[str, Any] = {
            "streams": dict(streams),
            "layers": [dict(layer) for layer in layers],
            "heads": dict(heads),
            **({"head_reads": dict(head_reads)} if head_reads else {}),
            **({"of_utterances": list(of_utterances)} if of_utterances else {}),
            **({"output_stride": output_stride} if output_stride > 1 else {}),
            **({"of_numbers": list(of_numbers)} if of_numbers else {}),
        }
        self.output_stride = output_stride
        self.outputs = tuple(heads)
        self.nodes = [Node.from_description(description) for description in layers]
        self.names = [node.name for node in self.nodes]
        self.layers = nn.ModuleList()
        self.sizes = dict(streams)
        self.strides = dict.fromkeys(streams, 1)
        for number, description in enumerate(layers):
            try:
                self._append(number, description)
            except InputError as error:
                name = f"layer {description['name']} ({description['kind']})"
                raise type(error)(f"{name}: {error}") from None
        self.head_layers = [(head_reads or {}).get(head, self.names[-1]) for head in heads]
        self.of_utterances, self.of_numbers = frozenset(of_utterances), frozenset(of_numbers)
        self._check_pooled()
        self._check_output_stride()
        sizes = [self.sizes[name] for name in self.head_layers]
        linears = [Linear(*pair) for pair in zip(sizes, heads.values(), strict=True)]
        for head in linears:
            nn.init.zeros_(head.bias)
        self.heads = nn.ModuleList(linears)
        self._frozen: frozenset[str] = frozenset()
        # Parameters that layers never train: `freeze` must not set them free again.
        self._constant = {
            (name, key)
            for name, part in self.parts.items()
            for key, parameter in part.named_parameters()
            if not parameter.requires_grad
        }

    def _append(self, number: int, description: Mapping[str, Any]) -> None:
        """Build a layer on those before; InputError where its inputs do not fit."""
        options = {key: value for key, value in description.items() if key not in LAYER_KEYS}
        node = self.nodes[number]
        inputs = sum(self.sizes[name] for name in node.reads)
        if node.sums:
            inputs = self._check_sum(node.reads)
        layer: Layer = find(LAYERS[description["kind"]])(inputs, number, **options)
        if node.residual and (layer.outputs != inputs or layer.stride > 1):
            stride = f" of {describe_stride(layer.stride)}" if layer.stride > 1 else ""
            raise InputError(
                f"residual adds what is read to the outputs, but it reads {inputs} numbers and has"
                f" {layer.outputs} outputs{stride}; make them alike, or set residual to false"
            )
        # Slower inputs are repeated to the frames of the fastest, each a whole number of times.
        fastest = self.read_stride(number)
        for name in node.reads:
            if self.strides[name] != WHOLE and self.strides[name] % fastest:
                raise InputError(
                    f"reads one of {fastest} frames of one layer and one of {self.strides[name]} of"
                    f" {name}, which is no multiple of it; choose other strides"
                )
        self.layers.append(layer)
        self.sizes[node.name] = layer.outputs
        # Behind a pool of whole utterances, one frame stays one frame.
        self.strides[node.name] = min(layer.stride * fastest, WHOLE)

    def _check_sum(self, reads: Sequence[str]) -> int:
        """The size of each summand; InputError for different sizes."""
        size = self.sizes[reads[0]]
        for name in reads[1:]:
            if self.sizes[name] != size:
                raise InputError(
                    f"join is sum, but {reads[0]} has {size} numbers and {name} has"
                    f" {self.sizes[name]}; make them alike, or join by concat"
                )
        return size

    def _check_pooled(self) -> None:
        """InputError for a head of utterances on a layer of frames."""
        for head, name in zip(self.outputs, self.head_layers, strict=True):
            if head in self.of_utterances and self.strides[name] != WHOLE:
                raise InputError(
                    f"head {head} has one label an utterance, but it reads layer {name}, which has"
                    " many frames of it: put a layer before it that pools all of them, {kind: pool}"
                )

    def _check_output_stride(self) -> None:
        """InputError for a layer whose frames cannot be turned into those of its head."""
        if self.output_stride < 1:
            raise ValueError(f"outputs of one of {self.output_stride} frames")
        for head, name in zip(self.outputs, self.head_layers, strict=True):
            stride, output_stride = self.strides[name], self.output_stride
            if stride != WHOLE and stride % output_stride and output_stride % stride:
                raise InputError(
                    f"head {head} has outputs of one of {output_stride} frames, but layer {name}"
                    f" computes {describe_stride(stride)}; choose another stride"
                )

    def forward(
        self, streams: Streams, frames: PackedFrames, keys_B: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the logits of each head [N, outputs], or [B, outputs] of utterances, for packed
        features; [M, outputs] with an output stride.

        keys_B: one integer a sequence, from which dropout masks are made; None: no dropout.
        """
        values = self._compute(self.head_layers, streams, frames, keys_B)
        heads = zip(self.outputs, self.heads, self.head_layers, strict=True)
        return {
            name: head(
                values[layer]
                if name in self.of_utterances
                else self._resample(values[layer], layer, frames)
            )
            for name, head, layer in heads
        }

    def hidden(
        self, streams: Streams, frames: PackedFrames, keys_B: Tensor | None = None
    ) -> Tensor:
        """Return the inputs of the first head, at `output_frames` [N, H], or where there are
        no heads, the outputs of the last layer; arguments as in `forward`.
        """
        x = self._compute([self.top], streams, frames, keys_B)[self.top]
        return x if self.labels_utterances else self._resample(x, self.top, frames)

    def _resample(self, x_MH: Tensor, layer: str, frames: PackedFrames) -> Tensor:
        """Vectors of a layer at the frames that have outputs, one of every `output_stride`."""
        stride, output_stride = self.strides[layer], self.output_stride
        if stride < output_stride:
            return frames.every(stride).subsample(x_MH, output_stride // stride)
        return frames.every(output_stride).repeat(x_MH, stride // output_stride)

    @property
    def labels_utterances(self) -> bool:
        """Whether the first head has one row of outputs for each utterance."""
        return bool(self.of_utterances.intersection(self.outputs[:1]))

    def output_frames(self, frames: PackedFrames) -> PackedFrames:
        """The frames of the rows of `hidden`, and of those of the first head."""
        return frames.every(WHOLE if self.labels_utterances else self.output_stride)

    def _compute(
        self, layers: Iterable[str], streams: Streams, frames: PackedFrames, keys_B: Tensor | None
    ) -> dict[str, Tensor]:
        """The outputs [M, H] of `layers`, named so, at the frames that each computes."""
        values, needed = dict(streams), set(layers)
        for number, (node, layer) in enumerate(zip(self.nodes, self.layers, strict=True)):
            # Without keys there is no dropout: frozen layers compute as in evaluation.
            keys = None if node.name in self._frozen else keys_B
            x = self._inputs(number, values, frames, needed)
            y = layer(x, frames.every(self.read_stride(number)), keys)
            values[node.name] = x + y if node.residual else y
        return {name: values[name] for name in needed}

    @property
    def top(self) -> str:
        """The layer that the first head reads; the last one where there are no heads."""
        return next(iter(self.head_layers), self.names[-1])

    @property
    def looks_ahead(self) -> bool:
        """Whether outputs depend on later frames."""
        return bool(self.lookahead_layers())

    @property
    def has_lower_heads(self) -> bool:
        """Whether a head reads another layer than the last."""
        return set(self.head_layers) != {self.names[-1]}

    @property
    def unrolled(self) -> bool:
        """Whether a layer computes one frame after the other."""
        return any(layer.unrolled for layer in self.layers)

    @property
    def batch_invariant(self) -> bool:
        """Whether all layers can be; `make_batch_invariant` then makes single precision enough."""
        return all(layer.batch_invariant for layer in self.layers)

    def make_batch_invariant(self) -> None:
        """Compute the same bits for a sequence in any batch, in evaluation.

        For `batch_invariant` models.
        """
        for part in self.modules():
            if isinstance(part, Linear):
                part.batch_invariant = True

    def lookahead_layers(self) -> list[str]:
        """The layers that need whole sequences, by their names."""
        pairs = zip(self.names, self.layers, strict=True)
        return [name for name, layer in pairs if layer.looks_ahead]

    def begin(self) -> States:
        """Return the states of one sequence before its first frame."""
        return [cast(Layer, layer).begin() for layer in self.layers]

    def advance(self, streams: Streams, states: States) -> tuple[Tensor, States]:
        """Return the rows of `hidden` [T, H] at the next frames of one sequence, and the states
        after them.

        In evaluation, for models that do not look ahead. states: those that the call for the frames
        before returned, [] where there are none before.
        """
        values, next_states = dict(streams), States()
        stream, needed = next(iter(values.values())), {self.top}
        # A layer with a stride looks ahead: here every layer computes every frame of the chunk.
        frames = PackedFrames((stream.shape[0],), stream.device)
        rows = zip(self.nodes, self.layers, states or [()] * len(self.layers), strict=True)
        for number, (node, layer, state) in enumerate(rows):
            x_TF = self._inputs(number, values, frames, needed)
            y_TH, next_state = cast(Layer, layer).advance(x_TF, frames, state)
            values[node.name] = x_TF + y_TH if node.residual else y_TH
            next_states.append(next_state)
        return values[self.top], next_states

    def read_stride(self, number: int) -> int:
        """Of how many frames a layer reads one."""
        return min(self.strides[name] for name in self.nodes[number].reads)

    def _inputs(
        self, number: int, values: dict[str, Tensor], frames: PackedFrames, needed: set[str]
    ) -> Tensor:
        """The inputs of a layer [N, F]; `values` loses those that no later layer reads."""
        node = self.nodes[number]
        pending = needed.union(*(later.reads for later in self.nodes[number + 1 :]))
        stride = self.read_stride(number)
        inputs = frames.every(stride)
        parts = [inputs.repeat(values[n], self.strides[n] // stride) for n in node.reads]
        # In evaluation this frees their memory as early as possible.
        for name in set(values) - pending:
            del values[name]
        if len(parts) == 1:
            return parts[0]
        # sum() begins with the first part: by default it would add the integer 0.
        return sum(parts[1:], parts[0]) if node.sums else torch.cat(parts, 1)

    def check_frames_labelled(self) -> None:
        """InputError for a network that writes sequences, where outputs of frames are wanted."""
        if self.writes_sequences:
            raise InputError(
                "this network has no outputs of frames: it writes sequences of labels, which"
                " bayes-asr generate RUN does"
            )

    @property
    def parts(self) -> dict[str, nn.Module]:
        """Layers and heads by name."""
        names = (*self.names, *self.outputs)
        return dict(zip(names, (*self.layers, *self.heads), strict=True))

    @property
    def activation_parameters(self) -> dict[str, nn.Parameter]:
        """Trained parameters of activations in all layers, as `layer1.cell.activation.eta`."""
        return {
            f"{name}.{key}": parameter
            for name, layer in zip(self.names, self.layers, strict=True)
            for key, parameter in layer.named_parameters()
            if key.startswith(cast(Layer, layer).activation_prefixes)
        }

    @torch.no_grad()
    def set_activations(self, values: Mapping[str, Tensor]) -> None:
        """Give `activation_parameters` these values, as far as this network has their layers."""
        for name, parameter in self.activation_parameters.items():
            parameter.copy_(values[name])

    def freeze(self, names: Collection[str] = (), *, activations: bool = False) -> None:
        """Train all but the layers and heads of these names, which compute as in evaluation.

        activations: also keep the parameters of all activations as they are.
        """
        self._frozen = frozenset(names)
        for name, part in self.parts.items():
            prefixes = getattr(part, "activation_prefixes", ()) if activations else ()
            for key, parameter in part.named_parameters():
                frozen = name in self._frozen or key.startswith(prefixes)
                parameter.requires_grad_(not frozen and (name, key) not in self._constant)

    def set_dropout(self, options: Sequence[Mapping[str, float]]) -> None:
        """Drop from now on as these options of each layer say, such as {"dropout": 0.1}."""
        descriptions = self.architecture["layers"]
        for layer, description, changes in zip(self.layers, descriptions, options, strict=True):
            description.update(changes)  # the description is saved, so that it must tell the same
            for name, dropout in changes.items():
                if not hasattr(layer, name):
                    raise AttributeError(f"{type(layer).__name__} has no {name} to set")
                setattr(layer, name, dropout)

    def train(self, mode: bool = True) -> "AcousticModel":
        """Compute as in training, but for frozen parts; or as in evaluation."""
        super().train(mode)
        # Batch norms of frozen parts keep their running statistics, and normalise by them.
        for name in self._frozen:
            self.parts[name].eval()
        return self

    def read_out(self, hidden: Tensor) -> Tensor:
        """Log-posteriors of the pdfs [T, P], or numbers, by what the first head reads [T, H]."""
        outputs: Tensor = self.heads[0](hidden)
        return outputs if self.outputs[0] in self.of_numbers else outputs.log_softmax(-1)


def build_network(architecture: Mapping[str, Any]) -> AcousticModel:
    """The network of these arguments: one with a decoder, where they have its options."""
    decodes = "decoder" in architecture
    kind = find("nn.encoder_decoder:EncoderDecoder") if decodes else AcousticModel
    built: AcousticModel = kind(**architecture)
    return built
