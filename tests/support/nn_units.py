"""Every unit, small and with random weights, for the tests of the networks."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bayes_asr.nn.frames import Frames, pack, unpack
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.nn.units.bayesian import CELLS, FORMS, cell_class


def variants() -> Iterator[dict[str, Any]]:
    """Every unit in every form with every value of every option.

    Activations are varied where their derivatives are written by hand in `Cell.partials` only.
    """
    for unit in CELLS:
        for form in FORMS.get(unit, {None: None}):
            cell = cell_class(unit, form)
            options = dict(cell.options)
            if cell.resets or not cell.recurrent:
                options.pop("activation", None)
            fixed = {} if form is None else {"form": form}
            for values in itertools.product(*(dict.fromkeys(v) for v in options.values())):
                chosen = {k: v for k, v in zip(options, values, strict=True) if v is not None}
                yield {"unit": unit, "options": {**fixed, **chosen}}


UNITS = list(variants())
RECURRENT = [u for u in UNITS if cell_class(u["unit"]).states]
FUSED = [u for u in RECURRENT if cell_class(u["unit"]).fusible]
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


def model(
    inputs: int = 3, outputs: int = 4, units: tuple[int, ...] = (4, 3), **options: Any
) -> AcousticModel:
    """A small network in double precision whose every parameter is random."""
    torch.manual_seed(1)
    options = {"dropout": 0.0, **options}
    built = AcousticModel(inputs, [outputs], units=units, **options).double()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for key, buffer in built.named_buffers():
            if key.endswith("running_mean"):
                buffer.normal_()
    return built


def layer(**options: Any) -> RecurrentLayer:
    """One small layer of 4 units a direction on 3 inputs."""
    (only,) = model(units=(4,), **options).layers
    assert isinstance(only, RecurrentLayer)
    return only


def logits(net: AcousticModel, sequences: list[Tensor]) -> list[Tensor]:
    """Logits [T, outputs] of sequences [T, F], computed together."""
    x, frames, order = pack(sequences)
    return unpack(net(x, frames)[0], frames, order)


def batch(lengths: tuple[int, ...] = LENGTHS, inputs: int = 3) -> tuple[Tensor, Frames]:
    """Random packed features [N, F] in double precision."""
    torch.manual_seed(2)
    return torch.randn(sum(lengths), inputs, dtype=torch.float64), Frames(lengths)
