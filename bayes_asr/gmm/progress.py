"""Progress of work in phases: `gmm.json` in its folder."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import find_files, is_there, open_to_read, read_bytes, replacing, settle
from bayes_asr.base.places import refuse_foreign
from bayes_asr.data.corpus.index import content_hash, sample_file
from bayes_asr.gmm.files import OUTPUTS
from bayes_asr.kaldi_io.rxfilename import list_archives
from bayes_asr.kaldi_io.side_files import parse_json
from bayes_asr.kaldi_io.text import DataDir

PROGRESS_FILE = "gmm.json"
READ_SIZE = 1 << 20  # bytes of a file that are read at once
# Names of fields in the file, where they differ: those of the first version are kept.
KEYS = {"made_of": "of", "completed": "done", "initial_gaussians": "first"}


@dataclass
class PhaseProgress:
    """The number of complete phases, what they depend on, and the fit of each pass.

    `made_of`: options and hashes of inputs; `completed`: phases; `initial_gaussians`: before the
    first pass; `frames` of the last pass; `log_likelihoods` per frame of all passes so far.
    """

    made_of: Mapping[str, Any]
    completed: int = 0
    initial_gaussians: int = 0
    frames: int = 0
    log_likelihoods: list[float] = field(default_factory=list)

    def write(self, directory: Path) -> None:
        """Write the file of `directory`."""
        entry = {KEYS.get(name, name): value for name, value in asdict(self).items()}
        with replacing(directory / PROGRESS_FILE) as temporary:
            temporary.write_text(json.dumps(entry) + "\n", encoding="utf-8")


def read_progress(directory: Path, made_of: Mapping[str, Any]) -> PhaseProgress | None:
    """The progress of work that depends on the same; None if there is none, or on anything else.

    InputError where the folder has models or alignments that no training of ours has made.
    """
    settle(directory)
    path = directory / PROGRESS_FILE
    if not is_there(path):
        foreign = [match.name for pattern in OUTPUTS for match in find_files(directory, pattern)]
        refuse_foreign(directory, foreign, "gmm")
        return None
    try:
        names = {key: name for name, key in KEYS.items()}
        entry = parse_json(read_bytes(path))
        progress = PhaseProgress(**{names.get(key, key): value for key, value in entry.items()})
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: is damaged ({error}); remove the folder and begin anew"
        ) from None
    # JSON turns tuples into lists: both sides have to have passed through it.
    return progress if progress.made_of == json.loads(json.dumps(made_of)) else None


def hash_inputs(paths: Iterable[Path], tables: DataDir) -> str:
    """A hash of what these files hold, and of the archives that the tables name.

    Files that are not there count as empty. Of an archive, which may be as large as a disk, its
    size and 64 KiB at its beginning, middle and end are read.
    """

    def read() -> Iterator[bytes]:
        for path in paths:
            yield content_hash(_read_parts(path) if is_there(path) else ()).encode()
        for table in (tables.feats, tables.cmvn):
            for archive in filter(is_there, list_archives((table or {}).values())):
                yield content_hash(sample_file(archive)).encode()

    return content_hash(read())


def _read_parts(path: Path) -> Iterator[bytes]:
    with open_to_read(str(path)) as file:
        while part := file.read(READ_SIZE):
            yield part
