"""The classes of the utterances of data directories, and their lengths by their features."""

from collections.abc import Sequence

from bayes_asr.errors import InputError
from bayes_asr.files import is_there
from bayes_asr.tables.ark import read_matrix, read_shape
from bayes_asr.tables.binary import OpenPipe
from bayes_asr.tables.scp import is_pipe
from bayes_asr.tables.text import DataDir, read_mapping
from bayes_asr.targets.classes import Classes, JoinedClasses


def open_classes(
    file: str, directories: Sequence[DataDir], names: Sequence[str], open_pipe: OpenPipe | None
) -> Classes:
    """The classes in `file` of each data directory; names: those that are known, if any are.

    Lengths are by the headers of the features: frames of piped ones are read.
    """
    parts = [_open_one(file, directory, names, open_pipe) for directory in directories]
    return parts[0] if len(parts) == 1 else JoinedClasses(parts, names)


def _open_one(
    file: str, data: DataDir, names: Sequence[str], open_pipe: OpenPipe | None
) -> Classes:
    path = data.path / file
    if not is_there(path):
        raise InputError(
            f"{path} is missing; write the class of each utterance into it, `utterance class` a"
            " line, or name another file as data.classes"
        )

    def count_frames(utt: str, where: str) -> int:
        if is_pipe(where):
            return len(read_matrix(where, utt, open_pipe=open_pipe))
        return read_shape(where, utt)[0]

    given = read_mapping(path)
    feats = (data.feats or {}).items()
    lengths = {utt: count_frames(utt, where) for utt, where in feats if utt in given}
    return Classes(data.path, given, lengths, names)
