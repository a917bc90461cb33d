"""The configuration of a run directory, and what is none."""

from collections.abc import Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config

CONFIG = "config.yaml"


def check_is_run(directory: Path) -> None:
    """InputError for what is no run directory."""
    if is_there(directory / CONFIG):
        return
    why = f"it has no {CONFIG}" if directory.is_dir() else "there is no such folder"
    raise InputError(
        f"{directory}: not a run directory, {why}; name one that bayes-asr train wrote"
    )


def read_configuration(run: Path, settings: Sequence[str] = ()) -> Config:
    """What a run was made with, and settings over that; InputError for what is no run directory."""
    check_is_run(run)
    return load([run / CONFIG], settings)
