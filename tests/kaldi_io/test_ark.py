"""Archives: what Kaldi wrote, what we write, and what others read of it."""

import gzip
import io
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import kaldiio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.ark import (
    iter_int_vectors,
    iter_matrices,
    read_matrix,
    read_scp,
    read_vector,
    write_matrices,
)
from bayes_asr.kaldi_io.integers import write_int_vectors
from tests.support.archives import MATRIX, ark_file, binary, one_line

names = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1)
float_matrices = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)
int_vectors = st.lists(st.integers(-(2**31), 2**31 - 1)).map(lambda x: np.array(x, np.int32))


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


@pytest.mark.slow
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


@pytest.mark.parametrize("begin", [b"", b"\n", b"\r\n "])
def test_a_byte_order_mark_is_no_part_of_a_name(begin: bytes, tmp_path: Path) -> None:
    """As in tables; editors on Windows write it."""
    mark = "\ufeff".encode()
    vectors = iter_int_vectors(ark_file(tmp_path, mark + begin + b"a 1 2\nb 3\n"))
    assert {utt: v.tolist() for utt, v in vectors} == {"a": [1, 2], "b": [3]}
    matrices = iter_matrices(ark_file(tmp_path, mark + begin + b"a [ 7 8 ]\n"))
    assert {utt: matrix.tolist() for utt, matrix in matrices} == {"a": [[7, 8]]}
    assert not list(iter_int_vectors(ark_file(tmp_path, mark + begin)))


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


def test_labels_that_hardly_change_are_packed_as_far_as_gzip_can(tmp_path: Path) -> None:
    """One label an hour, as of silence; 258 equal bytes take two bits."""
    labels = {f"u{number}": np.full(360_000, number, np.int32) for number in range(10)}
    write_int_vectors(labels.items(), tmp_path / "ali.1.gz")
    assert (tmp_path / "ali.1.gz").stat().st_size < 10 * 5 * 360_000 / 500
    for utt, found in iter_int_vectors(tmp_path / "ali.1.gz"):
        np.testing.assert_array_equal(found, labels[utt])


def test_streams_do_not_hold_the_corpus(tmp_path: Path) -> None:
    big = np.ones((1000, 100), np.float32)
    write_matrices(((f"u{i}", big) for i in range(50)), tmp_path / "x.ark")
    tracemalloc.start()
    assert sum(len(matrix) for _, matrix in iter_matrices(tmp_path / "x.ark")) == 50_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * big.nbytes


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
