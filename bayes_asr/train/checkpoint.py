"""Checkpoints: tensors and plain values only, so that loading one never runs code."""

from pathlib import Path
from typing import Any

import torch

from bayes_asr.errors import InputError
from bayes_asr.files import replacing
from bayes_asr.nn.model import AcousticModel

FORMAT = 1


def save(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint, complete or not at all."""
    with replacing(path) as temporary:
        torch.save({"format": FORMAT, **content}, temporary)


def read(path: Path) -> dict[str, Any]:
    """Read a checkpoint; InputError where there is none, it is damaged or of another format."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no checkpoint; train first") from None
    except Exception as error:  # torch raises many kinds for a damaged file
        raise InputError(
            f"{path}: cannot be read as a checkpoint: {' '.join(str(error).split())[:200]}"
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(
            f"{path}: not a checkpoint of format {FORMAT}; train again with this version"
        )
    return content


def built_model(content: dict[str, Any]) -> AcousticModel:
    """Build the network of a checkpoint with its weights."""
    model = AcousticModel(**content["architecture"])
    model.load_state_dict(content["model"])
    return model
