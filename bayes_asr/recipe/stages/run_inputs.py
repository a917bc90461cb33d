"""Files and settings that stages 4 to 6 of a run read; when they change, these are repeated."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, real_path
from bayes_asr.config.schema import Config, flatten
from bayes_asr.data.corpus.references import list_tables
from bayes_asr.data.directories import OF_FEATURES, locate, locate_all, locate_streams
from bayes_asr.decode.search.inputs import graph_files
from bayes_asr.evaluate.score.conventions import list_foldings
from bayes_asr.evaluate.score.glm import find_glm
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.configuration import read_configuration

# Log-likelihoods do not depend on these keys. The first say where files lie, which are stamped.
NOT_OF_FORWARD = ("data.dir", "data.graph", "data.index", "data.moved", "decode.", "score.")


def find_data(run: Path, kaldi_dir: str) -> Path:
    """The folder of the data that stages 4 to 6 of a run read: Kaldi's, or two folders above it.

    InputError where the run was trained on others. A run on Kaldi's data reads these also where
    nothing names them.
    """
    data = Path(kaldi_dir or run.parents[1]).absolute()
    try:
        trained_on = Path(read_configuration(run).data.dir)
    except InputError:
        return data  # a stage says so
    if real_path(trained_on) == real_path(data):
        return data
    if kaldi_dir:
        mistake, remedy = f"--kaldi-dir {kaldi_dir}", "leave the option out"
    elif any(any(list_features(run, data, name)) for name in ("dev", "test")):
        mistake, remedy = f"{data} has data of its own", f"give --kaldi-dir {trained_on}"
    else:
        return trained_on
    raise InputError(
        f"{mistake}: {run} was trained on {trained_on}, which stages 4 to 6 read; begin at stage 3,"
        f" which records where the data are, or {remedy}"
    )


def list_features(run: Path, data: Path, name: str) -> Iterator[Path]:
    """The tables of features of a set; none where a stage has to say what is missing.

    data: takes the place of data.dir, which a copy has from where it was trained.
    """
    try:
        directories = locate_streams(_read(run, data).data, name)
    except InputError:
        return
    tables = (directory / table for directory in directories for table in OF_FEATURES)
    yield from filter(is_there, tables)


def list_graph(run: Path, data: Path) -> Iterator[Path]:
    """The files of the graph by which a run decodes, if it does; data: as above."""
    try:
        config = _read(run, data)
        if task_of(config).recogniser != "decode":
            return
        graph = locate(config.data.graph, config.data, "graph", announce=False)
    except InputError:
        return
    yield from filter(is_there, (*graph_files(graph), graph / "words.txt"))


def list_references(run: Path, data: Path) -> Iterator[Path]:
    """The texts, STMs and classes that dev and test are scored against, and the rules of scoring;
    data: as above.
    """
    try:
        config = _read(run, data)
        for name in ("dev", "test"):
            tables = list_tables(config, name)
            if config.data.classes:
                directories = locate_all(config.data, name, "features")
                tables += [directory / config.data.classes for directory in directories]
            yield from filter(is_there, tables)
        rules = list_foldings(config.score.conventions)
        if config.score.glm:
            rules.append(find_glm(config.score.glm, Path(config.data.dir)))
        yield from filter(is_there, rules)
    except InputError:
        return


def list_settings(run: Path) -> Iterator[str]:
    """Digests of the settings by which a run computes log-likelihoods, and by which it decodes."""
    try:
        values = [*flatten(yaml.safe_load(read_configuration(run).yaml))]
    except InputError:
        return
    forward = [(key, value) for key, value in values if not key.startswith(NOT_OF_FORWARD)]
    decode = [(key, value) for key, value in values if key.startswith("decode.")]
    for settings in (forward, [*forward, *decode]):
        yield hashlib.sha256(repr(settings).encode()).hexdigest()[:16]


def _read(run: Path, data: Path) -> Config:
    return read_configuration(run, [f"data.dir={json.dumps(str(data))}"])
