"""Files of dev and test that stages 4 to 6 of a run read; when they change, these are repeated."""

import json
from collections.abc import Iterator
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, real_path
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.references import list_tables
from bayes_asr.data.directories import locate_all, locate_streams
from bayes_asr.kaldi_io.side_files import CONFIG
from bayes_asr.train.runs.configuration import read_configuration


def list_features(run: Path, data: Path, name: str) -> Iterator[Path]:
    """The tables of features of a set; none where a stage has to say what is missing.

    data: takes the place of data.dir, which a copy has from where it was trained.
    """
    try:
        directories = locate_streams(_read(run, data).data, name)
    except InputError:
        return
    yield from filter(is_there, (directory / "feats.scp" for directory in directories))


def list_references(run: Path, data: Path) -> Iterator[Path]:
    """The texts, STMs and classes that dev and test are scored against; data: as above."""
    for name in ("dev", "test"):
        try:
            config = _read(run, data)
            tables = list_tables(config, name)
            if config.data.classes:
                directories = locate_all(config.data, name, "features")
                tables += [directory / config.data.classes for directory in directories]
        except InputError:
            return
        yield from filter(is_there, tables)


def check_data(run: Path, data: Path) -> None:
    """Raise InputError where a run reads another data directory than this Kaldi experiment."""
    if not is_there(run / CONFIG):
        return  # a stage says so
    trained_on = Path(read_configuration(run).data.dir)
    if real_path(trained_on) != real_path(data):
        raise InputError(
            f"--kaldi-dir {data}: {run} was trained on {trained_on}, which stages 4 to 6 read;"
            " leave the option out, or begin at stage 3"
        )


def _read(run: Path, data: Path) -> Config:
    return read_configuration(run, [f"data.dir={json.dumps(str(data))}"])
