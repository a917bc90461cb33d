"""Archives: what Kaldi wrote is read exactly, others read what we write, damage is one line."""

import gzip
import io
import os
import pickle
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kaldiio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from bayes_asr.errors import InputError
from bayes_asr.tables.ark import (
    iter_int_vectors,
    iter_matrices,
    read_matrix,
    read_scp,
    read_vector,
    write_int_vectors,
    write_matrices,
)

MATRIX = np.arange(12, dtype=np.float32).reshape(6, 2) / 7
names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1)
float_matrices = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)
int_vectors = st.lists(st.integers(-(2**31), 2**31 - 1)).map(lambda x: np.array(x, np.int32))


def binary(matrix: np.ndarray, kind: bytes = b"FM") -> bytes:
    """A matrix as the format describes it, written without the code under test."""
    rows, columns = matrix.shape
    data = matrix.astype("<f4" if kind == b"FM" else "<f8").tobytes()
    return b"\0B" + kind + b" " + struct.pack("<bibi", 4, rows, 4, columns) + data


def ark_file(folder: Path, content: bytes, name: str = "x.ark") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def one_line(error: pytest.ExceptionInfo[InputError], *parts: object) -> None:
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message


# --- what Kaldi wrote -------------------------------------------------------------------------


def kaldi_char_to_float(header: bytes, quartiles: tuple[int, ...], code: int) -> np.float32:
    """compressed-matrix.cc, Uint16ToFloat and CharToFloat, one value at a time."""
    low, span = (np.float32(x) for x in struct.unpack("<ff", header[:8]))
    p = [low + span * np.float32(1.52590218966964e-05) * np.float32(q) for q in quartiles]
    piece, first, width = (0, 0, 64.0) if code <= 64 else (1, 64, 128.0)
    if code > 192:
        piece, first, width = 2, 192, 63.0
    step = (p[piece + 1] - p[piece]) * np.float32(code - first)
    return np.float32(np.float64(p[piece]) + np.float64(step) * (1 / width))


def test_compressed_features_equal_kaldis_formula(kaldi_corpus: Callable[[str], Path]) -> None:
    scp = read_scp(kaldi_corpus("an4") / "data" / "dev" / "feats.scp")
    rng = np.random.default_rng(0)
    for utt, rxfilename in list(scp.items())[:5]:
        matrix = read_matrix(rxfilename, utt)
        file, offset = rxfilename.rsplit(":", 1)
        with Path(file).open("rb") as raw:
            raw.seek(int(offset))
            assert raw.read(5) == b"\0BCM "
            header = raw.read(16)
            rows, columns = struct.unpack("<ii", header[8:])
            quartiles = [struct.unpack("<4H", raw.read(8)) for _ in range(columns)]
            codes = raw.read(rows * columns)
        assert matrix.shape == (rows, columns)
        for row, column in rng.integers((rows, columns), size=(300, 2)):
            code = codes[column * rows + row]
            assert matrix[row, column] == kaldi_char_to_float(header, quartiles[column], code)


def test_float_features_and_double_statistics(kaldi_corpus: Callable[[str], Path]) -> None:
    data = kaldi_corpus("timit_sample") / "data" / "dev"
    utt, rxfilename = next(iter(read_scp(data / "feats.scp").items()))
    file, offset = rxfilename.rsplit(":", 1)
    raw = Path(file).read_bytes()[int(offset) :]
    rows, columns = struct.unpack("<xixi", raw[5:15])
    values = struct.unpack(f"<{rows * columns}f", raw[15 : 15 + 4 * rows * columns])
    assert read_matrix(rxfilename, utt).ravel().tolist() == list(values)
    speaker, rxfilename = next(iter(read_scp(data / "cmvn.scp").items()))
    stats = read_matrix(rxfilename, speaker, dtype=np.float64)
    assert stats.dtype == np.float64
    assert stats.shape == (2, columns + 1)
    assert stats[0, -1] == round(stats[0, -1])  # the frame count


@pytest.mark.parametrize(("kind", "codes"), [(b"CM2", "<u2"), (b"CM3", "u1")])
def test_evenly_compressed_matrices(tmp_path: Path, kind: bytes, codes: str) -> None:
    levels = 65535 if kind == b"CM2" else 255
    raw = np.array([[0, levels], [levels // 5, 1]], codes)
    header = b"u \0B" + kind + b" " + struct.pack("<ffii", -2.0, 10.0, 2, 2)
    matrix = read_matrix(f"{ark_file(tmp_path, header + raw.tobytes())}:2", "u")
    np.testing.assert_allclose(matrix, [[-2, 8], [0, -2 + 10 / levels]], rtol=1e-6, atol=1e-6)


# --- round trips, and readers other than ours ---------------------------------------------------


@given(st.dictionaries(names, float_matrices, max_size=4))
def test_matrices_round_trip(tmp_path_factory: pytest.TempPathFactory, items: dict) -> None:
    folder = tmp_path_factory.mktemp("ark")
    ark, scp = folder / "x.ark", folder / "x.scp"
    assert write_matrices(items.items(), ark, scp) == len(items)
    streamed = dict(iter_matrices(ark))
    assert list(streamed) == list(read_scp(scp)) == list(items)
    for utt, rxfilename in read_scp(scp).items():
        np.testing.assert_array_equal(streamed[utt], items[utt])
        np.testing.assert_array_equal(read_matrix(rxfilename, utt), items[utt])
    with io.BytesIO(ark.read_bytes()) as raw:
        theirs = dict(kaldiio.load_ark(raw))
    for utt, matrix in items.items():
        np.testing.assert_array_equal(theirs[utt], matrix)


@given(st.dictionaries(names, int_vectors, max_size=4), st.booleans())
def test_int_vectors_round_trip(
    tmp_path_factory: pytest.TempPathFactory, items: dict, zipped: bool
) -> None:
    ark = tmp_path_factory.mktemp("ali") / ("ali.1.gz" if zipped else "ali.1")
    assert write_int_vectors(items.items(), ark) == len(items)
    raw = gzip.decompress(ark.read_bytes()) if zipped else ark.read_bytes()
    for ours, theirs in zip(iter_int_vectors(ark), kaldiio.load_ark(io.BytesIO(raw)), strict=True):
        assert ours[0] == theirs[0]
        np.testing.assert_array_equal(ours[1], theirs[1])
        np.testing.assert_array_equal(ours[1], items[ours[0]])


def test_text_archives(tmp_path: Path) -> None:
    matrices = b"a  [\n  1 2.5 \n  -3e2 4 ]\nb  [ ]\nc [ 7 8 ]\r\n"
    found = dict(iter_matrices(ark_file(tmp_path, matrices)))
    assert found["a"].tolist() == [[1, 2.5], [-300, 4]]
    assert found["b"].size == 0
    assert found["c"].tolist() == [[7, 8]]
    vectors = list(iter_int_vectors(ark_file(tmp_path, b"a 1 2 -3\nb\nc 4\r\n")))
    assert [(utt, list(v)) for utt, v in vectors] == [("a", [1, 2, -3]), ("b", []), ("c", [4])]


def test_double_and_single_matrix_files(tmp_path: Path) -> None:
    double = MATRIX.astype(np.float64) + 1e-12
    path = ark_file(tmp_path, binary(double, b"DM"))
    assert read_matrix(str(path), "u").dtype == np.float32
    np.testing.assert_array_equal(read_matrix(str(path), "u", dtype=np.float64), double)


def test_matrices_can_be_changed_in_place(tmp_path: Path) -> None:
    write_matrices([("u", MATRIX)], tmp_path / "x.ark")
    ((_, matrix),) = iter_matrices(tmp_path / "x.ark")
    matrix += 1
    np.testing.assert_array_equal(matrix, MATRIX + 1)


def test_vector_file(tmp_path: Path) -> None:
    assert read_vector(ark_file(tmp_path, b" [ 0.5 2 1e3 ]\n")).tolist() == [0.5, 2, 1000]
    raw = b"\0BDV \4" + struct.pack("<i2d", 2, 1.5, -2)
    assert read_vector(ark_file(tmp_path, raw)).tolist() == [1.5, -2]


def test_gzipped_archive_and_offsets_into_it(tmp_path: Path) -> None:
    path = ark_file(tmp_path, b"a " + binary(MATRIX) + b"b " + binary(MATRIX + 1), "x.ark.gz")
    assert [utt for utt, _ in iter_matrices(path)] == ["a", "b"]
    offset = len(b"a " + binary(MATRIX) + b"b ")
    np.testing.assert_array_equal(read_matrix(f"{path}:{offset}", "b"), MATRIX + 1)


def test_streams_do_not_hold_the_corpus(tmp_path: Path) -> None:
    big = np.ones((1000, 100), np.float32)
    write_matrices(((f"u{i}", big) for i in range(50)), tmp_path / "x.ark")
    tracemalloc.start()
    assert sum(len(matrix) for _, matrix in iter_matrices(tmp_path / "x.ark")) == 50_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * big.nbytes


# --- scp: ranges, paths, pipes ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("span", "rows"), [("0:0", (0, 1)), ("1:3", (1, 4)), ("0:5", (0, 6)), ("4:8", (4, 6))]
)
def test_row_ranges_include_the_last(tmp_path: Path, span: str, rows: tuple[int, int]) -> None:
    path = ark_file(tmp_path, b"u " + binary(MATRIX))
    np.testing.assert_array_equal(read_matrix(f"{path}:2[{span}]", "u"), MATRIX[slice(*rows)])


@pytest.mark.parametrize("span", ["3:2", "0:9", "6:6", "-1:2", ":", "1", "0:1,0:0"])
def test_impossible_row_ranges(tmp_path: Path, span: str) -> None:
    path = ark_file(tmp_path, b"u " + binary(MATRIX))
    with pytest.raises(InputError) as error:
        read_matrix(f"{path}:2[{span}]", "u")
    one_line(error, path, "u")


def test_relative_paths_are_kaldis_then_the_scps_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, work = tmp_path / "data", tmp_path / "work"
    for folder, value in ((data, 1), (work, 2)):
        folder.mkdir()
        write_matrices([("u", MATRIX * 0 + value)], folder / "x.ark")
    (data / "feats.scp").write_text("u x.ark:2[0:1]\n")
    monkeypatch.chdir(work)
    assert dict(iter_matrices(data / "feats.scp"))["u"][0, 0] == 2
    (work / "x.ark").unlink()
    assert dict(iter_matrices(data / "feats.scp"))["u"].tolist() == [[1, 1], [1, 1]]


def test_spaces_unicode_and_windows_line_ends_in_an_scp(tmp_path: Path) -> None:
    folder = tmp_path / "mes  données"
    write_matrices([("ütt", MATRIX)], folder / "x.ark", folder / "x.scp")
    scp = folder / "x.scp"
    scp.write_bytes(b"\n" + scp.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    assert list(dict(iter_matrices(scp))) == ["ütt"]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"a x.ark:5\na x.ark:9\n", ["line 2", "a is there a second time"]),
        (b"a x.ark:5\nb\n", ["line 2", "b has no file"]),
        (b"a x.ark:5\n\xff\xfe x\n", ["line 2", "not UTF-8"]),
    ],
)
def test_bad_scp_lines(tmp_path: Path, content: bytes, parts: list[str]) -> None:
    scp = ark_file(tmp_path, content, "feats.scp")
    with pytest.raises(InputError) as error:
        read_scp(scp)
    one_line(error, scp, *parts)


@pytest.mark.parametrize("entry", ["touch {} |", "cat x | touch {} | ", "| touch {}"])
def test_pipes_are_refused_and_nothing_runs(tmp_path: Path, entry: str) -> None:
    victim = tmp_path / "victim"
    command = entry.format(victim)
    scp = ark_file(tmp_path, f"u {command}\n".encode(), "feats.scp")
    for attempt in (
        lambda: read_scp(scp),
        lambda: read_matrix(command, "u"),
        lambda: list(iter_matrices(scp)),
        lambda: list(iter_matrices(f"ark:{command}")),
        lambda: list(iter_matrices(f"scp:{command}")),
        lambda: list(iter_int_vectors(f"ark,s,cs:{command}")),
    ):
        with pytest.raises((InputError, FileNotFoundError)):
            attempt()
    assert not victim.exists()
    with pytest.raises(InputError) as error:
        read_scp(scp)
    one_line(error, scp, "line 1", "u", "--allow-pipes")


def test_pipes_go_through_the_function_that_is_given(tmp_path: Path) -> None:
    asked: list[str] = []

    def open_pipe(command: str) -> io.BytesIO:
        asked.append(command.strip())
        return io.BytesIO(binary(MATRIX))

    scp = ark_file(tmp_path, b"u copy it |\n", "feats.scp")
    found = dict(iter_matrices(scp, open_pipe=open_pipe))
    np.testing.assert_array_equal(found["u"], MATRIX)
    assert asked == ["copy it"]


def test_pickles_in_an_archive_are_not_opened(tmp_path: Path) -> None:
    victim = tmp_path / "victim"

    class Trap:
        def __reduce__(self) -> tuple:
            return os.mkdir, (str(victim),)

    path = ark_file(tmp_path, b"u PKL" + pickle.dumps(Trap()))
    with pytest.raises(InputError):
        list(iter_matrices(path))
    assert not victim.exists()


# --- damage -------------------------------------------------------------------------------------


def test_nan_and_infinity_are_named(tmp_path: Path) -> None:
    bad = MATRIX.copy()
    bad[3, 1], bad[5, 0] = np.nan, np.inf
    path = ark_file(tmp_path, b"u " + binary(bad))
    with pytest.raises(InputError) as error:
        read_matrix(f"{path}:2", "u")
    one_line(error, path, "u holds nan at frame 3, column 1")
    np.testing.assert_array_equal(read_matrix(f"{path}:2", "u", finite=False), bad)


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
        b"\0BFV \4" + struct.pack("<i", 3) + bytes(12),
        b"\0B\4" + struct.pack("<i", 2**31 - 1),
        b"\0Bgarbage",
        b"RIFF" + bytes(40),
        b"[ 1 2\n 3 ]\n",
        b"[ 1 x ]\n",
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


def test_missing_files_and_offsets_name_the_utterance(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read_matrix(f"{tmp_path}/none.ark:12", "utt7")
    one_line(error, "none.ark:12", "utt7", "No such file")
    path = ark_file(tmp_path, b"u " + binary(MATRIX))
    with pytest.raises(InputError) as error:
        read_matrix(f"{path}:1000", "utt7")
    one_line(error, path, "utt7", 1000, path.stat().st_size)


# --- writing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "part"),
    [
        (np.zeros(3, np.float32), "[3]"),
        (np.zeros((2, 3), np.int64), "int64"),
        (np.zeros((0, 3), np.float32), "[0, 3]"),
        (np.array([[1, np.nan]]), "NaN at frame 0"),
    ],
)
def test_writing_checks_first_and_leaves_what_stood(
    tmp_path: Path, bad: np.ndarray, part: str
) -> None:
    ark, scp = tmp_path / "x.ark", tmp_path / "x.scp"
    write_matrices([("old", MATRIX)], ark, scp)
    before = ark.read_bytes(), scp.read_bytes()
    with pytest.raises(InputError) as error:
        write_matrices([("a", MATRIX), ("utt7", bad)], ark, scp)
    one_line(error, ark, "utt7", part)
    assert (ark.read_bytes(), scp.read_bytes()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.ark", "x.scp"]


def test_writing_refuses_bad_names_and_integers(tmp_path: Path) -> None:
    ark = tmp_path / "x.ark"
    for name in ("", "two words", " a", "a\n"):
        with pytest.raises(InputError, match="one word"):
            write_matrices([(name, MATRIX)], ark)
    with pytest.raises(InputError, match="u is there a second time"):
        write_matrices([("u", MATRIX), ("u", MATRIX)], ark)
    for bad in (np.array([2**31]), np.array([0.5]), np.zeros((2, 2), int)):
        with pytest.raises(InputError, match="u "):
            write_int_vectors([("u", bad)], ark)
    with pytest.raises(InputError, match="gzipped"):
        write_matrices([("u", MATRIX)], tmp_path / "x.ark.gz", tmp_path / "x.scp")
    assert list(tmp_path.iterdir()) == []


def test_an_archive_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    write_int_vectors([("u", np.arange(9))], tmp_path / "a.gz")
    first = gzip.decompress((tmp_path / "a.gz").read_bytes())
    assert first == b"u \0B\4" + struct.pack("<i", 9) + b"".join(
        struct.pack("<bi", 4, i) for i in range(9)
    )


def test_a_named_pipe_is_read_as_a_stream(tmp_path: Path) -> None:
    """What a shell's <(command) gives: a file without a size."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    content = b"u " + binary(MATRIX)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(fifo.write_bytes, content)
        ((utt, matrix),) = iter_matrices(fifo)
    assert utt == "u"
    np.testing.assert_array_equal(matrix, MATRIX)
