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
        stream: int = 0,
        fused: bool = True,
    ) -> None:
        super().__init__()
        self.units, self.cell, self.dropout, self.stream, self.fused = units, cell, dropout, stream, fused
        self.directions = 2 if bidirectional else 1
        weights = 1 if tied_directions else self.directions
        width = weights * cell.gates * units
        self.W = nn.Linear(inputs, width, bias=norm == "none")
        nn.init.xavier_uniform_(self.W.weight.view(-1, units, inputs)[0])
        for gate in self.W.weight.data.view(-1, units, inputs):
            nn.init.xavier_uniform_(gate)
        self.norm = nn.BatchNorm1d(width, momentum=0.05) if norm == "batch" else nn.Identity()
        self.V = nn.Parameter(torch.empty(weights, units, cell.gates * units))
        for gate in self.V.data.view(weights, units, cell.gates, units).permute(0, 2, 1, 3).flatten(0, 1):
            nn.init.orthogonal_(gate)

    def forward(self, x_NF: Tensor, frames: Frames, keys_B: Tensor | None = None) -> Tensor:
        """Return the outputs of all directions side by side [N, D*H].

        keys_B: one integer a sequence, from which dropout masks are made; None: no dropout.
        """
        a_NX = self.norm(self.W(x_NF))
        weights = self.V.shape[0]
        inputs_NDX = directed(a_NX.view(len(x_NF), weights, -1).expand(-1, self.directions, -1), frames)
        shape = (self.directions, self.units)
        initial = x_NF.new_full((len(frames.lengths), *shape), self.cell.initial)
        mask = None
        if keys_B is not None and self.dropout > 0:
            mask = keep_mask(keys_B, self.stream, shape, self.dropout).to(x_NF.dtype)
        recurrence = self._fused if self.fused else self._scanned
        h_NDH = recurrence(inputs_NDX.contiguous(), initial, mask, frames)
        return directed(h_NDH, frames).flatten(1)

    def _fused(self, inputs: Tensor, initial: Tensor, mask: Tensor | None, frames: Frames) -> Tensor:
        return FusedRecurrence.apply(inputs, self.V, initial, mask, self.cell, frames)  # type: ignore[no-untyped-call, no-any-return]

    def _scanned(self, inputs: Tensor, initial: Tensor, mask: Tensor | None, frames: Frames) -> Tensor:
        def step(x: Tensor, state: State, n: int) -> State:
            (h,) = state
            a = x + torch.einsum("ndh,dhx->ndx", h, self.V.expand(self.directions, -1, -1))
            gates = a.view(n, self.directions, self.cell.gates, self.units)
            return (self.cell(gates, h, None if mask is None else mask[:n]),)

        return scan(step, (initial,), inputs, frames)
