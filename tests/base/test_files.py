"""Files that appear under their name when they are complete."""

import errno
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path, PurePath

import numpy as np
import pytest

from bayes_asr.base import files
from bayes_asr.base.errors import InputError
from bayes_asr.base.files import (
    HOST,
    REPLACED_BY,
    discard,
    find_files,
    is_there,
    read_text,
    replacing,
    settle,
    together,
)
from bayes_asr.base.walk import find_below
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.lattice_files import write_lattices
from tests.attacks.breakages import unprivileged
from tests.attacks.fuzzing import WORD_LATTICES
from tests.support.places import ROOT


def test_only_what_no_process_of_this_machine_writes_is_removed(tmp_path: Path) -> None:
    names = {
        "of a killed process": left_by(99999999),
        "of a running one": left_by(os.getppid()),
        "of another machine": left_by(99999999, "elsewhere"),
        "of another machine, long ago": left_by(99999998, "elsewhere"),
        "somebody's own": f".{HOST}.99999999.partial",
    }
    for name in names.values():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("half")
    os.utime(tmp_path / names["of another machine, long ago"], (0, 0))
    with replacing(tmp_path / "a.txt") as temporary:
        temporary.write_text("whole")
    left = {path.name for path in tmp_path.iterdir()}
    gone = {names["of a killed process"], names["of another machine, long ago"]}
    assert left == {"a.txt", *names.values()} - gone


WRITE = """
import sys
from pathlib import Path
from bayes_asr.base.files import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.touch()
"""


def test_what_is_written_outside_a_container_is_not_removed_inside(tmp_path: Path) -> None:
    """With the network of the machine it has its name, but the numbers of processes are its own."""
    container = ["unshare", "--map-root-user", "--pid", "--fork"]
    if not shutil.which("unshare") or subprocess.run([*container, "true"]).returncode:
        pytest.skip("there is no unshare that may make a container here")
    with replacing(tmp_path / "outside") as temporary:
        temporary.touch()
        command = [*container, sys.executable, "-c", WRITE, tmp_path / "inside"]
        subprocess.run(command, cwd=ROOT, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {"outside", "inside"}


def left_by(process: int, host: str = HOST) -> str:
    """The name of what a process has not finished."""
    return f".{host}.{process}.0123456789abcdef.partial"


def test_links_that_are_planted_are_neither_followed_nor_removed_through(tmp_path: Path) -> None:
    """At every name that a process could foresee."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "a.txt").write_text("precious")
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in (left_by(99999999), left_by(os.getpid()), ".a.txt", "a.txt"):
        (folder / name).symlink_to(precious / "a.txt" if name == "a.txt" else precious)
    with replacing(folder / "a.txt") as temporary:
        assert temporary.parent.stat().st_mode & 0o777 == 0o700
        temporary.write_text("new")
    assert (folder / "a.txt").read_text() == "new"
    assert not (folder / "a.txt").is_symlink()
    assert (precious / "a.txt").read_text() == "precious"
    (folder / REPLACED_BY).symlink_to(precious)
    with pytest.raises(InputError, match="is not a folder of yours"):
        settle(folder)
    assert (precious / "a.txt").read_text() == "precious"


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_new_files_have_the_mode_that_the_user_wants(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        with together(tmp_path), replacing(tmp_path / "below" / "a.txt") as temporary:
            temporary.write_text("new")
    finally:
        os.umask(before)
    assert (tmp_path / "below" / "a.txt").stat().st_mode & 0o777 == 0o666 & ~mask
    assert (tmp_path / "below").stat().st_mode & 0o777 == 0o777 & ~mask


def write_pair(folder: Path, text: str) -> None:
    with together(folder):
        for name in ("a.txt", "below/b.txt"):
            with replacing(folder / name) as temporary:
                temporary.write_text(text)
        discard(folder / "stale.txt")


def test_files_that_belong_together_change_together_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "stale.txt").write_text("old")
    write_pair(tmp_path, "old")
    assert read_all(tmp_path) == {"a.txt": "old", "below/b.txt": "old"}

    def fail() -> None:
        with together(tmp_path):
            with replacing(tmp_path / "a.txt") as temporary:
                temporary.write_text("new")
            assert (tmp_path / "a.txt").read_text() == "old"
            raise InputError("too bad")

    with pytest.raises(InputError, match="too bad"):
        fail()
    assert read_all(tmp_path) == {"a.txt": "old", "below/b.txt": "old"}
    (tmp_path / "below" / "b.txt").unlink()
    (tmp_path / "below" / "b.txt").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write_pair(tmp_path, "new")
    assert caught.value.filename == str(tmp_path / "below" / "b.txt")
    assert read_all(tmp_path) == {"a.txt": "old"}


def test_a_file_takes_no_longer_in_a_group_of_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the names that are listed, and the paths that are compared."""
    steps, list_names, compare = itertools.count(), os.listdir, PurePath.__eq__

    def listdir(folder: Path) -> list[str]:
        return [name for name in list_names(folder) if next(steps) >= 0]

    monkeypatch.setattr(os, "listdir", listdir)
    monkeypatch.setattr(PurePath, "__eq__", lambda x, y: next(steps) >= 0 and compare(x, y))
    counts = []
    for size in (10, 40):
        before = next(steps)
        write_group(tmp_path / f"{size}", *map(str, range(size)))
        counts.append(next(steps) - before)
    assert counts[1] <= 4 * counts[0]


def no_space() -> None:
    raise OSError(28, "No space left on device")


def read_all(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_a_replacement_that_was_stopped_is_finished_by_who_reads_there_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pair(tmp_path, "old")
    ready = tmp_path / REPLACED_BY
    (ready / "below").mkdir(parents=True)
    (ready / "below" / "b.txt").write_text("new")  # a.txt has its place already
    (tmp_path / "a.txt").write_text("new")
    (tmp_path / "stale.txt").write_text("old")
    (ready / "stale.txt.discarded").touch()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", lambda *_: no_space())
        (ready / ".lock").touch()
        with pytest.raises(InputError, match=r"a\.txt: the command that replaced .* again$"):
            read_text(tmp_path / "a.txt")
    assert read_text(tmp_path / "a.txt") == "new"
    assert read_all(tmp_path) == {"a.txt": "new", "below/b.txt": "new"}


def test_the_last_word_on_a_file_of_a_group_counts_where_it_is_finished_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kept.txt", "gone.txt"):
        (tmp_path / name).write_text("old")

    def write(name: str) -> None:
        with replacing(tmp_path / name) as temporary:
            temporary.write_text("new")

    with monkeypatch.context() as patch:
        patch.setattr(files, "_finish", lambda _: None)  # killed before
        with together(tmp_path):
            discard(tmp_path / "kept.txt")
            write("kept.txt")
            write("gone.txt")
            discard(tmp_path / "gone.txt")
    staged = {path.name for path in (tmp_path / REPLACED_BY).iterdir()}
    assert staged == {"kept.txt", "gone.txt.discarded", ".lock"}
    settle(tmp_path)
    assert read_all(tmp_path) == {"kept.txt": "new"}


def test_who_reads_during_a_replacement_gets_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replacement begins when the reader has looked for one, and before it opens the file."""
    table = tmp_path / "table"
    table.write_text("a old\n")
    look = files.check_settled

    def look_too_early(path: Path | str) -> None:
        monkeypatch.setattr(files, "check_settled", look)
        look(path)
        (tmp_path / REPLACED_BY).mkdir()
        (tmp_path / REPLACED_BY / ".lock").touch()
        (tmp_path / REPLACED_BY / "table").write_text("a new\n")
        table.unlink()

    monkeypatch.setattr(files, "check_settled", look_too_early)
    assert [fields for _, fields in iter_lines(table)] == [["a", "new"]]


@pytest.mark.parametrize(
    ("call", "look"),
    [
        ("stat", lambda folder: is_there(folder / "table")),
        ("listdir", lambda folder: find_files(folder, "t*") == [folder / "table"]),
        ("scandir", lambda folder: find_below(folder.parent, "t*") == [folder / "table"]),
    ],
    ids=["a file", "files", "files below"],
)
def test_who_looks_during_a_replacement_sees_the_new_file(
    call: str, look: Callable[[Path], bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins when the reader has looked for one, and before it looks for the file."""
    folder = tmp_path / "folder"
    write_group(folder, "table")
    look_up = getattr(os, call)

    def look_too_late(path: Path | str) -> object:
        if Path(path) in (folder, folder / "table"):
            monkeypatch.setattr(os, call, look_up)
            (folder / REPLACED_BY).mkdir()
            (folder / REPLACED_BY / ".lock").touch()
            (folder / "table").rename(folder / REPLACED_BY / "table")
        return look_up(path)

    monkeypatch.setattr(os, call, look_too_late)
    assert look(folder)


def _write_to_a_full_disk(path: Path) -> None:
    with replacing(path) as temporary:
        temporary.write_text("new")
        raise OSError(28, "full")


@pytest.mark.parametrize("planted", ["a folder", "a file", "a folder among the new"])
def test_a_folder_from_somebody_else_is_not_a_way_out_of_it(planted: str, tmp_path: Path) -> None:
    """Reading finishes a stopped replacement, but never behind a link."""
    elsewhere, handed = tmp_path / "elsewhere", tmp_path / "handed"
    (handed / REPLACED_BY).mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "keys").write_text("mine")
    (handed / "text").write_text("utt word\n")
    (handed / REPLACED_BY / files.LOCK).touch()
    if planted == "a folder":
        (handed / "sub").symlink_to(elsewhere)
        (handed / REPLACED_BY / "sub").mkdir()
        (handed / REPLACED_BY / "sub" / "keys").write_text("theirs")
    elif planted == "a file":
        (handed / REPLACED_BY / "text").symlink_to(elsewhere / "keys")
    else:
        (handed / REPLACED_BY / "sub").symlink_to(elsewhere)
    for action in (lambda: read_text(handed / "text"), lambda: settle(handed)):
        with pytest.raises(InputError, match="link leads out of"):
            action()
    assert (elsewhere / "keys").read_text() == "mine"
    assert [path.name for path in elsewhere.iterdir()] == ["keys"]
    assert (handed / "text").read_text() == "utt word\n"


def test_new_files_are_not_written_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sub").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(InputError, match="out/sub/keys: a link leads out of"),
        together(tmp_path / "out"),
        replacing(tmp_path / "out" / "sub" / "keys") as temporary,
    ):
        temporary.write_text("new")
    assert not list((tmp_path / "elsewhere").iterdir())
    settle(tmp_path / "out")  # nothing is left to finish


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


def test_devices_are_not_read(tmp_path: Path) -> None:
    """But /dev/null, which ends at once."""
    (tmp_path / "endless").symlink_to("/dev/zero")
    with pytest.raises(InputError, match="endless: is a device; give a file"):
        files.read_bytes(tmp_path / "endless")
    assert files.read_bytes(Path("/dev/null")) == b""


def write_group(folder: Path, *names: str) -> None:
    """Write files that appear together, each of which holds its name."""
    with together(folder):
        for name in names:
            with replacing(folder / name) as temporary:
                temporary.write_text(name)


@pytest.mark.parametrize("number", range(4))
def test_a_disk_that_fails_is_said_with_the_file(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the content of two files is synced, or the names in two folders."""
    sync, calls = os.fsync, itertools.count()

    def fail(place: int) -> None:
        if next(calls) == number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(place)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output") as caught:
        write_group(tmp_path, "one", "two")
    assert caught.value.filename.startswith(str(tmp_path))


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


def test_a_new_folder_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, sync = tmp_path / "out", files._sync

    def write() -> None:
        files.require_empty(out)
        with files.appearing(out):
            for name in ("a", "b/c"):
                with replacing(out / name) as temporary:
                    temporary.write_text(name)
            assert not out.exists()

    def fail(path: Path) -> None:
        sync(path)
        if path == tmp_path:  # after the folder has got its name
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(files, "_sync", fail)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write()
    assert not [*tmp_path.iterdir()]
    monkeypatch.setattr(files, "_sync", sync)
    write()
    assert (out / "b/c").read_text() == "b/c"
    assert [*tmp_path.iterdir()] == [out]
    with pytest.raises(InputError, match="out: is not empty; choose another folder"):
        write()


# --- what may not be seen


@pytest.mark.parametrize(
    "look",
    [
        lambda folder: is_there(folder / "file"),
        lambda folder: find_files(folder, "f*"),
        lambda folder: find_below(folder, "file"),
    ],
)
def test_what_is_forbidden_is_not_said_to_be_absent(
    look: Callable[[Path], object], tmp_path: Path
) -> None:
    """Whoever is told that a file is missing makes it anew."""
    folder = tmp_path / "folder"
    assert not look(folder)
    folder.mkdir()
    assert not look(folder)
    (folder / "file").touch()
    assert look(folder)
    folder.chmod(0)
    with unprivileged(), pytest.raises(PermissionError) as refused:
        look(folder)
    folder.chmod(0o700)
    assert str(refused.value.filename).startswith(str(folder))
