"""The acoustic model: a stack of recurrent layers and its heads."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from bayes_asr.nn.frames import Frames
from bayes_asr.nn.linear import Linear
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.nn.units.cell import State

States = list[State]
"""The state of each layer after a frame of one sequence."""


class AcousticModel(nn.Module):
    """Recurrent layers from features to logits of pdfs and, for training only, of monophones.

    inputs: size of the feature vectors.
    outputs: size of each head, the pdfs first: `(P,)` or `(P, monophones)`.
    units: cells per direction of each layer.
    unit: name of the cell (`units.bayesian.CELLS`); options: its own options and its form.
    input_dropout: that of the layers after the first.
    layer_options: the others of `RecurrentLayer`.
    """

    def __init__(
        self,
        inputs: int,
        outputs: Sequence[int],
        *,
        unit: str = "li-bru",
        units: Sequence[int] = (550, 550, 550, 550),
        options: Mapping[str, Any] | None = None,
        dropout: float = 0.2,
        input_dropout: float = 0.0,
        **layer_options: Any,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        size = inputs
        for i, n in enumerate(units):
            layer = RecurrentLayer(
                size,
                n,
                unit,
                options,
                dropout=dropout,
                input_dropout=input_dropout if i else 0.0,
                stream=i,
                **layer_options,
            )
            self.layers.append(layer)
            size = layer.directions * n
        heads = [Linear(size, n) for n in outputs]
        for head in heads:
            nn.init.zeros_(head.bias)
        self.heads = nn.ModuleList(heads)

    def forward(self, x_NF: Tensor, frames: Frames, keys_B: Tensor | None = None) -> list[Tensor]:
        """Return the logits of each head [N, outputs] for the packed features `x_NF` [N, F].

        keys_B: one integer a sequence, from which dropout masks are made; None: no dropout.
        """
        hidden = self.hidden(x_NF, frames, keys_B)
        return [head(hidden) for head in self.heads]

    def hidden(self, x_NF: Tensor, frames: Frames, keys_B: Tensor | None = None) -> Tensor:
        """Return what the heads read [N, D*H]; arguments as in `forward`."""
        for layer in self.layers:
            x_NF = layer(x_NF, frames, keys_B)
        return x_NF

    @property
    def looks_ahead(self) -> bool:
        """Whether outputs depend on later frames."""
        return any(layer.looks_ahead for layer in self.layers)

    def advance(self, x_TF: Tensor, states: States) -> tuple[Tensor, States]:
        """Return what the heads read [T, H] at the next frames of one sequence, and the states
        after them.

        In evaluation, for models that do not look ahead. states: what the call for the frames
        before returned, [] where there are none before.
        """
        frames, after = Frames((len(x_TF),), x_TF.device), States()
        for layer, state in zip(self.layers, states or [()] * len(self.layers), strict=True):
            x_TF, state = cast(RecurrentLayer, layer).advance(x_TF, frames, state)
            after.append(state)
        return x_TF, after

    def train_activations(self, on: bool) -> None:
        """Train the parameters of activations, or freeze them."""
        for layer in self.layers:
            for name, parameter in layer.named_parameters():
                if name.startswith("cell.activation."):
                    parameter.requires_grad_(on)

    def log_posteriors(self, hidden: Tensor) -> Tensor:
        """Log-posteriors of the pdfs [T, P] by what the heads read [T, D*H]."""
        return torch.log_softmax(self.heads[0](hidden), dim=-1)
