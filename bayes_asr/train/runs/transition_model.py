"""The transition model of a run: final.mdl, whose pdfs its network has, and what env.json says."""

import shutil
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, replacing
from bayes_asr.config.schema import Config
from bayes_asr.data.targets.alignments import begin_hash
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.side_files import ENVIRONMENT, read_environment
from bayes_asr.tasks.task import task_of


def locate_model(run: Path, config: Config) -> Path:
    """The final.mdl of a run, by its configuration; InputError where another has taken its place.

    Runs that do not say what they were trained with are taken as they are.
    """
    path = task_of(config).locate_model()
    hashes = read_model_hash(run)
    if hashes and is_there(path):
        model = read_transition_model(path)
        if begin_hash(model).hexdigest() not in hashes.values():
            raise InputError(
                f"{path} ({model.num_pdfs} pdfs) has other transitions than when {run} was"
                " trained: its network knows the pdfs of the model before; restore that, or train"
                " again"
            )
    return path


def read_model_hash(run: Path) -> dict[str, str]:
    """The hash of the transitions that a run was trained with, by the path of its final.mdl."""
    inputs = read_environment(run).get("inputs")
    if not isinstance(inputs, dict):  # of a run that notes none
        return {}
    return {file: digest for file, digest in inputs.items() if Path(file).name == "final.mdl"}


def copy_environment(run: Path, out: Path) -> None:
    """Copy env.json, where a run has one, to a run that has its network."""
    if is_there(run / ENVIRONMENT):
        with replacing(out / ENVIRONMENT) as temporary:
            shutil.copyfile(run / ENVIRONMENT, temporary)
