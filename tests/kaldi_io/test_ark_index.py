"""Indices of archives (scp): ranges, paths, pipes."""

import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.ark import (
    iter_int_vectors,
    iter_matrices,
    read_matrix,
    read_scp,
    write_matrices,
)
from bayes_asr.kaldi_io.rxfilename import list_archives
from tests.support.archives import MATRIX, ark_file, binary, one_line


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


@pytest.mark.parametrize(
    ("folder", "width", "is_found"),
    [("data/train", 2, True), ("data-fmllr/train", 2, False), ("data/train", 4, False)],
)
def test_archive_is_found_beside_its_table_when_the_folders_above_have_moved(
    folder: str, width: int, is_found: bool, tmp_path: Path
) -> None:
    """Where that is of other numbers, or in a folder of another name, the table is as it was."""
    before, now = tmp_path / "before", tmp_path / "now"
    data = before / "data/train"
    data.mkdir(parents=True)
    write_matrices([(u, MATRIX) for u in "uv"], data / "feats.ark", data / "feats.scp")
    lines = read_scp(data / "feats.scp")
    before.rename(now)
    (now / "data").rename(now / Path(folder).parent)
    (now / "link.scp").symlink_to(f"{folder}/feats.scp")
    if width != MATRIX.shape[1]:
        other = [(u, np.ones((len(MATRIX), width), np.float32)) for u in "uv"]
        write_matrices(other, now / folder / "feats.ark")
    for table in (now / folder / "feats.scp", now / "link.scp"):
        found = read_scp(table)
        if is_found:
            assert np.array_equal(dict(iter_matrices(table))["v"], MATRIX)
        else:
            assert found == lines
    data.mkdir(parents=True)
    (data / "feats.ark").touch()
    assert read_scp(now / folder / "feats.scp") == lines, "what is there is taken"


def test_digits_alone_are_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list_archives(["17", "17:2", "a:17"]) == [Path("17"), Path("a")]
    data, work = tmp_path / "data", tmp_path / "work"
    for folder in (data, work):
        folder.mkdir()
        (folder / "17").touch()
    (data / "feats.scp").write_text("u 17\n")
    monkeypatch.chdir(work)
    assert read_scp(data / "feats.scp") == {"u": "17"}


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


def test_missing_files_and_offsets_name_the_utterance(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read_matrix(f"{tmp_path}/none.ark:12", "utt7")
    one_line(error, "none.ark:12", "utt7", "No such file")
    path = ark_file(tmp_path, b"u " + binary(MATRIX))
    with pytest.raises(InputError) as error:
        read_matrix(f"{path}:1000", "utt7")
    one_line(error, path, "utt7", 1000, path.stat().st_size)


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
