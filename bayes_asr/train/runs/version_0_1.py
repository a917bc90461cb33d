"""Checkpoints of version 0.1, as this version has them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from bayes_asr.config.merge import load_section
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.kaldi_io.side_files import CONFIG
from bayes_asr.nn.layer import describe_layers


def upgrade(content: dict[str, Any], run: Path) -> dict[str, Any]:
    """The content of a checkpoint of `run`, brought to this version.

    In version 0.1 it held the whole history, and the front end was divided:
    normalisation by speaker, deltas and context stood in the configuration alone.
    """
    if "history" in content:
        history = content["history"]
        errors = torch.tensor([entry["dev_error"] for entry in history], dtype=torch.float64)
        content = content | {"dev_errors": errors, "entry": history[-1] if history else None}
    if "front_ends" in content:
        return content
    moved = ("mean", "deviation", "frontend")
    options = vars(load_section("features", [run / CONFIG]))
    front_end = {
        **options,
        "mean": content["mean"],
        "deviation": content["deviation"],
        "sound": content.get("frontend"),
    }
    return {
        **{key: value for key, value in content.items() if key not in moved},
        "architecture": upgrade_architecture(content["architecture"]),
        "front_ends": {FEATURES: front_end},
    }


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
