"""A trained network as plain torch: what exporters can write down for any number of frames.

It computes in single precision, by the equations of `nn/units` alone. What is the speaker's has
been taken out of the features before.
"""

from copy import deepcopy

import torch
from torch import Tensor, nn

from bayes_asr.errors import InputError
from bayes_asr.features.front_end import FrontEnd, regression_weights
from bayes_asr.nn.frames import Frames
from bayes_asr.nn.network import AcousticModel


class PlainNetwork(nn.Module):
    """What the two forms of a plain network share: normalisation, the model, priors."""

    mean: Tensor
    deviation: Tensor
    log_priors: Tensor

    def __init__(
        self, model: AcousticModel, stream_name: str, front_end: FrontEnd, log_priors: Tensor
    ) -> None:
        """Copy what a `TrainedNetwork` of one stream consists of; InputError for strides."""
        super().__init__()
        strided = [name for name, stride in model.strides.items() if stride > 1]
        if strided:
            raise InputError(
                f"layer {strided[0]} computes one of {model.strides[strided[0]]} frames, which no"
                " exporter writes down for every length; train a network with stride: 1"
            )
        self.model, self.stream_name, self.front_end = deepcopy(model), stream_name, front_end
        content = front_end.content()
        for name in ("mean", "deviation"):
            self.register_buffer(name, torch.from_numpy(content[name]).clone())
        self.register_buffer("log_priors", log_priors.clone())
        self.float().eval().requires_grad_(False)

    def _input(self, prepared_TF: Tensor) -> dict[str, Tensor]:
        """What the first layer reads [T, F'], by the name of its stream."""
        return {self.stream_name: (prepared_TF - self.mean) / self.deviation}

    def _read_out(self, hidden_TH: Tensor) -> Tensor:
        """Log-likelihoods [T, P] by what the heads read."""
        return self.model.log_posteriors(hidden_TH) - self.log_priors


class PlainUtterance(PlainNetwork):
    """One utterance: features [T, F] -> log-likelihoods [T, P], T >= 1, float32."""

    def forward(self, features: Tensor) -> Tensor:
        """Return log p(pdf|x) - log p(pdf) [T, P]; deltas and context are appended here."""
        if torch.jit.is_tracing() and self.model.unrolled:  # type: ignore[attr-defined]
            raise InputError(
                "TorchScript would write down one length of utterances for a recurrent network;"
                " use torch.export or ONNX (bayes-asr export --torch, --onnx)"
            )
        x_TF = append_context(features, **self.front_end.shape)
        return self._read_out(self.model.hidden(self._input(x_TF), Frames((x_TF.shape[0],))))


class PlainStep(PlainNetwork):
    """The next frames of an utterance, for networks that do not look ahead."""

    def forward(
        self, prepared: Tensor, begins: Tensor, states: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the log-likelihoods [T, P] of the next frames, and the states after them.

        prepared: features with deltas and context [T, F'], T >= 1. begins: whether the utterance
        begins here [], in which case `states` are of any values. states: what the call before
        returned, each [1, 1, H].
        """
        given = iter(states)
        before = [
            tuple(torch.where(begins, first, next(given)) for first in layer)
            for layer in self.model.begin()
        ]
        hidden, after = self.model.advance(self._input(prepared), before)
        return self._read_out(hidden), [state for layer in after for state in layer]


def append_context(x_TF: Tensor, *, order: int, left: int, right: int) -> Tensor:
    """Append deltas of `order`, then context, as `features.front_end.append_context`."""
    parts = [x_TF]
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
