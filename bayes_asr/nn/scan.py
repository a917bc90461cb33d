"""The only loop over frames."""

from collections.abc import Callable

import torch
from torch import Tensor

from bayes_asr.nn.cell import State
from bayes_asr.nn.frames import Frames

Step = Callable[[Tensor, State, int], State]


def scan(step: Step, state: State, inputs_NDX: Tensor, frames: Frames) -> Tensor:
    """Run `step` over the time steps of a packed batch, all directions at once.

    step: (inputs [n, D, X], state, n) -> state; n sequences are alive at this time step.
    state: tensors [B, D, H] before the first frame; the first of them is what the layer outputs.
    inputs_NDX: feed-forward terms [N, D, X], each direction in its own order of time (`directed`).
    Returns the first state tensor at every frame [N, D, H], in the order of `inputs_NDX`.
    """
    outputs = []
    for start, n in zip(frames.starts, frames.sizes, strict=True):
        state = step(inputs_NDX[start : start + n], tuple(s[:n] for s in state), n)
        outputs.append(state[0])
    return torch.cat(outputs)


def directed(x_NDX: Tensor, frames: Frames) -> Tensor:
    """Put direction 1 into reversed time and leave direction 0; applied twice it changes nothing.

    The backward direction thus starts at the last real frame of each sequence.
    """
    if x_NDX.shape[1] == 1:
        return x_NDX
    return torch.stack((x_NDX[:, 0], x_NDX[:, 1].index_select(0, frames.reverse)), dim=1)
