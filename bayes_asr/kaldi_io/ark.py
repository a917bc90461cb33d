"""Kaldi archives (ark) and their indexes (scp): matrices of floats and vectors of integers.

kaldiio encodes the matrices that are written. It reads none: it trusts headers, asserts, and
unpickles an archive that asks for it.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import DTypeLike

from bayes_asr.base.errors import InputError, opening
from bayes_asr.base.files import open_to_read, writing
from bayes_asr.kaldi_io.binary import (
    KaldiReader,
    iter_lines,
    open_bytes,
    read_pairs,
    refuse_repeated,
)
from bayes_asr.kaldi_io.byte_reader import ByteReader, OpenPipe, check_name
from bayes_asr.kaldi_io.integers import read_binary_ints, read_text_ints
from bayes_asr.kaldi_io.matrix import read_binary, read_header, read_text_matrix
from bayes_asr.kaldi_io.rxfilename import (
    is_pipe,
    list_files,
    refuse_pipe,
    split_rspecifier,
    split_rxfilename,
    strip_offset,
)

Moves = Sequence[tuple[str, str]]  # a folder that names begin with, and where it is now
RANGE_TOLERANCE = 3  # Kaldi cuts a range that ends up to 3 frames late: segments are rounded


def read_matrix(
    rxfilename: str,
    utt: str,
    *,
    open_pipe: OpenPipe | None = None,
    finite: bool = True,
    dtype: DTypeLike = np.float32,
) -> np.ndarray:
    """Read one matrix [T, F] from "file", "file:offset" or "file:offset[first:last]".

    Any of Kaldi's matrices: float, double, compressed, text; the last row of a range is included.
    CMVN statistics want `dtype` float64. Raises InputError naming the file, `utt` and both numbers
    where bytes are missing or, if `finite`, where a value is NaN or infinite.
    """
    with _open(rxfilename, utt, open_pipe) as source:
        # A pipe has neither an offset nor a range: the command itself may hold such brackets.
        parts = None if is_pipe(rxfilename) else split_rxfilename(rxfilename)
        if parts and parts["offset"]:
            source.seek(int(parts["offset"]), utt)
        matrix = _read_one(source, utt, finite, dtype)
        if not (parts and parts["range"]):
            return matrix
        return matrix[_parse_range(len(matrix), parts["range"], source, utt)]


def read_shape(rxfilename: str, utt: str) -> tuple[int, int]:
    """Return the rows and columns that `read_matrix` would give, by the header alone.

    Text has none and is read. Raises InputError where the file does not hold the matrix.
    """
    with _open(rxfilename, utt, None) as source:
        parts = split_rxfilename(rxfilename)
        if parts["offset"]:
            source.seek(int(parts["offset"]), utt)
        # Kaldi's mark of binary data is a zero byte and a B.
        if (head := source.take(1, utt)) == b"\0":
            header = read_header(source, utt)
            rows, columns = header.rows, header.columns
        else:
            rows, columns = read_text_matrix(source, utt, head).shape
        if parts["range"]:
            rows = len(range(rows)[_parse_range(rows, parts["range"], source, utt)])
        return rows, columns


def read_vector(path: Path) -> np.ndarray:
    """Read a file that holds one vector, such as the output of analyze-counts, as float32 [N]."""
    with _open(str(path), "the vector", None) as source:
        return KaldiReader(source).reals()


def iter_archive(
    name: str, *, open_pipe: OpenPipe | None = None, finite: bool = True
) -> Iterator[tuple[str, np.ndarray]]:
    """Stream (utterance, float32 [T, F]) from an archive, plain or .gz."""
    with _open(name, "the archive", open_pipe) as stream:
        for utt, _ in stream.utterances():
            yield utt, _read_one(stream, utt, finite, np.float32)


def iter_matrices(
    source: Path | str, *, open_pipe: OpenPipe | None = None, finite: bool = True
) -> Iterator[tuple[str, np.ndarray]]:
    """Stream (utterance, float32 [T, F]) from an ark (plain or .gz), an scp or an rspecifier.

    What ends in .scp is an index, anything else an archive; "scp:..." and "ark:..." say so.
    """
    kind, name = split_rspecifier(source)
    if kind == "ark":
        yield from iter_archive(name, open_pipe=open_pipe, finite=finite)
        return
    for utt, rxfilename in read_scp(Path(name), open_pipe=open_pipe).items():
        yield utt, read_matrix(rxfilename, utt, open_pipe=open_pipe, finite=finite)


def iter_int_vectors(
    source: Path | str, *, open_pipe: OpenPipe | None = None
) -> Iterator[tuple[str, np.ndarray]]:
    """Stream (utterance, int32 [T]) from an archive such as ali.1.gz, binary or text."""
    _, name = split_rspecifier(source)
    with _open(name, "the archive", open_pipe) as stream:
        stream.most = None  # labels of silence pack as far as deflate goes, and each has a limit
        for utt, separator in stream.utterances():
            # An empty vector in text ends its line right behind the name.
            head = b"\n" if separator == b"\n" else stream.take(1, utt)
            if head == b"\0":
                yield utt, read_binary_ints(stream, utt)
            else:
                yield utt, read_text_ints(stream, utt, head)


def read_scp(path: Path, *, open_pipe: OpenPipe | None = None, moves: Moves = ()) -> dict[str, str]:
    """Read an scp: utterance -> rxfilename ("file.ark:123", "file.ark:123[0:99]").

    A relative file is looked for in the working directory, as Kaldi does, then beside the scp and
    in each folder above it, among which is the root of its experiment. An archive that is not there
    is that beside the scp which has its utterances, if its folders are called alike, such as
    data/train. moves: the first whose folder a name begins with is applied before that. Raises
    InputError for a repeated utterance, a missing field, and for a pipe unless `open_pipe`, the
    function that would run it, is given.
    """
    path = Path(path)
    table = read_pairs(path)
    if table is None or any(map(is_pipe, table.values())):
        table = _check_scp(path, open_pipe)
    # Millions of utterances lie in few archives: each file is looked for once.
    home = os.path.dirname(os.path.realpath(path))  # of a link, the folder that it leads to
    resolved = {name: _find(name, path, moves) for name in list_files(table.values())}
    for name, path_now in resolved.items():
        if os.path.isabs(path_now) and _has_moved(path_now, home):
            resolved[name] = _find_beside(name, home, table) or path_now
    if all(name == path_now for name, path_now in resolved.items()):
        return table
    for utt, rxfilename in table.items():
        if not is_pipe(rxfilename):
            name = strip_offset(rxfilename)
            table[utt] = resolved[name] + rxfilename[len(name) :]
    return table


def missing_file_error(scp: Path, what: str, name: str) -> InputError:
    """The error that says that a file which an scp names for `what` does not exist."""
    searched = f" in the working directory {os.getcwd()} or in a folder above the table"
    return InputError(
        f"{scp}: cannot open {what} in {name}: No such file{searched * (not os.path.isabs(name))};"
        " correct the table, or give the new place of a folder by data.moved=OLD=NEW in the"
        " configuration (of a run config.yaml)"
    )


def write_matrices(
    items: Iterable[tuple[str, np.ndarray]], ark: Path, scp: Path | None = None
) -> int:
    """Write matrices [T, F] as a binary float32 archive, and its index; returns how many.

    The index names the archive by its absolute path, so that it works in any directory.
    Both files appear only when all is written. Raises InputError, naming the utterance, for what
    is not a matrix of floats, is empty, holds NaN, or repeats an utterance.
    """
    ark = Path(ark)
    if scp and ark.suffix == ".gz":
        raise InputError(f"{scp}: Kaldi cannot look into the gzipped {ark}; write a plain archive")
    written: set[str] = set()
    with ExitStack() as stack:
        index = stack.enter_context(writing(Path(scp))) if scp else None
        file = stack.enter_context(writing(ark))
        for utt, matrix in items:
            check_name(utt, written, ark)
            checked = _check_matrix(matrix, utt, ark)
            # An index points behind the name, to the mark of binary data.
            file.write(f"{utt} ".encode())
            if index:
                index.write(f"{utt} {ark.absolute()}:{file.tell()}\n".encode())
            _encode(file, checked)
    return len(written)


def write_matrix(matrix: np.ndarray, path: Path) -> None:
    """Write one matrix [T, F] as a binary float32 file, complete or not at all."""
    with writing(Path(path)) as file:
        _encode(file, _check_matrix(matrix, "the matrix", path))


def _encode(file: BinaryIO, matrix: np.ndarray) -> None:
    from kaldiio.matio import write_array  # whoever reads alone does without

    write_array(file, matrix)


def _open(rxfilename: str, what: str, open_pipe: OpenPipe | None) -> ByteReader:
    if is_pipe(rxfilename):
        refuse_pipe(rxfilename, what, open_pipe)
        pipe = cast(OpenPipe, open_pipe)(rxfilename.strip().strip("|"))
        return ByteReader(pipe, rxfilename, None)
    with opening(f"{rxfilename}: cannot open {what}"):
        return open_bytes(split_rxfilename(rxfilename)["path"])


def _parse_range(rows: int, span: str, source: ByteReader, utt: str) -> slice:
    """The rows that the range [first:last] names, of so many."""
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", span)
    if not match:
        raise source.fail(f"{utt} has the range [{span}]; write it as [first:last]")
    begin, end = int(match[1]), int(match[2])
    if not begin <= end < rows + RANGE_TOLERANCE or begin >= rows:
        message = f"{utt} wants rows {begin} to {end}, the matrix has {rows}"
        raise source.fail(f"{message}; make the index again")
    return slice(begin, end + 1)  # Kaldi's ranges include their end; slices stop at the last row


def _read_one(source: ByteReader, utt: str, finite: bool, dtype: DTypeLike) -> np.ndarray:
    head = source.take(1, utt)
    binary = head == b"\0"  # a text matrix begins with a blank or a bracket
    stored = read_binary(source, utt) if binary else read_text_matrix(source, utt, head)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found just below
        matrix = stored.astype(dtype, order="C")
    if finite and not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        where = f"at frame {row}, column {column}"
        raise source.fail(f"{utt} holds {matrix[row, column]} {where}; make it again")
    return matrix


def _check_matrix(matrix: np.ndarray, utt: str, ark: Path) -> np.ndarray:
    values = np.asarray(matrix)
    if values.ndim != 2 or not values.size or not np.issubdtype(values.dtype, np.floating):
        raise InputError(
            f"{ark}: {utt} is {values.dtype} {list(values.shape)}; give floats [T, F], T at least 1"
        )
    if np.isnan(values).any():
        row, column = np.argwhere(np.isnan(values))[0]
        raise InputError(f"{ark}: {utt} holds NaN at frame {row}, column {column}; compute it anew")
    return np.ascontiguousarray(values, np.float32)


def _check_scp(path: Path, open_pipe: OpenPipe | None) -> dict[str, str]:
    table: dict[str, str] = {}
    for number, fields in iter_lines(path, splits=1):
        utt, rxfilename = fields if len(fields) == 2 else (fields[0], "")
        if not rxfilename:
            raise InputError(f"{path}, line {number}: {utt} has no file; complete the line")
        refuse_repeated(table, utt, path, number)
        if is_pipe(rxfilename):
            refuse_pipe(rxfilename, f"{path}, line {number}: {utt}", open_pipe)
        table[utt] = rxfilename
    return table


def _find(name: str, scp: Path, moves: Moves) -> str:
    """The path of a file that an scp names; its name where no such file is found."""
    name = next(
        (target + name[len(begin) :] for begin, target in moves if _is_in(name, begin)), name
    )
    if os.path.isabs(name) or os.path.exists(name):
        return name
    # Beside the scp as it was named, then in each folder above it.
    directories = (scp.parent, *scp.parent.absolute().parents)
    above = (os.path.join(directory, name) for directory in directories)
    return next(filter(os.path.exists, above), name)


def _has_moved(name: str, home: str) -> bool:
    """Whether a file is not there, but was in a folder that is called as `home`, as data/train."""
    folder = os.path.dirname(name)
    # Names of thousands of sounds need no more than the first comparison.
    return (
        os.path.basename(folder) == os.path.basename(home)
        and Path(folder).parts[-2:] == Path(home).parts[-2:]
        and not os.path.exists(name)
    )


def _find_beside(name: str, home: str, table: dict[str, str]) -> str | None:
    """The archive in `home` of a name that a table has, if its last utterance is there too."""
    entries = (pair for pair in reversed(table.items()) if strip_offset(pair[1]) == name)
    utt, rxfilename = next(entries)
    offset, key = rxfilename[len(name) + 1 :].partition("[")[0], f"{utt} ".encode()
    beside = os.path.join(home, os.path.basename(name))
    with suppress(OSError, ValueError), open_to_read(beside) as archive:
        # An archive of other numbers has utterances at other places.
        archive.seek(int(offset) - len(key))
        return beside if archive.read(len(key)) == key else None
    return None


def _is_in(name: str, directory: str) -> bool:
    return name == directory or name.startswith(f"{directory}/")
