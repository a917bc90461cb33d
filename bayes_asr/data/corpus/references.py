"""The references of decoded sets: texts of data directories, or the STM of one."""

from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.config.inputs import DataConfig
from bayes_asr.config.schema import Config
from bayes_asr.data.directories import find_existing, locate_all

TABLES = ("stm", "utt2spk", "segments", "reco2file_and_channel")


def list_tables(config: Config, name: str) -> list[Path]:
    """The files that say what was said in a set, by whom and where, if they are there."""
    return [
        directory / table
        for directory in find_references(config, name)
        for table in (config.score.text, *TABLES)
    ]


def find_references(config: Config, name: str) -> list[Path]:
    """The data directories that a set is scored against."""
    if config.score.glm:
        return [data_with_stm(config.data, name)]
    return locate_all(config.data, name, "features")


def data_with_stm(data: DataConfig, name: str) -> Path:
    """The first of a set's data directories that has an STM, which score.glm scores by.

    InputError where several are taken together: names of recordings are those of one STM.
    """
    selection = getattr(data, name)
    together = getattr(selection, "features_all_of", ())
    if len(together) > 1:
        raise InputError(
            f"score.glm is set, and counts by the stm of one directory, but"
            f" data.{name}.features_all_of has {len(together)}: write one directory of all, with"
            " its stm, or set score.glm to null to score texts"
        )
    folders = selection.features or together
    for folder in folders:
        for directory in find_existing(Path(data.dir) / folder):
            if is_there(directory / "stm"):
                return directory
    raise InputError(
        f"score.glm is set, but none of {', '.join(folders)} in {data.dir} has an "
        f"stm for {name}; make one, or set score.glm to null to score texts"
    )
