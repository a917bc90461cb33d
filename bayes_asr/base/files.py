"""Files that appear under their name only when they are complete, and small ones to read.

Those that belong together appear together. What is not complete lies in a folder of its own.
"""

import errno
import fcntl
import filecmp
import fnmatch
import gzip
import os
import platform
import re
import select
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from bayes_asr.base.errors import InputError, naming, reason

LONGEST_TEXT = 1 << 20
SPACE = "/proc/self/ns/pid"
# Numbers of processes mean the same only within one PID namespace, such as a container; or 0.
NUMBER_SPACE = os.stat(SPACE).st_ino if os.path.exists(SPACE) else 0
HOST = f"{platform.node() or 'localhost'}.{NUMBER_SPACE}"
WAIT = 30.0  # seconds for a named pipe to be written to
UNFINISHED, DISCARDED = ".partial", ".discarded"
REPLACED_BY = ".replaced_by"  # holds complete files until each has its place
LOCK = ".lock"  # in that folder: held by who moves them
LEFTOVER = re.compile(rf"\.(.+)\.(\d{{1,9}})\.[0-9a-f]{{16}}{re.escape(UNFINISHED)}")
LONGEST_WORK = 7 * 86_400.0  # seconds, after which what another machine left is nobody's

_group: tuple[Path, Path] | None = None  # of `together`: the folder, and where its files wait


def read_text(path: Path, longest: int = LONGEST_TEXT) -> str:
    """Read a UTF-8 text that a person wrote: not endless, nor longer than `longest` bytes."""
    with open_to_read(str(path)) as file:
        # One byte more than is allowed shows that a file is too long without reading all of it.
        raw = file.read(longest + 1)
    if len(raw) > longest:
        raise InputError(f"{path}: has more than {longest} bytes, which nobody wrote")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None


def read_bytes(path: Path) -> bytes:
    """The content of a file."""
    with open_to_read(str(path)) as file:
        return file.read()


def open_to_read(name: str) -> BinaryIO:
    """Open a file, the new one where its group is being replaced.

    InputError for a named pipe that nobody writes to, and for a device, which may have no end. A
    pipe without a name, as of a process substitution, has its writer, who may take any time.
    """
    check_settled(name)
    try:
        return _open(name)
    except FileNotFoundError:  # the old one went this instant: the new one comes
        check_settled(name)
        return _open(name)


def is_there(path: Path) -> bool:
    """Say whether a file exists, once its group is complete; OSError where that cannot be seen."""
    for _ in range(2):  # the old one may have gone this instant: the new one comes
        check_settled(path)
        with suppress(FileNotFoundError, NotADirectoryError, ValueError):  # no name has a zero byte
            return bool(os.stat(path))
    return False


def find_files(directory: Path, pattern: str) -> list[Path]:
    """The files of a folder that match, sorted, once each group there is complete."""
    with suppress(FileNotFoundError, NotADirectoryError):  # not where it is forbidden
        while REPLACED_BY in (names := os.listdir(directory)):
            check_settled(directory / pattern)
        return sorted(directory / name for name in fnmatch.filter(names, pattern))
    return []


def _open(name: str) -> BinaryIO:
    # /dev/fd/N leads to "pipe:[7]", which is the name of no file.
    if not (Path(name).is_fifo() and os.path.exists(os.path.realpath(name))):
        file = open(name, "rb")  # noqa: SIM115 - for the caller
        # A terminal has an end, and /dev/null nothing else.
        if _is_device(os.fstat(file.fileno())) and not file.isatty():
            file.close()
            raise InputError(f"{name}: is a device; give a file")
        return file
    # Without O_NONBLOCK the opening itself would wait for a writer, and without end.
    pipe = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    if not waiting.poll(1000 * WAIT):
        os.close(pipe)
        raise InputError(f"{name}: nobody wrote to this pipe within {WAIT:g} s; give a file")
    os.set_blocking(pipe, True)
    return open(pipe, "rb")


def _is_device(status: os.stat_result) -> bool:
    """Whether this is of a device other than /dev/null."""
    kinds = stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)
    return kinds and status.st_rdev != os.stat(os.devnull).st_rdev


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the name of a new file; on success sync what is written there and rename it to `path`.

    A failure inside the block leaves whatever stood at `path`. The last part of the name is that of
    `path`, because some writers choose the format by it. Within `together`, the file waits for the
    others.
    """
    path = Path(path)
    target = _find_place(path)
    with _private_folder(target.parent) as directory, naming(path):
        temporary = directory / path.name
        yield temporary
        # The content is on the disk before the name is, or a crash could leave an empty file.
        _sync(temporary)
        temporary.replace(target)
        if target != path:  # of a group that may have discarded it
            target.with_name(f"{path.name}{DISCARDED}").unlink(missing_ok=True)


@contextmanager
def updating(path: Path) -> Iterator[Path]:
    """The same as `replacing`; where the file has this content already, it keeps its time.

    Stages that read it stay complete then. Within `together`, where one file stands for others, its
    time is new.
    """
    with replacing(path) as temporary:
        yield temporary
        with suppress(OSError):  # none is there, or none that can be read
            if not _group and filecmp.cmp(temporary, path, shallow=False):
                status = os.stat(path)
                os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))


@contextmanager
def writing(path: Path, level: int = 9) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` on success, gzipped at `level` if that is named .gz."""
    with replacing(path) as temporary:
        if path.suffix == ".gz":
            # No time and no name in its header: the same content gives the same bytes.
            with temporary.open("wb") as file, gzip.GzipFile("", "wb", level, file, 0) as packed:
                yield cast(BinaryIO, packed)
        else:
            with temporary.open("wb") as plain:
                yield plain


@contextmanager
def together(directory: Path) -> Iterator[None]:
    """Let all files at or below `directory` that the block writes or discards change at once.

    They are those of `replacing` and `discard`. Until the block ends, all that stood there stays; a
    failure inside leaves it so. The block must not read what it writes.

    The new files are complete in a folder that then gets the name REPLACED_BY: from here on they
    will appear, whatever happens. All old ones go before the first new one comes, so that no
    program ever finds both. Where a kill or the disk stops that, whoever reads or writes there next
    finishes it, as after a crash of a database.
    """
    global _group
    if _group:  # those of an outer block appear with it
        yield
        return
    settle(directory)
    with _private_folder(directory) as staged:
        _group = (Path(os.path.abspath(directory)), staged)
        try:
            yield
        finally:
            _group = None
        # What can fail is tried before the rename, after which there is no way back.
        _check_targets(staged, directory)
        for place in filter(Path.is_dir, staged.rglob("*")):
            _sync(place)
        if any(staged.iterdir()):
            (staged / LOCK).touch()
            _sync(staged)
            _finish(directory)  # of another process, which was stopped meanwhile
            # This one rename decides: before it nothing has changed, after it all will.
            staged.rename(directory / REPLACED_BY)
            _sync(directory)
            _finish(directory)


def require_empty(directory: Path) -> None:
    """InputError where a folder holds more than what stopped commands left."""
    settle(directory)
    if directory.exists() and any(directory.iterdir()):
        raise InputError(f"{directory}: is not empty; choose another folder")


def real_path(path: Path) -> Path:
    """The path without links; unlike Path.resolve it takes those that lead in a circle."""
    return Path(os.path.realpath(path))


@contextmanager
def appearing(directory: Path) -> Iterator[None]:
    """Let a folder that is not there, or empty, appear with all that the block writes in it.

    A failure at any place leaves no folder, so that the same command can be given again.
    """
    global _group
    # A link keeps its place: what it leads to appears.
    target = real_path(directory)
    with _private_folder(target.parent) as staged:
        complete = staged / target.name
        complete.mkdir()
        _group = (Path(os.path.abspath(directory)), complete)
        try:
            yield
        finally:
            _group = None
        _sync(complete)
        complete.rename(target)
        try:
            _sync(target.parent)
        except OSError:
            shutil.rmtree(target, ignore_errors=True)
            raise


def discard(path: Path) -> None:
    """Remove a file if it is there; within `together`, when the new ones appear."""
    place = _find_place(path)
    place.unlink(missing_ok=True)
    if place != path and os.path.lexists(path):
        place.parent.mkdir(parents=True, exist_ok=True)
        # An empty file that ends in DISCARDED stands for a removal among the new files.
        place.with_name(f"{path.name}{DISCARDED}").touch()


def settle(directory: Path) -> None:
    """Finish what a stopped `together` began in a folder, and remove what killed ones left."""
    if directory.is_dir():
        _finish(directory)
        _remove_leftovers(directory)


def check_settled(path: Path | str) -> None:
    """Finish what a stopped `together` began beside a file to read; InputError where that fails."""
    directory = os.path.dirname(path)
    if os.path.lexists(os.path.join(directory, REPLACED_BY)):
        try:
            _finish(Path(directory))
        except OSError as error:
            raise InputError(
                f"{path}: the command that replaced the files of this folder was stopped"
                f" ({reason(error)}); give that command again"
            ) from None


def _find_place(path: Path) -> Path:
    """The path to write for a file that shall appear at `path`: there, or where its group waits."""
    if _group:
        directory, staged = _group
        absolute = Path(os.path.abspath(path))
        if absolute.is_relative_to(directory):
            return staged / absolute.relative_to(directory)
    return path


@contextmanager
def _private_folder(parent: Path) -> Iterator[Path]:
    """A new folder that nobody else may enter, under a name that nobody foresees.

    Errors about what lies in it name the same in `parent`.
    """
    parent.mkdir(parents=True, exist_ok=True)
    # Nobody else writes where a group waits, which may have as many files as a corpus.
    if not (_group and parent.is_relative_to(_group[1])):
        _remove_leftovers(parent)
    directory = parent / f".{HOST}.{os.getpid()}.{os.urandom(8).hex()}{UNFINISHED}"
    try:
        directory.mkdir(mode=0o700)  # not through a link, and not where anything is
        yield directory
    except OSError as error:
        for name in ("filename", "filename2"):
            where = getattr(error, name)
            if isinstance(where, str) and Path(where).is_relative_to(directory):
                setattr(error, name, str(parent / Path(where).relative_to(directory)))
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _check_targets(staged: Path, directory: Path) -> None:
    """Refuse directories where files shall appear, and links that lead out of `directory`.

    Nothing is changed before that. A folder from somebody else may hold such a link beside files
    that pretend to be of a stopped command: reading it must not write where the link leads.
    """
    inside = os.path.realpath(directory)
    for path in staged.rglob("*"):
        target = directory / path.relative_to(staged)
        parent = os.path.realpath(target.parent)
        if path.is_symlink() or os.path.commonpath((inside, parent)) != inside:
            raise InputError(
                f"{path if path.is_symlink() else target}: a link leads out of {directory}, where"
                " nothing is written; put the folder itself in the place of the link"
            )
        if not path.is_dir() and target.is_dir() and not target.is_symlink():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))


def _finish(directory: Path) -> None:
    """Put the complete files of REPLACED_BY in place, all or those that are left."""
    ready = directory / REPLACED_BY
    try:
        status = ready.lstat()
    except FileNotFoundError:  # nobody was stopped, or another process has just finished it
        return
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise InputError(
            f"{ready}: is not a folder of yours; it holds what a stopped command of somebody else"
            " puts in place when they give it again"
        )
    try:
        lock = (ready / LOCK).open("rb+")
    except FileNotFoundError:  # the last file to go
        with suppress(FileNotFoundError):
            ready.rmdir()
        return
    with lock:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        # A lock file without a name was removed by the process that had the lock before.
        if not os.fstat(lock.fileno()).st_nlink:  # another process has finished it
            return
        _check_targets(ready, directory)
        _put_in_place(ready, directory)
        # The lock goes last but the folder, as a sign for those who wait for it.
        (ready / LOCK).unlink()
        ready.rmdir()


def _put_in_place(ready: Path, directory: Path) -> None:
    """Remove all old files, then move the new ones; what was moved already stays."""
    entries = sorted(ready.rglob("*"))
    folders = [path for path in entries if path.is_dir()]
    files = [path for path in entries if not path.is_dir() and path.name != LOCK]
    for path in files:
        target = directory / path.relative_to(ready)
        target.with_name(target.name.removesuffix(DISCARDED)).unlink(missing_ok=True)
    for path in files:
        if path.suffix == DISCARDED:
            path.unlink()
        else:
            target = directory / path.relative_to(ready)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
    # Reversed order empties the inner folders before the outer ones.
    for path in reversed(folders):
        path.rmdir()


def _sync(path: Path) -> None:
    """Return when a file, or the names in a folder, are on the disk."""
    place = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(place)
    finally:
        os.close(place)


def _remove_leftovers(directory: Path) -> None:
    """Remove what processes left unfinished that are no more: of HOST, or of any by age."""
    for name in os.listdir(directory):  # plain names: there may be as many as files of a corpus
        if (match := LEFTOVER.fullmatch(name)) and _is_over(directory / name, *match.groups()):
            shutil.rmtree(directory / name, ignore_errors=True)


def _is_over(path: Path, host: str, process: str) -> bool:
    with suppress(OSError):  # such as that the process is somebody else's
        if host != HOST:
            return time.time() - path.lstat().st_mtime > LONGEST_WORK
        try:
            os.kill(int(process), 0)  # signal 0 only asks whether the process exists
        except ProcessLookupError:
            return True
    return False
