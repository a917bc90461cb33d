"""A trained network as plain torch, which exporters can write down for any number of frames.

It computes in single precision, by the equations of `nn/units` alone, of features without the
speaker's mean and deviation.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from bayes_asr.base.errors import InputError
from bayes_asr.data.features.front_end import FrontEnd, regression_weights
from bayes_asr.nn.frames import PackedFrames, describe_stride
from bayes_asr.nn.linear import Linear
from bayes_asr.nn.network import AcousticModel


class ExportableNetwork(nn.Module):
    """Normalisation, model and priors of a network, which its two forms share.

    exact_head: whether the last product is in double precision, which most of the difference to
    `LogLikelihoods` comes from; false where its weights are to be quantised.
    """

    log_priors: Tensor
    exact_head = True

    def __init__(
        self, model: AcousticModel, front_ends: Mapping[str, FrontEnd], log_priors: Tensor
    ) -> None:
        """Copy what a `TrainedNetwork` consists of; InputError for strides and segments."""
        super().__init__()
        if model.output_stride > 1:
            raise InputError(
                f"the network has outputs of {describe_stride(model.output_stride)}, which no"
                " exporter writes down; use bayes-asr forward, or bayes_asr.load in Python"
            )
        strided = [name for name, stride in model.strides.items() if stride > 1]
        if strided:
            raise InputError(
                f"layer {strided[0]} computes {describe_stride(model.strides[strided[0]])}, which"
                " no exporter writes down for every length; train a network with stride: 1 and no"
                " pool"
            )
        layers = zip(model.names, model.layers, strict=True)
        segmented = [name for name, layer in layers if not layer.exportable]
        if segmented:
            raise InputError(
                f"layer {segmented[0]} begins anew in each segment, which no exporter writes down"
                " for every length; train a network without segments"
            )
        self.model, self.front_ends = deepcopy(model), front_ends
        for number, front_end in enumerate(front_ends.values()):
            content = front_end.content()
            for name in ("mean", "deviation"):
                values = torch.from_numpy(content[name]).clone()
                self.register_buffer(_name_buffer(name, number), values)
        self.register_buffer("log_priors", log_priors.clone())
        self.float().eval().requires_grad_(False)

    def _inputs(self, prepared: Iterable[Tensor]) -> dict[str, Tensor]:
        """The inputs of the layers [T, F'], by the names of the streams."""
        return {
            name: (x_TF - self._buffer("mean", number)) / self._buffer("deviation", number)
            for number, (name, x_TF) in enumerate(zip(self.front_ends, prepared, strict=True))
        }

    def _buffer(self, name: str, number: int) -> Tensor:
        return cast(Tensor, getattr(self, _name_buffer(name, number)))

    def _read_out(self, hidden_TH: Tensor) -> Tensor:
        """Log-likelihoods [T, P] by what the heads read."""
        if not self.exact_head:
            return self.model.read_out(hidden_TH) - self.log_priors
        head = cast(Linear, self.model.heads[0])
        logits_TP = hidden_TH.double() @ head.weight.double().T + head.bias.double()
        return (logits_TP.log_softmax(1) - self.log_priors).float()


def _name_buffer(name: str, number: int) -> str:
    """The name of the mean or deviation of a stream; those of the first have no number."""
    return f"{name}{number + 1}" if number else name


class ExportableUtterance(ExportableNetwork):
    """One utterance: features [T, F] -> log-likelihoods [T, P], T >= 1, float32.

    Further streams are further arguments, in the order of `front_ends`, at the frames of the first.
    Of one that comes at another rate, deltas and context are the caller's, too.
    """

    def forward(self, features: Tensor, *further: Tensor) -> Tensor:
        """Return log p(pdf|x) - log p(pdf) [T, P]; deltas and context are appended here."""
        if torch.jit.is_tracing() and self.model.unrolled:  # type: ignore[attr-defined]
            raise InputError(
                "TorchScript would write down one length of utterances for a recurrent network;"
                " use torch.export or ONNX (bayes-asr export --torch, --onnx)"
            )
        prepared = [
            append_context(x_TF, **inner_front_end(front_end).shape)
            for x_TF, front_end in zip((features, *further), self.front_ends.values(), strict=True)
        ]
        frames = PackedFrames((prepared[0].shape[0],))
        return self._read_out(self.model.hidden(self._inputs(prepared), frames))


class ExportableStep(ExportableNetwork):
    """The next frames of an utterance, for networks that do not look ahead."""

    def forward(
        self, prepared: Tensor | list[Tensor], begins: Tensor, states: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the log-likelihoods [T, P] of the next frames, and the states after them.

        prepared: features with deltas and context [T, F'], T >= 1; a list of them where there are
        several streams. begins: whether the utterance begins here [], in which case `states` are of
        any values. states: what the call before returned, each [1, 1, H].
        """
        # A state is the initial one where the utterance begins: no branch, which tracing would fix.
        passed = iter(states)
        previous = [
            tuple(torch.where(begins, initial, next(passed)) for initial in layer)
            for layer in self.model.begin()
        ]
        streams = [prepared] if isinstance(prepared, Tensor) else prepared
        hidden, following = self.model.advance(self._inputs(streams), previous)
        return self._read_out(hidden), [state for layer in following for state in layer]


def inner_front_end(front_end: FrontEnd) -> FrontEnd:
    """The part of a front end that a network of utterances does itself, besides normalisation."""
    if front_end.subsampling == 1:
        return front_end
    return replace(front_end, deltas=0, left_context=0, right_context=0)


def append_context(x_TF: Tensor, *, order: int, left: int, right: int) -> Tensor:
    """Append deltas of `order`, then context, as `features.front_end.append_context`."""
    parts = [x_TF]
    # Deltas as products with windows of frames: each order reads the features themselves.
    for weights in regression_weights(order):
        reach = len(weights) // 2
        around = torch.from_numpy(weights).to(x_TF)
        parts.append((_around(x_TF, reach, reach) * around[:, None]).sum(1))
    x_TF = torch.cat(parts, 1) if order else x_TF
    return _around(x_TF, left, right).flatten(1) if left or right else x_TF


def _around(x_TF: Tensor, left: int, right: int) -> Tensor:
    """Each frame with its neighbours [T, left+1+right, F]; the ends repeat beyond themselves."""
    frames = x_TF.shape[0]
    offsets = torch.arange(-left, right + 1, device=x_TF.device)
    positions = torch.arange(frames, device=x_TF.device)[:, None] + offsets
    return x_TF[positions.clamp(0, frames - 1)]
