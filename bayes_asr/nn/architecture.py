"""Architectures of networks as plain values: the arguments that `AcousticModel` takes."""

from collections.abc import Mapping, Sequence
from typing import Any

LAYER_KEYS = ("name", "kind", "reads", "join", "residual")
"""Keys that the description of any layer may have, beside the options of its kind."""


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


def upgrade_architecture(old: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `AcousticModel` for those of version 0.1, which had one unit and one stream.

    Arguments that are left out, as in folded networks, have the defaults of that version.
    """
    options = {
        key: value for key, value in old.items() if key not in ("inputs", "outputs", "units")
    }
    defaults = {
        "unit": "li-bru",
        "options": {},
        "bidirectional": True,
        "tied_directions": False,
        "norm": "batch",
        "dropout": 0.2,
        "dropout_scaling": "pytorch-kaldi",
        "input_dropout": 0.0,
        "initial_state": "fixed",
        "hand_on": "log",
        "input_init": "xavier",
    }
    return {
        "streams": {"features": old["inputs"]},
        "layers": describe_layers(old["units"], ["features"], **{**defaults, **options}),
        # Networks of one head have pdfs alone, so that the second name may be left over.
        "heads": dict(zip(("pdfs", "monophones"), old["outputs"], strict=False)),
    }
