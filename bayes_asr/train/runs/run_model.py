"""The final.mdl of a run, which must be the one that its network was trained with."""

import shutil
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, replacing
from bayes_asr.config.schema import Config
from bayes_asr.kaldi_io.mdl import hash_transitions
from bayes_asr.kaldi_io.side_files import ENVIRONMENT, TRANSITIONS, read_environment
from bayes_asr.tasks.task import task_of


def locate_model(run: Path, config: Config) -> Path:
    """The final.mdl of a run, by its configuration; InputError where another has taken its place.

    Runs that do not note what they were trained with are taken as they are.
    """
    path = task_of(config).locate_model()
    noted = read_transitions(run)
    if noted and is_there(path) and hash_transitions(path) != noted:
        raise InputError(
            f"{path}: has other transitions than when {run} was trained, whose network has the pdfs"
            " of that model; put it back, or train anew with this one"
        )
    return path


def read_transitions(run: Path) -> str:
    """The hash of the transitions that a run was trained with; empty where it notes none."""
    return str(read_environment(run).get(TRANSITIONS, ""))


def copy_environment(run: Path, out: Path) -> None:
    """Copy env.json, where a run has one, to a run that has its network."""
    if is_there(run / ENVIRONMENT):
        with replacing(out / ENVIRONMENT) as temporary:
            shutil.copyfile(run / ENVIRONMENT, temporary)
