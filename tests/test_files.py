"""Files that appear under their name when they are complete."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.errors import InputError
from bayes_asr.files import HOST, read_text, replacing
from bayes_asr.tables.integers import write_int_vectors
from bayes_asr.tables.lattice import write_lattices
from tests.attacks.fuzzing import WORD_LATTICES


def test_only_what_no_process_of_this_machine_writes_is_removed(tmp_path: Path) -> None:
    names = {
        "of a killed process": f".a.{HOST}.99999999.partial.txt",
        "of a running one": f".a.{HOST}.{os.getppid()}.partial.txt",
        "of another machine": ".a.elsewhere.99999999.partial.txt",
        "of another file": f".ab.{HOST}.99999999.partial.txt",
    }
    for name in names.values():
        (tmp_path / name).write_text("half")
    with replacing(tmp_path / "a.txt") as temporary:
        temporary.write_text("whole")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"a.txt", *names.values()} - {names["of a killed process"]}


def _write_to_a_full_disk(path: Path) -> None:
    with replacing(path) as temporary:
        temporary.write_text("new")
        raise OSError(28, "full")


def test_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OSError, match="full") as caught:
        _write_to_a_full_disk(path)
    assert caught.value.filename == str(path)
    assert [path.read_text(), *map(str, tmp_path.iterdir())] == ["old", str(path)]


def test_endless_text_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a" * 11)
    with pytest.raises(InputError, match="more than 10 bytes"):
        read_text(path, 10)
    assert read_text(path, 11) == "a" * 11


def test_compressed_archives_do_not_depend_on_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    for number, name in enumerate(("one", "other")):
        monkeypatch.setattr(time, "time", lambda number=number: 1e9 * number + 1)
        write_int_vectors([("u", np.arange(9))], tmp_path / name / "ali.1.gz")
        write_lattices(WORD_LATTICES, tmp_path / name / "lat.1.gz")
        written.append([(tmp_path / name / f).read_bytes() for f in ("ali.1.gz", "lat.1.gz")])
    assert written[0] == written[1]
