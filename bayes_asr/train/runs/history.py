"""The history of a run: a line of JSON for each epoch, and curves of it for TensorBoard."""

import json
import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, replacing
from bayes_asr.base.log import LOGGER
from bayes_asr.kaldi_io.side_files import HISTORY, read_history


def append_to_history(run: Path, entry: Mapping[str, Any]) -> None:
    """Add the line of an epoch to history.jsonl."""
    history = run / HISTORY
    with replacing(history) as temporary:
        if is_there(history):
            shutil.copyfile(history, temporary)
        with temporary.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def truncate_history(run: Path, last: Mapping[str, Any] | None) -> None:
    """Truncate history.jsonl after the epoch that a run goes on from; None: it has none.

    Later epochs are trained anew. Lines that were lost are said; a damaged file is set aside.
    """
    history = run / HISTORY
    epoch = last["epoch"] if last else 0
    try:
        entries = [entry for entry in read_history(run) if entry["epoch"] < epoch]
    except InputError as error:
        entries = []
        new_path = history.replace(history.with_name(f"{history.name}.damaged"))
        LOGGER.warning("%s; it is set aside as %s", error, new_path)
    if len(entries) < epoch - 1:
        LOGGER.warning("%s: lacks %d of %d epochs", history, epoch - 1 - len(entries), epoch)
    # The line of the epoch itself comes from the checkpoint: the history is written after it.
    entries += [dict(last)] if last else []
    with replacing(history) as temporary:
        temporary.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


TENSORBOARD = "tensorboard"  # folder of its curves


def check_tensorboard() -> None:
    """Refuse `train.tensorboard` where TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        raise InputError(
            "train.tensorboard is true, but TensorBoard is not installed; pip install tensorboard,"
            " or leave train.tensorboard false: history.jsonl says the same"
        )


class Board:
    """Curves of a run, in RUN/tensorboard: written anew from its history whenever it goes on."""

    def __init__(self, run: Path, history: Sequence[Mapping[str, Any]]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        shutil.rmtree(run / TENSORBOARD, ignore_errors=True)
        self._writer = SummaryWriter(run / TENSORBOARD)
        for entry in history:
            self.add(entry)

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add an epoch of the history."""
        for key, value in entry.items():
            if key != "epoch" and isinstance(value, int | float):
                self._writer.add_scalar(key, value, entry["epoch"])
        self._writer.flush()
