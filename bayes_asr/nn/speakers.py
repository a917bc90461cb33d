"""Activations of several speakers in one network: speaker-adaptive training.

Zhang & Woodland (2015) have parameters of activations that are speaker-dependent. Here each speaker
of the training data has a set of them, trained with the weights that all speakers share. Who is not
among these speakers is computed by the mean of their sets.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from bayes_asr.base.errors import InputError
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.layer import Layer
from bayes_asr.nn.network import AcousticModel


class SpeakerActivations:
    """Speaker-dependent parameters of activations in a model; each begins with its values.

    The model's `activation_parameters` become [S, sets, H], a set of each of the S speakers `names`
    in this order. Its recurrences run by `scan`: faster code knows one set for all sequences.
    """

    def __init__(self, model: AcousticModel, names: Sequence[str]) -> None:
        self.numbers = {name: number for number, name in enumerate(names)}
        self._model = model
        for layer in model.layers:
            for activation in _find_activations(layer):
                cast(Layer, layer).fused = False
                for key, parameter in list(activation.named_parameters()):
                    values = parameter.detach().repeat(len(names), 1, 1)
                    setattr(activation, key, nn.Parameter(values))

    @torch.no_grad()
    def content(self) -> dict[str, Any]:
        """The model's part of a checkpoint: its state with the mean of all speakers, and the
        parameters of each by name, [sets, H].
        """
        activations = self._model.activation_parameters
        state = self._model.state_dict()
        # With the mean in their place, the state is that of a model without speakers.
        state |= {key: state[key].mean(0) for key in self._keys().values()}
        speakers = {
            name: {parameter: values[number].clone() for parameter, values in activations.items()}
            for name, number in self.numbers.items()
        }
        return {"model": state, "speakers": speakers}

    def restore(self, content: Mapping[str, Any]) -> None:
        """Go on from what `content` returned; InputError where that is of other speakers."""
        speakers = content.get("speakers", {})
        if different := sorted(speakers.keys() ^ self.numbers.keys()):
            raise InputError(
                f"the run was begun with activations of {len(speakers)} speakers, but these data"
                f" have {len(self.numbers)}, {different[0]} in one of the two alone; put utt2spk"
                " back"
            )
        stacked = {
            key: torch.stack([speakers[speaker][name] for speaker in self.numbers])
            for name, key in self._keys().items()
        }
        self._model.load_state_dict({**content["model"], **stacked})

    def _keys(self) -> dict[str, str]:
        """The key of each of the `activation_parameters` in the model's state."""
        # Names of layers differ from the numbers in the state: the same object is the link.
        keys = {id(parameter): key for key, parameter in self._model.named_parameters()}
        return {name: keys[id(p)] for name, p in self._model.activation_parameters.items()}


def set_speakers(model: AcousticModel, speakers_B: Tensor | None, frames: PackedFrames) -> None:
    """Set the speakers whose activations compute the sequences of the next batch.

    speakers_B: numbers of `SpeakerActivations`; None: the mean for all, or the only set.
    """
    for number, layer in enumerate(model.layers):
        speakers = speakers_B
        # Recurrences compute [B, ...] at a time step, other layers [N, ...] at all frames.
        if speakers_B is not None and not layer.unrolled:
            speakers = speakers_B[frames.every(model.read_stride(number)).sequence]
        for activation in _find_activations(layer):
            activation.speakers = speakers  # type: ignore[assignment]


def _find_activations(layer: nn.Module) -> list[nn.Module]:
    """The activations whose parameters may be of speakers (`activations.Parameterised`)."""
    return [part for part in layer.modules() if hasattr(part, "speakers")]
