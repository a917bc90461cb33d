"""A run as one file for others: all that recognition reads of it, in a zip archive.

Unpacked by any program it is a run directory, wherever it lies.
"""

import json
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from tempfile import TemporaryDirectory

from bayes_asr import __version__
from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import find_files, is_there, open_to_read, replacing
from bayes_asr.base.log import LOGGER
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.data.directories import locate
from bayes_asr.data.features.fmllr_record import FmllrRecord, write_record
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.decode.forward.network_record import warn_of_another
from bayes_asr.decode.recordings import RecordingFrontEnd, find_maker
from bayes_asr.decode.search.inputs import graph_files
from bayes_asr.evaluate.score.scores import read_scores
from bayes_asr.gmm.files import MODEL, PIPELINE, UNADAPTED
from bayes_asr.kaldi_io.side_files import CONFIG
from bayes_asr.nn.units.external import hash_files
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.configuration import PACKED, read_configuration
from bayes_asr.train.runs.run_model import locate_model
from bayes_asr.train.runs.trained_network import TrainedNetwork, read_network

PLAIN = (0, stat.S_IFREG)  # kinds of members: of no system, or a file of Unix
DATE = (1980, 1, 1, 0, 0, 0)  # of all members, so that equal runs are equal files
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
INSIDE_FILES = (FileExistsError, NotADirectoryError)  # members below another one
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, *INSIDE_FILES)
MOST_MEMBERS = 10_000
# bytes that an archive of any size may become, and for each of its bytes: of graphs it becomes 4
ALWAYS_UNPACKED, MOST_PER_BYTE = 1 << 26, 20
CHUNK = 1 << 20  # bytes

Members = dict[str, Path]
"""Files by their names in the archive."""


def pack(run: Path, path: Path) -> None:
    """Write the best network of a run, its configuration and scores on dev and, where it has them,
    its graph with the lexicon, the model of its labels, and the GMMs that adapt to speakers.

    InputError where one of them is gone; a warning of what others need beside it.
    """
    config = read_configuration(run)
    network = read_network(run)
    members = {name: run / name for name in ("best.pt", "score_dev.json") if is_there(run / name)}
    if "score_dev.json" in members:
        scores = read_scores(members["score_dev.json"])
        warn_of_another(run, (score.decoded for score in scores))
    settings = ["data.dir=.", "data.index=index", *_add_graph(members, run, config)]
    with TemporaryDirectory() as directory:
        texts = Path(directory)
        settings += _add_adapters(members, config, texts)
        load([run / CONFIG], settings).save(texts / CONFIG)
        (texts / PACKED).write_text(json.dumps({"bayes_asr": __version__}) + "\n")
        members |= _list_files(texts)
        with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            for name, file in sorted(members.items()):
                entry = zipfile.ZipInfo(name, DATE)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = (stat.S_IFREG | 0o644) << 16
                with (
                    open_to_read(str(file)) as source,
                    archive.open(entry, "w", force_zip64=True) as sink,
                ):
                    copyfileobj(source, sink, CHUNK)
    for lack in _list_lacks(run, config, network):
        LOGGER.warning("%s: %s", path, lack)


def _list_lacks(run: Path, config: Config, network: TrainedNetwork) -> Iterator[str]:
    """Yield what an archive of a run lacks, and whoever gets it looks for in vain."""
    for file in hash_files(network.model.architecture):
        yield f"has a unit of {file}, whose code is not in it; send that file along"
    if task_of(config).recogniser == "decode" and not is_there(run / "score_dev.json"):
        yield "has no LM weight, as dev is not scored: score the run, or --lmwt is needed with it"
    try:
        RecordingFrontEnd.open(run, network.front_ends, config)
    except InputError as error:
        yield f"transcribe cannot take it: {error}"


def _list_files(directory: Path, prefix: str = "") -> Members:
    """The files at any depth by their names in an archive; OSError for a forbidden folder."""
    members: Members = {}
    for path in find_files(directory, "*"):
        name = prefix + path.name
        if path.is_dir() and not path.is_symlink():
            members |= _list_files(path, f"{name}/")
        elif path.is_file():
            members[name] = path
    return members


def _add_graph(members: Members, run: Path, config: Config) -> list[str]:
    """Add the graph and the model of its transitions; the settings that name them."""
    if task_of(config).recogniser != "decode":
        return []
    graph, model = locate(config.data.graph, config.data, "graph"), locate_model(run, config)
    for file in (*graph_files(graph), graph / "words.txt", model, model.with_name("tree")):
        if not is_there(file):
            raise InputError(f"{file}: is missing, and words are recognised with it; put it back")
    members |= _list_files(graph, "graph/")
    for file in (model, model.with_name("tree"), model.with_name("phones.txt")):
        if is_there(file):
            members[f"model/{file.name}"] = file
    chain = ["data.chain=[model]"] if config.data.chain else []
    return ["data.graph=[graph]", "data.train.alignments=[model]", *chain]


def _add_adapters(members: Members, config: Config, texts: Path) -> list[str]:
    """Add the GMMs that adapt streams to speakers; the settings that name their records, which are
    written below `texts`.
    """
    settings = []
    for stream in (FEATURES, *config.data.train.stream_names):
        if not (maker := find_maker(stream, config)):
            continue
        adapter = f"adapter/{stream}"
        for name in (MODEL, UNADAPTED, "tree", *PIPELINE):
            if is_there(maker.model_dir / name):
                members[f"{adapter}/{name}"] = maker.model_dir / name
        members |= _list_files(maker.model_dir / "graph", f"{adapter}/graph/")
        features = texts / "features" / stream
        features.mkdir(parents=True)
        write_record(FmllrRecord(texts / adapter, maker.sound), features)
        key = FEATURES if stream == FEATURES else f"streams.{stream}"
        settings.append(f"data.train.{key}=[features/{stream}]")
    return settings


@contextmanager
def unpacked(run: Path) -> Iterator[Path]:
    """The run directory itself or, of a file of `pack`, one that is there for a while.

    InputError for a file that is none, or whose members would lie or grow elsewhere.
    """
    if not (run.is_file() and zipfile.is_zipfile(run)):
        yield run
        return
    with TemporaryDirectory(prefix="bayes_asr-") as directory:
        try:
            with open_to_read(str(run)) as file, zipfile.ZipFile(file) as archive:
                _extract(archive, run, Path(directory))
                if CONFIG not in (names := archive.namelist()):
                    raise zipfile.BadZipFile(f"has {name_some(names)}, and no {CONFIG}")
        except UNREADABLE as error:
            raise InputError(
                f"{run}: no run directory, and no file of bayes-asr export --archive: {error}; give"
                " the folder of the run, or such a file"
            ) from None
        try:
            yield Path(directory)
        except InputError as error:
            # Whoever reads the message finds the archive there, and the folder no more.
            error.args = (str(error).replace(directory, str(run)),)
            raise


def _extract(archive: zipfile.ZipFile, path: Path, directory: Path) -> None:
    """Write the members below a new folder: plain files alone, each once, of bounded size."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    size = sum(entry.file_size for entry in entries)
    most = max(ALWAYS_UNPACKED, MOST_PER_BYTE * path.stat().st_size)
    if len(set(names)) < len(names) or len(names) > MOST_MEMBERS or size > most:
        raise InputError(
            f"{path}: {len(names)} members of {size} bytes, {len(set(names))} names; a packed run"
            f" has at most {MOST_MEMBERS} of {most} bytes, each once"
        )
    for entry in entries:
        name, member = entry.filename, PurePosixPath(entry.filename)
        is_plain = stat.S_IFMT(entry.external_attr >> 16) in PLAIN
        is_readable = is_plain and entry.compress_type in METHODS
        # The root may be two slashes too, which are one part of the path.
        leads_out = member.is_absolute() or ".." in member.parts or "\\" in name
        if not member.parts or leads_out or not is_readable:
            raise InputError(f"{path}: {name!r} is no file of a packed run; pack it anew")
        target = directory / member
        target.parent.mkdir(parents=True, exist_ok=True)
        # zipfile ends a member at the size that was added up above.
        with archive.open(entry) as source, target.open("xb") as sink:
            copyfileobj(source, sink, CHUNK)
        if (length := target.stat().st_size) != entry.file_size:
            raise zipfile.BadZipFile(f"{name} has {length} of {entry.file_size} bytes")
