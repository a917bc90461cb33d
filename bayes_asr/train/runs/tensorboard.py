"""The history of a run for TensorBoard."""

import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError

FOLDER = "tensorboard"


def check_available() -> None:
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

        shutil.rmtree(run / FOLDER, ignore_errors=True)
        self._writer = SummaryWriter(run / FOLDER)
        for entry in history:
            self.add(entry)

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add an epoch of the history."""
        for key, value in entry.items():
            if key != "epoch" and isinstance(value, int | float):
                self._writer.add_scalar(key, value, entry["epoch"])
        self._writer.flush()
