"""Archives that are damaged or forged: one line names the utterance and both numbers."""

import errno
import gzip
import os
import pickle
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from bayes_asr.base.errors import InputError, complaint
from bayes_asr.data.sound.audio import read_audio
from bayes_asr.data.sound.long import LongSound
from bayes_asr.kaldi_io.ark import iter_archive, iter_int_vectors, iter_matrices, read_matrix
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.text import read_mapping
from tests.support.archives import MATRIX, ark_file, binary, one_line


def test_pickles_in_an_archive_are_not_opened(tmp_path: Path) -> None:
    victim = tmp_path / "victim"

    class Trap:
        def __reduce__(self) -> tuple:
            return os.mkdir, (str(victim),)

    path = ark_file(tmp_path, b"u PKL" + pickle.dumps(Trap()))
    with pytest.raises(InputError):
        list(iter_matrices(path))
    assert not victim.exists()


def test_nan_and_infinity_are_named(tmp_path: Path) -> None:
    bad = MATRIX.copy()
    bad[3, 1], bad[5, 0] = np.nan, np.inf
    path = ark_file(tmp_path, b"u " + binary(bad))
    with pytest.raises(InputError) as error:
        read_matrix(f"{path}:2", "u")
    one_line(error, path, "u holds nan at frame 3, column 1")
    np.testing.assert_array_equal(read_matrix(f"{path}:2", "u", finite=False), bad)


@pytest.mark.parametrize("separator", [b"\r", b"\v", b"\f"])
def test_a_name_without_a_blank_behind_it_is_refused(tmp_path: Path, separator: bytes) -> None:
    """As Kaldi's SequentialTableReader does; a line that Windows has ended is taken."""
    matrices = ark_file(tmp_path, b"u" + separator + binary(MATRIX))
    with pytest.raises(InputError, match="no blank follows u at offset"):
        list(iter_matrices(matrices))
    vectors = ark_file(tmp_path, b"u" + separator + b"\0B\4\1\0\0\0\4\7\0\0\0", "ali.1")
    with pytest.raises(InputError, match="no blank follows u at offset"):
        list(iter_int_vectors(vectors))
    lines = ark_file(tmp_path, b"u\r\nv 1 2\r\nw\t3\n", "ali.txt")
    read = {utt: vector.tolist() for utt, vector in iter_int_vectors(lines)}
    assert read == {"u": [], "v": [1, 2], "w": [3]}


@pytest.mark.parametrize("name", ["x.ark", "x.ark.gz"])
def test_a_truncated_matrix_names_both_numbers(tmp_path: Path, name: str) -> None:
    content = b"u " + binary(MATRIX)[:-5]
    path = ark_file(tmp_path, content, name)
    with pytest.raises(InputError) as error:
        list(iter_matrices(path))
    one_line(error, path, "u (6 x 2) needs 48 bytes at offset 17", f"the file has {len(content)}")


def every_cut(content: bytes) -> Iterator[bytes]:
    return (content[:end] for end in range(1, len(content)))


def test_every_truncation_is_an_error(tmp_path: Path) -> None:
    for kind in (b"FM", b"DM"):
        for cut in every_cut(b"utt " + binary(MATRIX[:2], kind)):
            with pytest.raises(InputError):
                list(iter_matrices(ark_file(tmp_path, cut)))
    write_int_vectors([("utt", np.arange(3))], tmp_path / "good")
    for cut in every_cut((tmp_path / "good").read_bytes()):
        with pytest.raises(InputError):
            list(iter_int_vectors(ark_file(tmp_path, cut)))
    for cut in every_cut(gzip.compress((tmp_path / "good").read_bytes())):
        (tmp_path / "cut.gz").write_bytes(cut)
        with pytest.raises(InputError):
            list(iter_int_vectors(tmp_path / "cut.gz"))


@pytest.mark.parametrize("name", ["x.ark", "x.ark.gz"])
@pytest.mark.parametrize(
    "forged",
    [
        b"\0BFM \4" + struct.pack("<ibi", 2**31 - 1, 4, 2**31 - 1),
        b"\0BDM \4" + struct.pack("<ibi", 2**30, 4, 1),
        b"\0BFM \4" + struct.pack("<ibi", 2**30, 4, 0),
        b"\0BFM \4" + struct.pack("<ibi", -1, 4, -8),
        b"\0BFM \x08" + struct.pack("<ibi", 1, 4, 1) + bytes(4),
        b"\0BCM " + struct.pack("<ffii", 0, 1, 2**31 - 1, 2**31 - 1),
        b"\0BCM2 " + struct.pack("<ffii", 0, 1, -2, 5),
        b"\0BCM3 " + struct.pack("<ffii", 0, 1, 2**31 - 1, 1),
        b"\0BFV \4" + struct.pack("<i", 2**31 - 1) + bytes(12),
        b"\0BDV \4" + struct.pack("<i", -1) + bytes(12),
        b"\0B\4" + struct.pack("<i", 2**31 - 1),
        b"\0Bgarbage",
        b"RIFF" + bytes(40),
        b"[ 1 2\n 3 ]\n",
        b"[ 1 x ]\n",
        b"[1 2 ]\n",
        b"[ 1 2",
        b"[ 1 ] 2\n",
    ],
)
def test_forged_matrices_neither_pass_nor_allocate(
    tmp_path: Path, forged: bytes, name: str
) -> None:
    path = ark_file(tmp_path, b"u " + forged, name)
    tracemalloc.start()
    with pytest.raises(InputError) as error:
        list(iter_matrices(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
    one_line(error, path, "u ")


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"u \0B\4" + struct.pack("<i", 2**31 - 1), "u (2147483647 integers) needs"),
        (b"u \0B\4" + struct.pack("<i", -1), "u (-1 integers) has the size -5"),
        (b"u 1\nv 2\nu 3\n", "u is there a second time, at offset 8"),
        (b"u \0B\4" + struct.pack("<ibi", 1, 8, 1), "no vector of int32"),
        (b"u \0BFM ____", "no vector of integers"),
        (b"u 1 2 x\n", "no line of integers"),
        (b"u 1 99999999999\n", "no line of integers"),
        (b"u 1 23", "without an end"),
        (b"\xff\xfe\xfd 1\n", "no utterance name at offset 0"),
        (b"x" * 10_000, "no word ends"),
    ],
)
def test_forged_alignments(tmp_path: Path, content: bytes, part: str) -> None:
    for name in ("ali.1", "ali.1.gz"):
        path = ark_file(tmp_path, content, name)
        with pytest.raises(InputError) as error:
            list(iter_int_vectors(path))
        one_line(error, path, part)


def test_a_gz_that_is_not_one(tmp_path: Path) -> None:
    path = tmp_path / "ali.1.gz"
    path.write_bytes(b"u 1 2 3\n")
    with pytest.raises(InputError) as error:
        list(iter_int_vectors(path))
    one_line(error, path, "gzip")


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"RIFF\x24\0\0\0WAVEfmt \n", "sound of the kind RIFF, of which `bayes-asr features`"),
        (b"fLaC\0\0\0\x22\n", "sound of the kind fLaC"),
        (b"u " + binary(MATRIX), "the name of the utterance; an index gives the offset"),
    ],
)
def test_sounds_and_whole_archives_are_no_matrices(
    tmp_path: Path, content: bytes, part: str
) -> None:
    """wnhsu/FactorizedHierarchicalVAE #2: wav.scp in the place of feats.scp."""
    with pytest.raises(InputError) as error:
        read_matrix(str(path := ark_file(tmp_path, content)), "u")
    one_line(error, path, "u is no matrix before offset", part)


@pytest.mark.parametrize(
    "read",
    [lambda name: read_matrix(name, "utt"), read_audio, lambda name: LongSound.open(name, None)],
)
def test_a_disk_that_fails_says_nothing_of_an_utterance(
    read: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Utterances whose files cannot be used may be left out; not so where all cannot, just now."""

    def fail(name: str, *_: object) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO), name)

    with pytest.raises(InputError, match="No such file"):
        read("nowhere.ark")
    monkeypatch.setattr("builtins.open", fail)
    with pytest.raises(OSError, match="Input/output"):
        read(__file__)


@pytest.mark.parametrize("read", [read_mapping, lambda path: [*iter_archive(str(path))]])
def test_a_disk_that_fails_in_a_file_says_nothing_of_damage(read: Callable[[Path], object]) -> None:
    """What says that a file is damaged has it made again, for hours."""
    memory = Path("/proc/self/mem")  # whose first bytes nobody can read, as those of a bad disk
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as failed:
        read(memory)
    assert complaint(failed.value).startswith(f"{memory}: ")
