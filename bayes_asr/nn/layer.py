"""The interface of layers to their network."""

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from bayes_asr.nn.frames import PackedFrames

LAYER_KEYS = ("name", "kind", "reads", "join", "residual")
"""Keys that the description of any layer may have, beside the options of its kind."""

State = tuple[Tensor, ...]
"""The memory that a layer, or a cell, has of the frames before."""


class Layer(nn.Module):
    """A layer of a network, from vectors [N, F] of packed frames to vectors [N, outputs].

    With a stride, the outputs are those of `frames.every(stride)`.

    It is built as `Layer(inputs, number, **options)`: the size of its inputs, its number in the
    network (which tells its dropout masks from those of others), and the options of its kind, all
    of them named. Outputs of a frame never depend on other sequences, but through batch statistics
    in training.
    """

    outputs: int
    stride: int = 1  # it computes the frames 0, stride, 2 stride, ... of each sequence
    directions: int = 1  # of time, whose states it hands on side by side
    looks_ahead: bool = False  # whether it needs whole sequences, so that it cannot `advance`
    unrolled: bool = False  # whether it computes one frame after the other
    compiled: bool = False  # whether compiled code computes its recurrence
    fused: bool = False  # whether faster code than the equations may compute it
    batch_invariant: bool = False  # whether it can compute the same bits in any batch (`Linear`)
    exportable: bool = True  # whether one program can compute it for every length
    activation_prefixes: ClassVar[tuple[str, ...]] = ()
    """Prefixes of parameters that `train.freeze_activations` keeps as they are."""

    @property
    def max_width(self) -> int:
        """The most numbers of a frame, inside the layer or behind it: for estimates of memory."""
        return self.outputs

    def forward(self, x_NF: Tensor, frames: PackedFrames, keys_B: Tensor | None = None) -> Tensor:
        """Return the outputs [N, outputs].

        keys_B: one integer a sequence, from which dropout masks are made; None: no dropout.
        """
        raise NotImplementedError

    def begin(self) -> State:
        """Return the state of one sequence before its first frame; () for a layer without one."""
        return ()

    def advance(self, x_TF: Tensor, frames: PackedFrames, state: State) -> tuple[Tensor, State]:
        """Outputs [T, outputs] of the next frames of one sequence, and the state after them.

        In evaluation, without autocast, for layers that do not look ahead. state: the one that the
        call for the frames before returned, () where there are none before. Without a state, each
        frame is computed from itself.
        """
        return self(x_TF, frames), ()


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
