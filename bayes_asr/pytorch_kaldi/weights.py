"""The networks that pytorch-kaldi saves: `model_par` of its .pkl files, as named tensors."""

import os
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import is_there, open_to_read
from bayes_asr.base.saved_tensors import read_saved

NETWORK = "model_par"
TYPES = (torch.float32, torch.float64, torch.float16, torch.int64)
INPUT_NORMS, LAYER_NORMS = ("bn0", "ln0"), ("bn", "ln")
STACKED = re.compile(r"(?:lstm|gru|rnn)\.0\.((?:weight|bias)_[ih]h)_l(\d{1,4})((?:_reverse)?)")
"""A tensor of torch.nn.LSTM, GRU or RNN, which the cuDNN classes hold: all layers in one module."""


@dataclass(frozen=True)
class Weights:
    """The weights of one network.

    layers: of each layer its tensors by the name of the module and the kind, as `wh.weight`,
    `bn_wh.running_mean`, those of the cuDNN classes as `weight_hh_reverse`; inputs: those of the
    norm before the first layer, as `bn0.weight`.
    """

    path: Path
    layers: tuple[Mapping[str, Tensor], ...]
    inputs: Mapping[str, Tensor]
    _taken: set[tuple[int, str] | str] = field(default_factory=set)

    def take(self, number: int, name: str) -> Tensor:
        """A tensor of a layer, counted from 0; InputError where it is missing."""
        if name not in self.layers[number]:
            raise InputError(
                f"{self.path}: layer {number + 1} has no {name}; was the class another?"
            )
        self._taken.add((number, name))
        return self.layers[number][name]

    def take_input(self, name: str) -> Tensor:
        """A tensor of the norm of the input; InputError where it is missing."""
        if name not in self.inputs:
            raise InputError(f"{self.path}: there is no {name}; was the class another?")
        self._taken.add(name)
        return self.inputs[name]

    def refuse_rest(self) -> None:
        """InputError where nothing has taken a tensor, as of a gate or a bias of another class.

        Norms of layers do not count: theirs makes them for all, used or not.
        """
        rest = [name for name in self.inputs if name not in self._taken]
        rest += [
            f"{name} of layer {number + 1}"
            for number, layer in enumerate(self.layers)
            for name in layer
            if (number, name) not in self._taken and not name.startswith(LAYER_NORMS)
        ]
        if rest:
            raise InputError(
                f"{self.path}: has {name_some(rest)}, which the configuration does not explain; was"
                " the class another, or a norm?"
            )


def check_there(path: Path) -> None:
    """InputError where there is no such file."""
    if not is_there(path):
        raise InputError(
            f"{path}: not there; name a file such as exp_files/final_architecture1.pkl"
        )


def read_weights(path: Path) -> Weights:
    """Read a .pkl file of pytorch-kaldi: tensors and plain values alone, nothing is executed.

    InputError where it holds anything else, or no network.
    """
    check_there(path)
    try:
        with open_to_read(str(path)) as file:
            content = read_saved(file, os.fstat(file.fileno()).st_size)
    except OSError:  # which names the file
        raise
    except pickle.UnpicklingError:
        raise InputError(
            f"{path}: holds other things than tensors and plain values, which might be code: it is"
            " not read; a file of pytorch-kaldi has model_par and optimizer_par alone"
        ) from None
    except Exception as error:  # many kinds for a damaged file
        message = " ".join(str(error).split())[:100]
        raise InputError(f"{path}: cannot be read as a file of pytorch-kaldi: {message}") from None
    state = content.get(NETWORK) if isinstance(content, Mapping) else None
    if not isinstance(state, Mapping):
        raise InputError(f"{path}: has no {NETWORK}; is it a file of pytorch-kaldi?")
    return _sort(path, state)


def _sort(path: Path, tensors: Mapping[str, Tensor]) -> Weights:
    """Tensors by layer, of names such as `wh.0.weight`, `bn0.weight`, `module.wh.0.weight` and
    `lstm.0.weight_ih_l0`.
    """
    layers: dict[int, dict[str, Tensor]] = {}
    inputs: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise InputError(f"{path}: {NETWORK} has {name}, which is no name of a tensor")
        # Training on several GPUs puts `module.` before each name.
        name = name.removeprefix("module.")
        parts = name.split(".")
        if not isinstance(tensor, Tensor) or tensor.dtype not in TYPES:
            raise InputError(f"{path}: {name[:60]} is no tensor of {' or '.join(map(str, TYPES))}")
        if not tensor.isfinite().all():
            raise InputError(
                f"{path}: {name[:60]} has numbers that are not finite: the training diverged; take"
                " a file of an earlier epoch"
            )
        if parts[0] in INPUT_NORMS and len(parts) == 2:
            inputs[".".join(parts)] = tensor
        elif stacked := STACKED.fullmatch(name):
            # `weight_ih_l0_reverse` is of layer 0, and of its backward direction.
            kind, number, reverse = stacked.groups()
            layers.setdefault(int(number), {})[kind + reverse] = tensor
        elif len(parts) == 3 and parts[1].isdecimal() and len(parts[1]) < 5:
            layers.setdefault(int(parts[1]), {})[f"{parts[0]}.{parts[2]}"] = tensor
        else:
            raise InputError(f"{path}: {name[:60]} is no tensor of a layer of pytorch-kaldi")
    # A gap in the numbers means that tensors are missing.
    if sorted(layers) != list(range(len(layers))) or not layers:
        raise InputError(f"{path}: has layers {', '.join(map(str, sorted(layers))) or 'none'}")
    return Weights(path, tuple(layers[number] for number in sorted(layers)), inputs)
