"""Signals to a training: everything is saved, and the same command goes on."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bayes_asr.base.errors import StoppedError
from bayes_asr.base.processes import group
from bayes_asr.base.processes.signals import SIGNALS, note_signals
from bayes_asr.cli import main
from bayes_asr.train.runs.status import read_status
from bayes_asr.train.start import train
from bayes_asr.train.step import Step
from tests.support.places import CONF, ROOT
from tests.support.small_corpus import settings
from tests.support.training_runs import (
    BATCHES,
    OPTIONS,
    assert_same,
    at_batch,
    config_of,
    epochs_of,
    states,
)


@pytest.mark.parametrize(
    ("name", "batch"),
    [("SIGINT", 3), *(("SIGTERM", n) for n in (1, 3, BATCHES, BATCHES + 1, BATCHES + 2))],
)
def test_signal_saves_and_the_same_command_goes_on(
    name: str, batch: int, small_corpus: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """Batch 5 is the validation of the first epoch; it is trained only once."""
    number = signal.Signals[name]
    config = config_of(small_corpus, *OPTIONS)
    with (
        at_batch(batch, lambda: os.kill(os.getpid(), number)),
        pytest.raises(StoppedError, match=rf"stopped by {name} in epoch \d; everything is saved"),
    ):
        train(config, tmp_path)
    assert read_status(tmp_path).state == "stopped"
    assert (tmp_path / "unfinished.pt").exists()
    trained = 0

    def counted() -> None:
        nonlocal trained
        trained += 1

    with pytest.MonkeyPatch.context() as patch:
        step = Step.__call__
        patch.setattr(Step, "__call__", lambda self, x: counted() or step(self, x))
        train(config, tmp_path)
    assert trained == 3 * BATCHES - (batch if batch <= BATCHES else batch - 1)
    assert_same(states(tmp_path), undisturbed)
    assert not (tmp_path / "unfinished.pt").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "expected"), [("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 129)])
def test_exit_status_tells_the_signal(
    name: str,
    expected: int,
    small_corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["train", str(CONF / "base.yaml"), *settings(small_corpus), f"--out={tmp_path}"]
    with at_batch(2, lambda: os.kill(os.getpid(), signal.Signals[name])):
        assert main(words) == expected
    said = f"stopped by {name} in epoch 1; everything is saved, and the same command goes on"
    assert f"bayes-asr train: {said}" in capsys.readouterr().err
    assert said in (tmp_path / "train.log").read_text()
    assert main(words) == 0
    assert "resuming after epoch 0 of 2 and 2 batches" in capsys.readouterr().err


def test_second_signal_ends_at_once_and_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with note_signals() as notice:
        os.kill(os.getpid(), signal.SIGINT)
        assert notice.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_may_come_twice(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with note_signals() as notice:
        for _ in range(2):
            os.kill(os.getpid(), number)
        assert notice.number == number
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("processes", "dies"), [(1, True), (2, False)])
def test_one_of_several_processes_that_fails_is_not_ended_before_it_says_why(
    monkeypatch: pytest.MonkeyPatch, processes: int, dies: bool
) -> None:
    monkeypatch.setattr(group, "size", lambda: processes)
    usual = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        with pytest.raises(OSError, match="disk"), note_signals():
            raise OSError("disk")
        ends = signal.getsignal(signal.SIGTERM) is usual[signal.SIGTERM]
        assert ends == dies
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


@pytest.mark.slow
def test_terminal_that_is_closed_stops_a_training_that_is_saved(
    small_corpus: Path, tmp_path: Path
) -> None:
    """As a connection that is lost: SIGHUP, and a screen that nothing can be written to."""
    own_terminal = "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
    script = f"{own_terminal}; from bayes_asr.cli import main; sys.exit(main())"
    words = ["train", CONF / "base.yaml", *settings(small_corpus, "train.epochs=9999")]
    ours, its = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", script, *words, f"--out={tmp_path}"],
        cwd=ROOT,
        start_new_session=True,
        **dict.fromkeys(("stdin", "stdout", "stderr"), its),
    ) as process:
        os.close(its)
        while epochs_of(tmp_path) < 2:
            os.read(ours, 2**16)
        os.close(ours)
    assert process.returncode == 128 + signal.SIGHUP
    assert "stopped by SIGHUP" in (tmp_path / "train.log").read_text().splitlines()[-1]
    assert (read_status(tmp_path).state, (tmp_path / "unfinished.pt").exists()) == ("stopped", True)


def test_signal_that_is_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with note_signals() as notice:
            os.kill(os.getpid(), signal.SIGINT)
        assert notice.number == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_training_in_another_thread_leaves_signals_alone(
    small_corpus: Path, tmp_path: Path
) -> None:
    config = config_of(small_corpus, "train.epochs=1")
    thread = threading.Thread(target=train, args=(config, tmp_path))
    thread.start()
    thread.join()
    assert epochs_of(tmp_path) == 1


def test_status_of_exit_counts_though_nobody_reads_what_is_said(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a signal also ends the `tee` that a training is piped into."""
    words = ["train", str(CONF / "base.yaml"), *settings(small_corpus), f"--out={tmp_path}"]
    read, write = os.pipe()
    os.close(read)

    def stop() -> None:
        monkeypatch.setattr(sys, "stderr", os.fdopen(write, "w", buffering=1))
        os.kill(os.getpid(), signal.SIGTERM)

    with at_batch(2, stop):
        assert main(words) == 143
    with suppress(OSError):
        sys.stderr.close()
