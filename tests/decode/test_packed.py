"""Archives of runs: what is packed recognises alike elsewhere, and no archive writes elsewhere."""

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode import packed
from bayes_asr.decode.packed import unpacked
from bayes_asr.train.runs.configuration import read_configuration


def with_name(name: str, kind: int = 0) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = kind << 16
            archive.writestr(entry, "content")

    return write


def damage(path: Path) -> None:
    with_name("config.yaml")(path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"content", b"contend"))


def small_size(path: Path) -> None:
    """A member that says 1 byte where it has a million."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.yaml", bytes(1_000_000))
    content = path.read_bytes()
    path.write_bytes(content.replace(struct.pack("<I", 1_000_000), struct.pack("<I", 1)))


def large_size(path: Path) -> None:
    """A member that says 99 bytes where it has 7, all of which are read."""
    with_name("config.yaml")(path)
    content = path.read_bytes()
    index = content.index(b"PK\1\2")
    path.write_bytes(content[: index + 24] + struct.pack("<I", 99) + content[index + 28 :])


def twice(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one", "a")
        archive.writestr("two", "b")
    path.write_bytes(path.read_bytes().replace(b"two", b"one"))


def by_lzma(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("best.pt", "content")


def below_a_file(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("graph", "content")
        archive.writestr("graph/HCLG.fst", "content")


def large(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("best.pt", bytes(1 << 20))


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (with_name("../outside"), "'../outside' is no file of a packed run"),
        (with_name("graph/../../outside"), "is no file of a packed run"),
        (with_name("/outside"), "'/outside' is no file of a packed run"),
        (with_name("//outside"), "'//outside' is no file of a packed run"),
        (with_name("..\\outside"), "is no file of a packed run"),
        (with_name("link", 0o120777), "'link' is no file of a packed run"),
        (with_name("pipe", 0o010644), "'pipe' is no file of a packed run"),
        (damage, "no file of bayes-asr export --archive: Bad CRC-32"),
        (small_size, "no file of bayes-asr export --archive: Bad CRC-32"),
        (large_size, "no file of bayes-asr export --archive: config.yaml has 7 of 99 bytes"),
        (
            with_name("best/data.pkl"),
            "archive: has best/data.pkl, and no config.yaml; give the fol",
        ),
        (by_lzma, "'best.pt' is no file of a packed run"),
        (below_a_file, "no file of bayes-asr export --archive: .* File exists"),
        (twice, "2 members of 2 bytes, 1 names; a packed run has at most"),
        (large, r"1 members of 1048576 bytes, .* a packed run has at most 10000 of \d+ bytes"),
    ],
)
def test_archives_that_are_no_packed_runs_are_refused(
    write: Callable[[Path], None], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "ALWAYS_UNPACKED", 1 << 16)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    archive = tmp_path / "run.zip"
    write(archive)
    with pytest.raises(InputError, match=message) as caught, unpacked(archive):
        pass
    assert str(caught.value).startswith(f"{archive}: ")
    assert {path.name for path in tmp_path.iterdir()} == {"run.zip", "temporary"}
    assert not any((tmp_path / "temporary").iterdir())


def test_faults_within_an_archive_name_it_and_not_its_copy(tmp_path: Path) -> None:
    archive = tmp_path / "run.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("config.yaml", "model: 1\n")
    with pytest.raises(InputError) as caught, unpacked(archive) as run:
        read_configuration(run)
    assert str(caught.value).startswith(f"{archive}/config.yaml, line 1: ")
    assert str(run) not in str(caught.value)
