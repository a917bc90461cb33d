"""One recurrent layer: input products, normalisation, both directions, the recurrence."""

import torch
from torch import Tensor, nn

from bayes_asr.nn.cells import Cell
from bayes_asr.nn.dropout import keep_mask
from bayes_asr.nn.frames import Frames
from bayes_asr.nn.fused import FusedRecurrence
from bayes_asr.nn.scan import State, directed, scan


class RecurrentLayer(nn.Module):
    """A layer of `units` cells in one or both directions of time.

    The feed-forward term W x is computed for all frames at once and normalised over the real frames of the batch, separately
    for every gate (and direction, where directions are not tied); the recurrent term is not normalised.

    inputs: size of the input vectors; units: cells per direction.
    tied_directions: both directions share W, V and the normalisation, as in pytorch-kaldi.
    norm: `batch` (momentum 0.05, as in pytorch-kaldi) or `none` (a bias instead).
    dropout: probability with which a candidate is dropped for a whole sequence.
    input_dropout: probability with which an input is dropped for a whole sequence; the others are
    scaled up.
    stream: number of the layer, so that layers get different dropout masks.
    fused: use the hand-written backward pass; `False` runs the same equations through `scan`.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        cell: Cell,
        *,
        bidirectional: bool = True,
        tied_directions: bool = False,
        norm: str = "batch",
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        stream: int = 0,
        fused: bool = True,
    ) -> None:
        super().__init__()
        self.units, self.cell, self.stream, self.fused = units, cell, stream, fused
        self.dropout, self.input_dropout = dropout, input_dropout
        self.directions = 2 if bidirectional else 1
        weights = 1 if tied_directions else self.directions
        width = weights * cell.gates * units
        self.W = nn.Linear(inputs, width, bias=norm == "none")
        for gate in self.W.weight.data.view(-1, units, inputs):
            nn.init.xavier_uniform_(gate)
        self.norm = nn.BatchNorm1d(width, momentum=0.05) if norm == "batch" else nn.Identity()
        self.V = nn.Parameter(torch.empty(weights, units, cell.gates * units))
        for gate in self.V.data.split(units, dim=2):
            for direction in gate:
                direction.copy_(nn.init.orthogonal_(torch.empty(units, units)))

    def forward(self, x_NF: Tensor, frames: Frames, keys_B: Tensor | None = None) -> Tensor:
        """Return the outputs of all directions side by side [N, D*H].

        keys_B: one integer a sequence, from which dropout masks are made; None: no dropout.
        """
        if keys_B is not None and self.input_dropout:
            mask = keep_mask(keys_B, 2 * self.stream + 1, x_NF.shape[1:], self.input_dropout)
            x_NF = x_NF * (mask / (1 - self.input_dropout)).to(x_NF.dtype)[frames.sequence]
        a_NX = self.norm(self.W(x_NF))
        weights = self.V.shape[0]
        inputs_NDX = directed(
            a_NX.view(len(x_NF), weights, -1).expand(-1, self.directions, -1), frames
        )
        shape = (self.directions, self.units)
        initial = x_NF.new_full((len(frames.lengths), *shape), self.cell.initial)
        mask = self._mask(initial, keys_B)
        recurrence = self._fused if self.fused else self._scanned
        h_NDH = recurrence(inputs_NDX.contiguous(), initial, mask, frames)
        return directed(h_NDH, frames).flatten(1)

    def _mask(self, like_BDH: Tensor, keys_B: Tensor | None) -> Tensor | None:
        """What candidates are multiplied by: 0 or 1 with keys, otherwise the mean of that.

        Not scaled by 1 / (1 - dropout) in training, as in pytorch-kaldi: candidates that are linear for large inputs feed back
        on themselves, and a gain above 1 in that loop grows without bound over a few hundred frames.
        """
        if not self.dropout:
            return None
        if keys_B is None:
            return torch.full_like(like_BDH, 1 - self.dropout)
        return keep_mask(keys_B, 2 * self.stream, tuple(like_BDH.shape[1:]), self.dropout).to(
            like_BDH.dtype
        )

    def _fused(
        self, inputs: Tensor, initial: Tensor, mask: Tensor | None, frames: Frames
    ) -> Tensor:
        return FusedRecurrence.apply(inputs, self.V, initial, mask, self.cell, frames)  # type: ignore[no-untyped-call, no-any-return]

    def _scanned(
        self, inputs: Tensor, initial: Tensor, mask: Tensor | None, frames: Frames
    ) -> Tensor:
        def step(x: Tensor, state: State, n: int) -> State:
            (h,) = state
            a = x + torch.einsum("ndh,dhx->ndx", h, self.V.expand(self.directions, -1, -1))
            gates = a.view(n, self.directions, self.cell.gates, self.units)
            return (self.cell(gates, h, None if mask is None else mask[:n]),)

        return scan(step, (initial,), inputs, frames)
