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
from bayes_asr.nn.units.activations import Parameterised


class SpeakerActivations:
    """The parameters that some speakers have of their own in a model; each begins with its values.

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
                    own = parameter.detach().repeat(len(names), 1, 1)
                    setattr(activation, key, nn.Parameter(own))

    @torch.no_grad()
    def content(self) -> dict[str, Any]:
        """What a checkpoint holds of the model: it with the mean of all, and what each speaker has,
        by name, [sets, H] of each parameter.
        """
        own = self._model.activation_parameters
        state = self._model.state_dict()
        state |= {key: state[key].mean(0) for key in self._keys().values()}
        speakers = {
            name: {parameter: values[number].clone() for parameter, values in own.items()}
            for name, number in self.numbers.items()
        }
        return {"model": state, "speakers": speakers}

    def restore(self, content: Mapping[str, Any]) -> None:
        """Go on from what `content` returned; InputError where that is of other speakers."""
        speakers = content["speakers"]
        if other := sorted(speakers.keys() ^ self.numbers.keys()):
            raise InputError(
                f"the run was begun with activations of {len(speakers)} speakers, but these data"
                f" have {len(self.numbers)}, {other[0]} in one of the two alone; put utt2spk back,"
                " or start over with --new"
            )
        stacked = {
            key: torch.stack([speakers[speaker][name] for speaker in self.numbers])
            for name, key in self._keys().items()
        }
        self._model.load_state_dict({**content["model"], **stacked})

    def _keys(self) -> dict[str, str]:
        """What each of the `activation_parameters` is called in the model's state."""
        keys = {id(parameter): key for key, parameter in self._model.named_parameters()}
        return {name: keys[id(p)] for name, p in self._model.activation_parameters.items()}


def set_speakers(model: AcousticModel, speakers_B: Tensor | None, frames: PackedFrames) -> None:
    """Say whose activations the sequences of a batch are computed by from now on.

    speakers_B: numbers of `SpeakerActivations`; None: for all, the mean, or the one set there is.
    """
    for number, layer in enumerate(model.layers):
        told = speakers_B
        if speakers_B is not None and not layer.unrolled:
            told = speakers_B[frames.every(model.read_stride(number)).sequence]
        for activation in _find_activations(layer):
            activation.speakers = told


def _find_activations(layer: nn.Module) -> list[Parameterised]:
    return [part for part in layer.modules() if isinstance(part, Parameterised)]
