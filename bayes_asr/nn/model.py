"""The acoustic model: a stack of recurrent layers and its heads."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bayes_asr.nn.frames import Frames, pack, unpack
from bayes_asr.nn.layer import RecurrentLayer
from bayes_asr.nn.linear import Linear


class AcousticModel(nn.Module):
    """Recurrent layers from features to logits of pdfs and, for training only, of monophones.

    inputs: size of the feature vectors.
    outputs: size of each head, the pdfs first: `(P,)` or `(P, monophones)`.
    units: cells per direction of each layer.
    unit: name of the cell (`bayes_asr.nn.cells.CELLS`); options: its own options and its form.
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
        for layer in self.layers:
            x_NF = layer(x_NF, frames, keys_B)
        return [head(x_NF) for head in self.heads]

    def train_activations(self, on: bool) -> None:
        """Train the parameters of activations, or freeze them."""
        for layer in self.layers:
            for name, parameter in layer.named_parameters():
                if name.startswith("cell.activation."):
                    parameter.requires_grad_(on)

    def log_posteriors(self, sequences: list[Tensor]) -> list[Tensor]:
        """Log-posteriors of the pdfs [T, P] of each feature sequence [T, F]."""
        x_NF, frames, order = pack(sequences)
        return unpack(torch.log_softmax(self(x_NF, frames)[0], dim=-1), frames, order)
