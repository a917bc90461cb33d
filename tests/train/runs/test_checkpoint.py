"""Checkpoints that are damaged, that cannot be read, and that a disk has no room for."""

import errno
import os
import resource
import shutil
import signal
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bayes_asr.base.errors import InputError, StoppedError
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.status import read_status
from bayes_asr.train.start import train
from tests.support.training_runs import (
    BATCHES,
    OPTIONS,
    assert_same,
    at_batch,
    config_of,
    epochs_of,
    states,
)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def garbage(path: Path) -> None:
    path.write_bytes(b"\x80garbage" * 100)


def flipped(path: Path) -> None:
    """One bit inside the weights, which torch itself reads without a word."""
    raw = bytearray(path.read_bytes())
    weights = max(torch.load(path, weights_only=True)["model"].values(), key=torch.numel)
    raw[raw.index(weights.numpy().tobytes()) + 5] ^= 4
    path.write_bytes(raw)
    torch.load(path, weights_only=True)


DAMAGES = [truncated, garbage, flipped, lambda path: path.write_bytes(b"")]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_last_checkpoint_is_replaced_by_the_one_before(
    damage: Callable[[Path], object],
    small_corpus: Path,
    undisturbed: dict[str, Any],
    tmp_path: Path,
    messages: Any,
) -> None:
    train(config_of(small_corpus, *OPTIONS[1:], "train.epochs=2"), tmp_path)
    damage(tmp_path / "last.pt")
    train(config_of(small_corpus, *OPTIONS), tmp_path)
    said = f"{tmp_path / 'last.pt'}: cannot be read as a checkpoint: "
    assert said in messages()
    assert f"set aside as {tmp_path / 'last.pt.damaged'}, and the one before it" in messages()
    assert "resuming after epoch 1 of 3" in messages()
    assert_same(states(tmp_path), undisturbed)


def test_damaged_checkpoint_inside_an_epoch_repeats_the_epoch(
    small_corpus: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    config = config_of(small_corpus, *OPTIONS)
    with (
        at_batch(BATCHES + 3, lambda: os.kill(os.getpid(), signal.SIGTERM)),
        suppress(StoppedError),
    ):
        train(config, tmp_path)
    truncated(tmp_path / "unfinished.pt")
    train(config, tmp_path)
    assert_same(states(tmp_path), undisturbed)


def test_without_any_whole_checkpoint_the_run_is_refused(
    small_corpus: Path, tmp_path: Path
) -> None:
    config = config_of(small_corpus, "train.epochs=1")
    train(config, tmp_path)
    best = (tmp_path / "best.pt").read_bytes()
    for name in ("last.pt", "last.prev.pt"):
        garbage(tmp_path / name)
    with pytest.raises(InputError, match=r"last.pt: damaged, and there is no other .* --new"):
        train(config, tmp_path)
    assert (tmp_path / "best.pt").read_bytes() == best
    train(config, tmp_path, new=True)
    assert not list(tmp_path.glob("*.damaged"))


def test_refusal_of_damaged_checkpoints_is_repeated(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    """The first refusal sets them aside."""
    run = shutil.copytree(small_run, tmp_path / "run")
    for name in ("last.pt", "last.prev.pt"):
        garbage(run / name)
    best = (run / "best.pt").read_bytes()
    for _ in range(3):
        with pytest.raises(InputError, match="--new"):
            train(config_of(small_corpus), run)
    assert (run / "best.pt").read_bytes() == best


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        (OSError(errno.EIO, "Input/output error"), OSError, "Input/output error: '.*last.pt'"),
        (MemoryError(), MemoryError, r"last.pt: \d+ bytes cannot be loaded; close other programs"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"),
            MemoryError,
            r"last.pt: \d+ bytes cannot be loaded; close other programs",
        ),
    ],
)
def test_whole_checkpoint_is_not_set_aside_where_disk_or_memory_fails(
    error: Exception,
    raised: type[Exception],
    said: str,
    small_run: Path,
    small_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    before = (run / "last.pt").read_bytes()

    def failing(*arguments: Any, **options: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "read_saved", failing)
        with pytest.raises(raised, match=said):
            train(config_of(small_corpus, "train.epochs=3"), run)
    assert (run / "last.pt").read_bytes() == before
    assert not list(run.glob("*.damaged"))
    train(config_of(small_corpus, "train.epochs=3"), run)
    assert epochs_of(run) == 3


def test_checkpoint_is_opened_once_and_what_refuses_it_is_not_damage(small_run: Path) -> None:
    """With no more open files allowed, which torch would call a RuntimeError."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, limit[1]))
        assert len(checkpoint.read(small_run / "last.pt")["dev_errors"]) == 2
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, limit[1]))
        with pytest.raises(OSError, match=r"Too many open files: '.*last.pt'"):
            checkpoint.read(small_run / "last.pt")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_no_flipped_bit_of_a_checkpoint_goes_unnoticed(small_run: Path, tmp_path: Path) -> None:
    raw, content = (small_run / "best.pt").read_bytes(), checkpoint.read(small_run / "best.pt")
    rng = np.random.default_rng(1)
    refused = 0
    for place in rng.integers(0, len(raw), 150):
        changed = bytearray(raw)
        changed[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "x.pt").write_bytes(changed)
        try:
            found = checkpoint.read(tmp_path / "x.pt")
        except InputError:
            refused += 1
        else:  # between the records
            assert not [k for k, v in content["model"].items() if not v.equal(found["model"][k])]
    assert refused > 100


def test_entries_of_another_size_than_said_are_damage(small_run: Path, tmp_path: Path) -> None:
    """As torch.load finds, also in entries that hold neither weights nor values."""
    raw = (small_run / "best.pt").read_bytes()
    with zipfile.ZipFile(small_run / "best.pt") as archive:
        (name,) = (entry for entry in archive.namelist() if entry.endswith("/byteorder"))
    index = raw.rindex(name.encode()) - 46  # in the central directory: the entry, its 24th byte
    forged = raw[: index + 24] + struct.pack("<I", 128) + raw[index + 28 :]
    (tmp_path / "best.pt").write_bytes(forged)
    with pytest.raises(RuntimeError, match="archive"):
        torch.load(tmp_path / "best.pt", weights_only=True)
    with pytest.raises(InputError, match=f"checkpoint: {name} has 6 of 128 bytes"):
        checkpoint.read(tmp_path / "best.pt")


@contextmanager
def full_disk(name: str, times: int = 1) -> Iterator[list[str]]:
    """Let the first writes of files of this name fail as on a full disk."""
    write, failed = Path.write_bytes, []

    def failing(path: Path, content: bytes) -> int:
        if path.name == f"{name}.pt" and len(failed) < times:
            failed.append(path.name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "write_bytes", failing)
        yield failed


def test_full_disk_inside_an_epoch_is_said_and_training_goes_on(
    small_corpus: Path, undisturbed: dict[str, Any], tmp_path: Path, messages: Any
) -> None:
    with full_disk("unfinished", 2) as failed:
        train(config_of(small_corpus, *OPTIONS, "train.save_minutes=0"), tmp_path)
    assert len(failed) == 2
    assert messages().count("unfinished.pt: not saved: ") == 2
    assert "No space left on device" in messages()
    assert_same(states(tmp_path), undisturbed)


@pytest.mark.parametrize("name", ["last", "best"])
def test_full_disk_at_the_end_of_an_epoch_keeps_the_epoch_before(
    name: str, small_corpus: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    train(config_of(small_corpus, *OPTIONS[1:], "train.epochs=1"), tmp_path)
    before = (tmp_path / "last.pt").read_bytes()
    config = config_of(small_corpus, *OPTIONS)
    with full_disk(name), pytest.raises(OSError, match="No space left on device"):
        train(config, tmp_path)
    assert (tmp_path / "last.pt").read_bytes() == before
    assert not list(tmp_path.glob(".*"))
    assert "No space left on device" in (read_status(tmp_path).why or "")
    train(config, tmp_path)
    assert_same(states(tmp_path), undisturbed)


def test_full_disk_at_the_start_of_a_new_run_keeps_the_old_one(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")

    def files() -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in run.iterdir() if p.suffix != ".log"}

    before = files()
    config = config_of(small_corpus, "seed=2")
    with full_disk("first"), pytest.raises(OSError, match="No space left on device"):
        train(config, run, new=True)
    assert files() == before
    train(config, run, new=True)
    assert not (run / "first.pt").exists()


def test_file_system_without_links_keeps_two_checkpoints(
    small_corpus: Path,
    undisturbed: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*paths: Any) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refused)
    train(config_of(small_corpus, *OPTIONS), tmp_path)
    assert_same(states(tmp_path), undisturbed)
    assert len(checkpoint.read(tmp_path / "last.prev.pt")["dev_errors"]) == 2
