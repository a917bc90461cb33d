"""Classes and label sequences of utterances, with the lengths of their features."""

from collections.abc import Container, Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.data.corpus.label_sets import join_labels
from bayes_asr.data.targets.classes import Classes
from bayes_asr.data.targets.sequences import ENDS, Sequences
from bayes_asr.kaldi_io.ark import read_matrix, read_shape
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.rxfilename import is_pipe
from bayes_asr.kaldi_io.text import DataDir, read_mapping, read_text


def open_classes(
    file: str, directories: Sequence[DataDir], names: Sequence[str], open_pipe: OpenPipe | None
) -> Classes:
    """The classes in `file` of each data directory; names: those that are known, if any are.

    Lengths are by the headers of the features: frames of piped ones are read.
    """
    tables = [
        (data.path, table, _count_frames(data, table, open_pipe))
        for data in directories
        for table in [read_mapping(_find(data, file, "classes", "class", "utterance class"))]
    ]
    # Sorting gives a class the same number in every run.
    known = sorted({table[utt] for _, table, lengths in tables for utt in lengths})
    return join_labels([Classes(*of_directory, names or known) for of_directory in tables])


def open_sequences(
    file: str, directories: Sequence[DataDir], names: Sequence[str], open_pipe: OpenPipe | None
) -> Sequences:
    """The labels in `file` of each data directory; names: the vocabulary, if there is one.

    Lengths as of `open_classes`.
    """
    tables = [
        (data.path, table, _count_frames(data, table, open_pipe))
        for data in directories
        for table in [
            read_text(_find(data, file, "sequences", "labels", "utterance label label ..."))
        ]
    ]
    known = {label for _, table, lengths in tables for utt in lengths for label in table[utt]}
    vocabulary = names or (ENDS, *sorted(known))
    return join_labels([Sequences(*of_directory, vocabulary) for of_directory in tables])


def _find(data: DataDir, file: str, key: str, what: str, line: str) -> Path:
    """The file of `data.KEY` in a data directory; InputError where there is none."""
    path = data.path / file
    if not is_there(path):
        raise InputError(
            f"{path} is missing; write the {what} of each utterance into it, `{line}` a line, or"
            f" name another file as data.{key}"
        )
    return path


def _count_frames(
    data: DataDir, utterances: Container[str], open_pipe: OpenPipe | None
) -> dict[str, int]:
    """The frames of each utterance that is wanted and has features."""

    def count(utt: str, where: str) -> int:
        if is_pipe(where):
            # A pipe has no header to read the length from.
            return len(read_matrix(where, utt, open_pipe=open_pipe))
        return read_shape(where, utt)[0]

    feats = (data.feats or {}).items()
    return {utt: count(utt, where) for utt, where in feats if utt in utterances}
