"""Checkpoints: tensors and plain values only, so that loading one never runs code.

A run keeps `last.pt`, of its last complete epoch; `last.prev.pt`, the one before; and, while an
epoch is trained, `unfinished.pt`. At every moment one of them is complete.
"""

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from bayes_asr.errors import InputError
from bayes_asr.files import replacing
from bayes_asr.log import LOGGER
from bayes_asr.nn.model import AcousticModel

FORMAT = 1
LAST, PREVIOUS, UNFINISHED = "last.pt", "last.prev.pt", "unfinished.pt"
FIRST = "first.pt"  # what last.pt is called while the run that was there is discarded


class DamagedError(InputError):
    """A file that is there, but is no checkpoint or has lost some of it."""


def save(path: Path, content: dict[str, Any], *, keep: Path | None = None) -> None:
    """Write a checkpoint, complete or not at all.

    keep: the name that a checkpoint already at `path` gets, which is there until the new one is.
    """
    bytes_of = io.BytesIO()  # torch's own writing turns a full disk into a RuntimeError
    torch.save({"format": FORMAT, **content}, bytes_of)
    with replacing(path) as temporary:
        temporary.write_bytes(bytes_of.getbuffer())
        if keep and path.exists():
            _link(path, keep)


def _link(path: Path, name: Path) -> None:
    """Give a file a second name, in place of what has that name; else move it there."""
    try:
        with replacing(name) as temporary:
            os.link(path, temporary)
    except OSError:  # a file system without links
        path.replace(name)


def read(path: Path) -> dict[str, Any]:
    """Read a checkpoint; InputError where there is none, it is damaged or of another format."""
    try:
        _check_sums(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no checkpoint; train first") from None
    except Exception as error:  # torch raises many kinds for a damaged file
        raise DamagedError(f"{path}: cannot be read as a checkpoint: {_why(error)}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(
            f"{path}: not a checkpoint of format {FORMAT}; train again with this version"
        )
    return content


def _why(error: Exception) -> str:
    """What torch found, without its advice, which is to run the code in the file."""
    if isinstance(error, pickle.UnpicklingError):
        return "it holds other things than tensors and plain values, which might be code"
    return " ".join(str(error).split())[:200] or type(error).__name__


def _check_sums(path: Path) -> None:
    """Compare the bytes with their check sums, which torch does not do."""
    with zipfile.ZipFile(path) as file:
        damaged = file.testzip()
    if damaged:
        raise zipfile.BadZipFile(f"the check sum of {damaged} is wrong")


def newest(run: Path, names: tuple[str, ...] = (UNFINISHED, LAST, PREVIOUS)) -> dict[str, Any]:
    """The checkpoint of a run that is furthest on; empty where there is none.

    One that is damaged is said and set aside; InputError where that leaves none.
    """
    found, damaged = [], []
    for path in (run / name for name in names):
        try:
            found += [read(path)] if path.exists() else []
        except DamagedError as error:
            damaged.append(path)
            aside = path.replace(path.with_name(f"{path.name}.damaged"))
            LOGGER.warning("%s; it is set aside as %s, and the one before it is used", error, aside)
    if damaged and not found:
        raise InputError(
            f"{damaged[0]}: damaged, and there is no other checkpoint to go on from; start over"
            " with --new"
        )
    return max(found, key=_progress, default={})


def _progress(content: dict[str, Any]) -> tuple[int, int, int]:
    """How far the training was: epochs, returns to the last of them, batches since then."""
    totals = content.get("totals")
    position = totals["batches"] + len(totals["skipped"]) if totals else 0
    return len(content["history"]), content.get("returns", 0), position


def built_model(content: dict[str, Any]) -> AcousticModel:
    """Build the network of a checkpoint with its weights, in no more memory than these take."""
    with torch.device("meta"):  # however large the network is said to be
        model = AcousticModel(**content["architecture"])
    model.load_state_dict(content["model"], assign=True)
    return model
