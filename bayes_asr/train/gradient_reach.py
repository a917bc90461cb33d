"""Reach of the loss of one frame: its gradient by the states of the frames before."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bayes_asr.base.errors import InputError
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.nn.frames import describe_stride
from bayes_asr.nn.layer import State
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.train.batch import Batch
from bayes_asr.train.loader import Loader
from bayes_asr.train.runs.trained_network import TrainedNetwork

LEAST = 1e-300  # of norms, so that those of 0 have a logarithm


@dataclass(frozen=True)
class GradientReach:
    """Gradient norms of one layer, by lag.

    log_norms [lags]: mean logarithms of the norms of the gradients by the states k frames away, k =
    0, 1, ...; 0 is the frame of the loss itself.
    """

    layer: str
    unit: str
    log_norms: np.ndarray


def measure_reach(
    network: TrainedNetwork,
    data: LabelledSet,
    *,
    lags: int,
    utterances: int,
    gain: float = 1.0,
) -> list[GradientReach]:
    """Measure the reach of each recurrent layer, on the longest utterances of a set.

    Of each utterance the loss is that of the frame in the middle, the cross entropy of its label.
    A state is that of one direction; those of the other direction are as many frames later. The
    gradient flows through time and through the layers above. All V of the network are multiplied
    by `gain` and stay so: small ones let gradients vanish, large ones may let them explode.
    InputError where a network has no recurrent layer that computes every frame, fewer utterances
    have so many frames on both sides of the middle, or gradients are not finite or all 0.
    """
    model = network.model
    model.check_frames_labelled()
    if model.output_stride > 1:
        raise InputError(
            f"this network has outputs of {describe_stride(model.output_stride)}, and was trained"
            " without labels of frames, whose loss is measured; take one of cross entropy"
        )
    recurrent = _find_recurrent_layers(model)
    longest = _select_longest(data, lags, utterances)
    if gain != 1:
        _scale_recurrence(model, gain)
    load = Loader(data, network.front_ends, model.outputs[:1], seed=0, epoch=1)
    model.double().eval()  # small gradients of long lags would vanish in single precision
    norms = np.array(
        [_measure_utterance(model, list(recurrent.values()), load([utt]), lags) for utt in longest]
    )
    if not (np.isfinite(norms).all() and norms[:, :, 0].any((1, 2)).all()):
        raise InputError(
            "gradients by the states are not finite, or all 0; with --gain take a smaller factor"
        )
    # norms [utterances, layers, lags, D]: the mean is over utterances and directions.
    logs = np.log(np.maximum(norms, LEAST)).mean((0, 3))
    return [
        GradientReach(name, layer.unit, log_norms)
        for (name, layer), log_norms in zip(recurrent.items(), logs, strict=True)
    ]


def _find_recurrent_layers(model: AcousticModel) -> dict[str, RecurrentLayer]:
    """Recurrent layers that compute every frame, by name; InputError where there is none."""
    recurrent = {
        name: layer
        for name, layer in zip(model.names, model.layers, strict=True)
        if isinstance(layer, RecurrentLayer) and layer.unrolled and model.strides[name] == 1
    }
    if not recurrent:
        raise InputError(
            "this network has no recurrent layer that computes every frame, so that nothing goes"
            " back through time"
        )
    return recurrent


def _select_longest(data: LabelledSet, lags: int, utterances: int) -> list[str]:
    """The longest utterances of a set; InputError where they are too few or too short."""
    longest = sorted(data.lengths, key=lambda utt: (-data.lengths[utt], utt))[:utterances]
    needed = 2 * lags  # frames: the loss is in the middle, with all lags on both sides of it
    if len(longest) < utterances or data.lengths[longest[-1]] < needed:
        num_long = sum(length >= needed for length in data.lengths.values())
        raise InputError(
            f"{num_long} utterances have the {needed} frames that {lags} lags on both sides need,"
            f" and {utterances} are asked for; ask for fewer lags or utterances"
        )
    return longest


def _scale_recurrence(model: AcousticModel, gain: float) -> None:
    """Multiply the recurrent weights V of all layers."""
    recurrent = (layer for layer in model.layers if isinstance(layer, RecurrentLayer))
    weights = [layer.V for layer in recurrent if layer.V is not None]
    if not weights:
        raise InputError("no unit has recurrent weights V, which lead to others; leave out --gain")
    with torch.no_grad():
        for V in weights:
            V.mul_(gain)


def _measure_utterance(
    model: AcousticModel, layers: Sequence[RecurrentLayer], batch: Batch, lags: int
) -> np.ndarray:
    """Gradient norms of one utterance [layers, lags, D]."""
    with ExitStack() as stack:
        states = [stack.enter_context(_recording_states(layer)) for layer in layers]
        streams = {name: x.double() for name, x in batch.streams.items()}
        logits = model(streams, batch.frames)[model.outputs[0]]
    middle = len(logits) // 2
    loss = cross_entropy(logits[middle], batch.targets[model.outputs[0]][middle])
    norms = [_norms_by_lag(loss, of_layer, middle)[:lags] for of_layer in states]
    return torch.stack(norms).numpy()


def _norms_by_lag(loss: Tensor, states: Sequence[Tensor], frame: int) -> Tensor:
    """Gradient norms by the states [1, D, H] of the steps of each direction [lags, D].

    A loss at `frame` is at that step of the first direction, counted from the end of the other.
    """
    gradients = torch.autograd.grad(loss, states, retain_graph=True, materialize_grads=True)
    norms_TD = torch.cat(gradients).norm(dim=-1)
    steps = (frame, len(states) - 1 - frame)
    lags = min(steps) + 1
    directions = zip(norms_TD.unbind(1), steps, strict=False)
    return torch.stack([norms[step + 1 - lags : step + 1].flip(0) for norms, step in directions], 1)


@contextmanager
def _recording_states(layer: RecurrentLayer) -> Iterator[list[Tensor]]:
    """List that receives the states h [1, D, H] of each step while a layer computes."""
    states: list[Tensor] = []
    fused, step = layer.fused, layer.cell.step

    def recording(*arguments: Any) -> State:
        state = step(*arguments)
        states.append(state[0])
        return state

    # Fused kernels do not show their states, so the layer must step in torch.
    layer.fused = False
    layer.cell.step = recording  # type: ignore[method-assign, assignment]
    try:
        yield states
    finally:
        layer.fused = fused
        del layer.cell.step  # the attribute of the object, which hid the method of its class
