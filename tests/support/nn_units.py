"""Every unit, small and with random weights, for the tests of the networks."""

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bayes_asr.config import catalogue
from bayes_asr.data.features.front_end import FrontEnd, Normalisation
from bayes_asr.nn.frames import PackedFrames, pack, unpack
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.nn.units.cell import find_cell
from bayes_asr.train.runs.version_0_1 import upgrade_architecture


def variants() -> Iterator[dict[str, Any]]:
    """Every unit in every form with every value of every option.

    Activations are varied where their derivatives are written by hand in `Cell.partials` only.
    """
    for unit, entry in catalogue.UNITS.items():
        options = entry.options
        options.pop("dropped_candidate", None)  # changes what is dropped alone: test_dropped.py
        cell = find_cell(unit, {})
        if cell.resets or not cell.recurrent:
            options.pop("activation", None)
        for values in itertools.product(*options.values()):
            yield {"unit": unit, "options": dict(zip(options, values, strict=True))}


UNITS = list(variants())
RECURRENT = [u for u in UNITS if find_cell(u["unit"], {}).states]
FUSED = [u for u in RECURRENT if find_cell(u["unit"], {}).fusible]
CAUSAL = [u for u in RECURRENT if not u["options"].get("smooth")]
DIRECTIONS = [
    {"bidirectional": False},
    {"bidirectional": True, "tied_directions": True},
    {"bidirectional": True, "tied_directions": False},
]
LENGTHS = (5, 3, 3, 1)
KEYS = torch.tensor([11, -5, 2**40, 0])


def name(options: dict[str, Any]) -> str:
    """What a parametrised test is called."""
    if "unit" in options:
        return ",".join([options["unit"], *map(str, options["options"].values())])
    return ",".join(f"{k}={v}" for k, v in options.items())


PLAIN: dict[str, Any] = {
    "bidirectional": True,
    "tied_directions": False,
    "norm": "batch",
    "dropout": 0.0,
    "dropout_scaling": "pytorch-kaldi",
    "input_dropout": 0.0,
    "initial_state": "fixed",
    "hand_on": "log",
    "input_init": "xavier",
}


def acoustic_model(inputs: int, outputs: Sequence[int], **options: Any) -> AcousticModel:
    """A stack of one unit, by default of four layers of Li-BRU, with one head or two."""
    described = {"inputs": inputs, "outputs": outputs, "units": (550,) * 4, **options}
    return AcousticModel(**upgrade_architecture(described))


def plain_front_end(size: int) -> FrontEnd:
    """One that leaves features [T, F] as they are."""
    zeros, ones = np.zeros(size, np.float32), np.ones(size, np.float32)
    return FrontEnd(normalisation=Normalisation(zeros, ones))


def recurrent_layer(
    inputs: int,
    units: int,
    unit: str = "li-bru",
    options: Mapping[str, Any] | None = None,
    **others: Any,
) -> RecurrentLayer:
    """A layer whose options are plain where they are not given."""
    given = {**PLAIN, "options": options or {}, **others}
    return RecurrentLayer(inputs, 0, units=units, unit=unit, **given)


def gradients(
    net: RecurrentLayer, x: Tensor, frames: PackedFrames, keys: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """Outputs, and the gradients of a random projection of them by inputs and parameters."""
    x = x.to(net.W.weight.dtype).requires_grad_()
    y = net(x, frames, keys)
    torch.manual_seed(3)
    projection = torch.randn(y.shape, dtype=torch.float64).to(y.dtype)
    return y.detach(), list(torch.autograd.grad((y * projection).sum(), [x, *net.parameters()]))


def pdf_logits(
    net: AcousticModel, x_NF: Tensor, frames: PackedFrames, keys_B: Tensor | None = None
) -> Tensor:
    """Logits of the pdfs [N, P]."""
    return net({"features": x_NF}, frames, keys_B)["pdfs"]


def model(
    inputs: int = 3, outputs: int = 4, units: tuple[int, ...] = (4, 3), **options: Any
) -> AcousticModel:
    """A small network in double precision whose every parameter is random."""
    torch.manual_seed(1)
    options = {"dropout": 0.0, **options}
    built = acoustic_model(inputs, [outputs], units=units, **options).double()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for key, buffer in built.named_buffers():
            if key.endswith("running_mean"):
                buffer.normal_()
    return built


def side_by_side(nets: Sequence[AcousticModel]) -> AcousticModel:
    """A network of the first layers of several, whose outputs its heads read together."""
    names = [f"layer{number}" for number in range(len(nets))]
    layers = [
        {**net.architecture["layers"][0], "name": name}
        for name, net in zip(names, nets, strict=True)
    ]
    join = {"name": "joined", "kind": "dropout", "of": "units", "dropout": 0.0, "reads": names}
    described = nets[0].architecture
    built = AcousticModel(described["streams"], [*layers, join], described["heads"]).double()
    for layer, net in zip(built.layers, nets, strict=False):
        layer.load_state_dict(net.layers[0].state_dict())
    torch.manual_seed(2)
    torch.nn.init.normal_(built.heads[0].weight, std=0.5)  # as much of each as of one alone
    return built


def layer(**options: Any) -> RecurrentLayer:
    """One small layer of 4 units a direction on 3 inputs."""
    (only,) = model(units=(4,), **options).layers
    assert isinstance(only, RecurrentLayer)
    return only


def logits(net: AcousticModel, sequences: list[Tensor]) -> list[Tensor]:
    """Logits [T, outputs] of sequences [T, F], computed together."""
    x, frames, order = pack(sequences)
    return unpack(pdf_logits(net, x, frames), frames, order)


def batch(lengths: tuple[int, ...] = LENGTHS, inputs: int = 3) -> tuple[Tensor, PackedFrames]:
    """Random packed features [N, F] in double precision."""
    torch.manual_seed(2)
    return torch.randn(sum(lengths), inputs, dtype=torch.float64), PackedFrames(lengths)


class Processes:
    """Threads that add tensors up, as processes do."""

    def __init__(self, number: int) -> None:
        self.tensors: list[Tensor] = []
        self.barrier = threading.Barrier(number, timeout=10)

    def all_reduce(self, tensor: Tensor) -> None:
        self.tensors.append(tensor)
        self.barrier.wait()
        total = torch.stack(self.tensors).sum(0)
        self.barrier.wait()
        tensor.copy_(total)
        self.tensors.clear()
        self.barrier.wait()
