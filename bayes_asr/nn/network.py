"""The acoustic model: layers from streams of features, and heads on the last of them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from bayes_asr.catalogue import LAYERS, find
from bayes_asr.nn.frames import Frames
from bayes_asr.nn.layer import Layer, State
from bayes_asr.nn.linear import Linear

States = list[State]
"""The state of each layer after a frame of one sequence."""

Streams = Mapping[str, Tensor]
"""Features by the name of their stream, each [N, F] of the same packed frames."""


class AcousticModel(nn.Module):
    """A network from streams of features to the logits of named outputs, the pdfs first.

    streams: size of the vectors of each stream, by name.
    layers: of each layer its `name`; its `kind` (`catalogue.LAYERS`); what it `reads`, the names of
    streams and of layers before it, side by side; and the options of that kind.
    heads: how many outputs each has, by name. They read the last layer.
    `architecture` holds these arguments as plain values.
    """

    def __init__(
        self,
        streams: Mapping[str, int],
        layers: Sequence[Mapping[str, Any]],
        heads: Mapping[str, int],
    ) -> None:
        super().__init__()
        self.architecture: dict[str, Any] = {
            "streams": dict(streams),
            "layers": [dict(layer) for layer in layers],
            "heads": dict(heads),
        }
        self.outputs = tuple(heads)
        self.names = [str(layer["name"]) for layer in layers]
        self.reads = [tuple(layer["reads"]) for layer in layers]
        self.layers = nn.ModuleList()
        sizes = dict(streams)
        for number, described in enumerate(layers):
            about = ("name", "kind", "reads")
            options = {key: value for key, value in described.items() if key not in about}
            inputs = sum(sizes[name] for name in described["reads"])
            layer: Layer = find(LAYERS[described["kind"]])(inputs, number, **options)
            self.layers.append(layer)
            sizes[described["name"]] = layer.outputs
        built = [Linear(sizes[self.names[-1]], size) for size in heads.values()]
        for head in built:
            nn.init.zeros_(head.bias)
        self.heads = nn.ModuleList(built)
        self._frozen: frozenset[str] = frozenset()
        self._constant = {
            (name, key)
            for name, part in self.parts.items()
            for key, parameter in part.named_parameters()
            if not parameter.requires_grad
        }

    def forward(
        self, streams: Streams, frames: Frames, keys_B: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the logits of each head [N, outputs] for packed features.

        keys_B: one integer a sequence, from which dropout masks are made; None: no dropout.
        """
        hidden = self.hidden(streams, frames, keys_B)
        return {name: head(hidden) for name, head in zip(self.outputs, self.heads, strict=True)}

    def hidden(self, streams: Streams, frames: Frames, keys_B: Tensor | None = None) -> Tensor:
        """Return what the heads read [N, H]; arguments as in `forward`."""
        known = dict(streams)
        for number, layer in enumerate(self.layers):
            keys = None if self.names[number] in self._frozen else keys_B
            known[self.names[number]] = layer(self._inputs(number, known), frames, keys)
        return known[self.names[-1]]

    @property
    def looks_ahead(self) -> bool:
        """Whether outputs depend on later frames."""
        return any(layer.looks_ahead for layer in self.layers)

    def begin(self) -> States:
        """Return the states of one sequence before its first frame."""
        return [cast(Layer, layer).begin() for layer in self.layers]

    def advance(self, streams: Streams, states: States) -> tuple[Tensor, States]:
        """Return what the heads read [T, H] at the next frames of one sequence, and the states
        after them.

        In evaluation, for models that do not look ahead. states: what the call for the frames
        before returned, [] where there are none before.
        """
        known, after = dict(streams), States()
        first = next(iter(known.values()))
        frames = Frames((first.shape[0],), first.device)
        pairs = zip(self.layers, states or [()] * len(self.layers), strict=True)
        for number, (layer, before) in enumerate(pairs):
            x_TF = self._inputs(number, known)
            known[self.names[number]], state = cast(Layer, layer).advance(x_TF, frames, before)
            after.append(state)
        return known[self.names[-1]], after

    def _inputs(self, number: int, known: dict[str, Tensor]) -> Tensor:
        """What a layer reads [N, F]; what no later layer reads is forgotten."""
        later = {name for reads in self.reads[number + 1 :] for name in reads}
        parts = [known[name] for name in self.reads[number]]
        for name in set(known) - later:
            del known[name]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    @property
    def parts(self) -> dict[str, nn.Module]:
        """Layers and heads by name."""
        names = (*self.names, *self.outputs)
        return dict(zip(names, (*self.layers, *self.heads), strict=True))

    def freeze(self, names: Collection[str] = (), *, activations: bool = False) -> None:
        """Train all but the layers and heads of these names, which compute as in evaluation.

        activations: also keep the parameters of all activations as they are.
        """
        self._frozen = frozenset(names)
        for name, part in self.parts.items():
            prefixes = getattr(part, "frozen_at_first", ()) if activations else ()
            for key, parameter in part.named_parameters():
                kept = name in self._frozen or key.startswith(prefixes)
                parameter.requires_grad_(not kept and (name, key) not in self._constant)

    def train(self, mode: bool = True) -> "AcousticModel":
        """Compute as in training, but for what is frozen; or as in evaluation."""
        super().train(mode)
        for name in self._frozen:
            self.parts[name].eval()
        return self

    def log_posteriors(self, hidden: Tensor) -> Tensor:
        """Log-posteriors of the pdfs [T, P] by what the heads read [T, H]."""
        return torch.log_softmax(self.heads[0](hidden), dim=-1)


def describe_layers(
    units: Sequence[int], streams: Sequence[str], *, input_dropout: float, **options: Any
) -> list[dict[str, Any]]:
    """A stack of recurrent layers, each on the one before, as `AcousticModel` takes it.

    units: cells per direction of each layer; streams: what the first one reads; input_dropout: that
    of the layers after the first; options: those of `RecurrentLayer`, the same for all.
    """
    return [
        {
            "name": f"layer{number + 1}",
            "kind": "recurrent",
            "reads": [f"layer{number}"] if number else list(streams),
            "units": size,
            "input_dropout": input_dropout if number else 0.0,
            **options,
        }
        for number, size in enumerate(units)
    ]


def upgrade_architecture(old: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `AcousticModel` for those of version 0.1, which had one unit and one stream.

    What one leaves out, such as a folded one, are the defaults that `AcousticModel` had there.
    """
    given = {key: value for key, value in old.items() if key not in ("inputs", "outputs", "units")}
    defaults = {
        "unit": "li-bru",
        "options": {},
        "bidirectional": True,
        "tied_directions": False,
        "norm": "batch",
        "dropout": 0.2,
        "dropout_scaling": "pytorch-kaldi",
        "input_dropout": 0.0,
        "initial_state": "fixed",
        "hand_on": "log",
        "input_init": "xavier",
    }
    return {
        "streams": {"features": old["inputs"]},
        "layers": describe_layers(old["units"], ["features"], **{**defaults, **given}),
        "heads": dict(zip(("pdfs", "monophones"), old["outputs"], strict=False)),
    }
