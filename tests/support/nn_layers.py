"""Every kind of layer in every form, small and with random weights, for the tests of networks."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch

from bayes_asr.config.catalogue import LAYERS
from bayes_asr.config.merge import load
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.components import architecture

INPUTS = 12
STREAM = "features"
SMALL: dict[str, dict[str, Any]] = {
    "recurrent": {"units": 6},
    "mlp": {"units": 6},
    "conv1d": {"channels": 6, "dilation": 2},
    "conv2d": {"channels": 4, "input_channels": 2, "padding": 1, "pooling": 2},
    "sinc": {"channels": 3, "kernel": 5},
    "projection": {"units": 6},
    "pool": {"units": 6},
    "segments": {"units": 6, "segment": 4, "shift": 3},
}
"""Options with which a kind fits 12 inputs; a kind that is not here has those of base.yaml."""
MORE: dict[str, list[dict[str, Any]]] = {
    "recurrent": [{"unit": "lstm", "bidirectional": False, "norm": "layer"}, {"unit": "mlp"}],
    "mlp": [{"activation": "log-softmax"}, {"activation": "p-sigmoid"}],
    "conv1d": [{"stride": 3}, {"stride": 2, "causal": True}, {"kernel": 1}, {"kernel": 4}],
    "conv2d": [
        {"kernel": [1, 3], "stride": 2},
        {"kernel": [4, 2], "dilation": 2},
        {"input_channels": None, "padding": 0, "pooling": 3, "causal": True},
    ],
    "sinc": [{"stride": 2, "pooling": 1}],
    "pool": [
        {"of": "last", "directions": 2},
        {"of": "last", "directions": 2, "segment": 4, "shift": 3},
        {"of": "attention", "segment": 5, "shift": 2},
    ],
    "segments": [{"unit": "lstm", "segment": 2, "shift": 1}, {"unit": "li-bru", "segment": 90}],
}
"""Further forms than every value of every option that has few."""


def forms() -> Iterator[dict[str, Any]]:
    """Each kind of the catalogue with every value of its options of few values, one at a time."""
    kinds = load([]).model.kinds
    for kind in LAYERS:
        plain = {"kind": kind, "dropout": 0.0, **SMALL.get(kind, {})}
        section = getattr(kinds, kind, None)
        hints = get_type_hints(type(section)) if section else {}
        if section and "dropout" not in hints:
            del plain["dropout"]
        yield plain
        for name, hint in hints.items():
            values = get_args(hint) if get_origin(hint) is Literal else ()
            values = (False, True) if hint is bool else values
            others = (value for value in values if value != plain.get(name, getattr(section, name)))
            yield from ({**plain, name: value} for value in others)
        yield from ({**plain, **more} for more in MORE.get(kind, []))


FORMS = list(forms())


def name_form(form: Mapping[str, Any]) -> str:
    """What a parametrised test is called."""
    return ",".join(str(value) for value in form.values()).replace(" ", "")


def stacked(*stack: Mapping[str, Any], heads: Mapping[str, str] | None = None) -> AcousticModel:
    """A network of this stack in double precision, on 12 inputs, whose parameters are random."""
    plan = _plan(json.dumps(list(stack)), json.dumps(dict(heads or {})))
    torch.manual_seed(1)
    built = AcousticModel(**plan).double()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for key, buffer in built.named_buffers():
            if key.endswith("running_mean"):
                buffer.normal_()
    return built


@cache
def _plan(stack: str, heads: str) -> dict[str, Any]:
    model = load([], [f"model.stack={stack}", f"model.heads={heads}"]).model
    return architecture(model, {STREAM: INPUTS}, {"pdfs": 4, "monophones": 3})


def network_of(form: Mapping[str, Any], **more: Any) -> AcousticModel:
    """A network whose first layer has this form; a small one follows."""
    return stacked(
        {"name": "tested", **form, **more},
        {"name": "last", "kind": "mlp", "units": 5, "norm": "none"},
    )
