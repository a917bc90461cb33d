"""Checkpoints: tensors and plain values only, so that loading one never runs code.

One is read as its schema says (`schema`), or not at all.

A run keeps `last.pt`, of its last complete epoch; `last.prev.pt`, the one before; and, while an
epoch is trained, `unfinished.pt`. At every moment one of them is complete.
"""

import errno
import io
import os
import pickle
from pathlib import Path
from typing import Any

import torch

from bayes_asr.base.errors import InputError, is_lack_of_memory
from bayes_asr.base.files import is_there, open_to_read, replacing
from bayes_asr.base.log import LOGGER
from bayes_asr.base.saved_tensors import read_saved
from bayes_asr.config.catalogue import find
from bayes_asr.train.runs import schema

FORMAT = 2
READABLE = (1, FORMAT)  # 1 is that of version 0.1
UPGRADE = "train.runs.version_0_1:upgrade"
BEST = "best.pt"  # the network with the lowest dev frame error
LAST, PREVIOUS, UNFINISHED = "last.pt", "last.prev.pt", "unfinished.pt"
RESUMED = (UNFINISHED, LAST, PREVIOUS)  # what a run can go on from
FIRST = "first.pt"  # what last.pt is called while the run that was there is discarded


class DamagedError(InputError):
    """A file that is there, but is no checkpoint or has lost some of it."""


def has_begun(run: Path) -> bool:
    """Whether a run has left something to go on from."""
    return any((run / name).exists() for name in RESUMED)


def save(path: Path, content: dict[str, Any], *, keep: Path | None = None) -> None:
    """Write a checkpoint, complete or not at all.

    keep: the name that a checkpoint already at `path` gets, which is there until the new one is.
    """
    buffer = io.BytesIO()  # torch's own writing turns a full disk into a RuntimeError
    torch.save({"format": FORMAT, **content}, buffer)
    with replacing(path) as temporary:
        temporary.write_bytes(buffer.getbuffer())
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
    """Read a checkpoint; InputError where there is none, it is damaged or of another format.

    OSError or MemoryError where the file may be whole, but cannot be read here and now.
    """
    try:
        with open_to_read(str(path)) as file:
            content = read_saved(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no checkpoint; train first") from None
    except Exception as error:  # many kinds for a damaged file
        _raise_if_undamaged(path, error)
        raise DamagedError(f"{path}: cannot be read as a checkpoint: {_explain(error)}") from None
    if not isinstance(content, dict) or content.get("format") not in READABLE:
        raise InputError(
            f"{path}: not a checkpoint of format {FORMAT}; train again with this version"
        )
    try:
        if "history" in content or "front_ends" not in content:
            content = find(UPGRADE)(content, path.parent)
        schema.check_network(content)
        if path.name != BEST:
            schema.check_training(content)
    except InputError:  # of config.yaml
        raise
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        message = " ".join(str(error).split())
        raise DamagedError(
            f"{path}: does not hold the network that it describes: {message}; train it again"
        ) from None
    return content


def _raise_if_undamaged(path: Path, error: Exception) -> None:
    """Raise errors that say nothing of the content: of the disk, permissions, memory."""
    damage_codes = (
        None,
        errno.EINVAL,
    )  # EINVAL: a damaged index has a position before the beginning
    if isinstance(error, OSError) and error.errno not in damage_codes:
        raise OSError(error.errno, error.strerror, str(path)) from None
    if is_lack_of_memory(error):
        raise MemoryError(
            f"{path}: {path.stat().st_size} bytes cannot be loaded; close other programs, or raise"
            " the limit on memory (ulimit -v), and give the same command again"
        ) from None


def _explain(error: Exception) -> str:
    """Reason that torch gives, without its advice, which is to run the code in the file."""
    if isinstance(error, pickle.UnpicklingError):
        return "it holds other things than tensors and plain values, which might be code"
    return " ".join(str(error).split())[:200] or type(error).__name__


def read_newest(run: Path, names: tuple[str, ...] = RESUMED) -> dict[str, Any]:
    """Read the checkpoint of a run that is furthest on; empty where there is none.

    A damaged one is set aside with a warning; InputError where that leaves none.
    """
    readable, damaged = [], []
    for path in (run / name for name in names):
        try:
            readable += [read(path)] if is_there(path) else []
        except DamagedError as error:
            damaged.append(path)
            new_path = path.replace(path.with_name(f"{path.name}.damaged"))
            LOGGER.warning(
                "%s; it is set aside as %s, and the one before it is used", error, new_path
            )
    if damaged and not readable:
        raise InputError(
            f"{damaged[0]}: damaged, and there is no other checkpoint to go on from; start over"
            " with --new"
        )
    return max(readable, key=_position, default={})


def _position(content: dict[str, Any]) -> tuple[int, int, int]:
    """Progress for comparison: epochs, returns to the last of them, batches since then."""
    totals = content.get("totals")
    position = totals["batches"] + len(totals["skipped"]) if totals else 0
    return len(content["dev_errors"]), content.get("returns", 0), position
