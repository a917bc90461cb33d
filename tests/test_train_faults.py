"""What happens to a training that is interrupted, damaged, or computes what is not finite."""

import errno
import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import CONF, ROOT
from small_corpus import made_up, settings, write_alignments, write_corpus
from training_runs import assert_same, config_of, epochs_of, states

from bayes_asr import lock, log
from bayes_asr.cli import main
from bayes_asr.config import load
from bayes_asr.data.features import Normalisation
from bayes_asr.errors import InputError, StoppedError
from bayes_asr.status import status
from bayes_asr.tables.ark import write_matrices
from bayes_asr.train import checkpoint, epochs, loop, state
from bayes_asr.train.batch import Batch
from bayes_asr.train.signals import noted
from bayes_asr.train.training import train

OPTIONS = ("train.epochs=3", "train.noise=0.2", "train.tempo=0.1")
BATCHES = 4  # of an epoch of the small corpus


@pytest.fixture(scope="module")
def undisturbed(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run has learnt that nothing happened to."""
    run = tmp_path_factory.mktemp("undisturbed")
    train(config_of(small_corpus, *OPTIONS), run)
    return states(run)


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is logged, as one string when asked."""
    monkeypatch.setattr(log.LOGGER, "propagate", True)
    monkeypatch.setattr(log.LOGGER, "handlers", [])
    caplog.set_level("INFO", "bayes_asr")
    return lambda: caplog.text


@contextmanager
def at_batch(number: int, action: Callable[[], object]) -> Iterator[None]:
    """Do something when a batch is counted, in training or validation, as the `number`th."""
    count, counted = loop._count, 0

    def counting(*arguments: Any) -> None:
        nonlocal counted
        counted += 1
        if counted == number:
            action()
        count(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_count", counting)
        yield


# --- signals


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
    assert status(tmp_path).state == "stopped"
    assert (tmp_path / "unfinished.pt").exists()
    trained = 0

    def counted() -> None:
        nonlocal trained
        trained += 1

    with pytest.MonkeyPatch.context() as patch:
        step = loop.Update.__call__
        patch.setattr(loop.Update, "__call__", lambda self, x: counted() or step(self, x))
        train(config, tmp_path)
    assert trained == 3 * BATCHES - (batch if batch <= BATCHES else batch - 1)
    assert_same(states(tmp_path), undisturbed)
    assert not (tmp_path / "unfinished.pt").exists()


def test_bfloat16_learns_in_single_precision_weights_and_resumes_bit_for_bit(
    small_corpus: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    config = config_of(small_corpus, *OPTIONS, "train.precision=bfloat16")
    train(config, tmp_path / "whole")
    with (
        at_batch(BATCHES + 3, lambda: os.kill(os.getpid(), signal.SIGTERM)),
        pytest.raises(StoppedError),
    ):
        train(config, tmp_path / "stopped")
    train(config, tmp_path / "stopped")
    learnt = states(tmp_path / "whole")
    assert_same(states(tmp_path / "stopped"), learnt)
    assert torch.float32 in {x.dtype for x in learnt.values()}
    assert torch.bfloat16 not in {x.dtype for x in learnt.values()}
    assert learnt["3 train_loss"] < learnt["1 train_loss"]
    for epoch in (1, 2, 3):
        loss, exact = (of[f"{epoch} train_loss"] for of in (learnt, undisturbed))
        assert 0 < abs(loss - exact) < 0.02 * exact


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
    with noted() as notice:
        os.kill(os.getpid(), signal.SIGINT)
        assert notice.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_may_come_twice(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with noted() as notice:
        for _ in range(2):
            os.kill(os.getpid(), number)
        assert notice.number == number
    assert signal.getsignal(number) is before


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
    assert (status(tmp_path).state, (tmp_path / "unfinished.pt").exists()) == ("stopped", True)


def test_signal_that_is_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with noted() as notice:
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


@pytest.mark.parametrize("minutes", ["0", "0.0001"])
def test_saving_often_changes_nothing(
    minutes: str, small_corpus: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    train(config_of(small_corpus, *OPTIONS, f"train.save_minutes={minutes}"), tmp_path)
    assert_same(states(tmp_path), undisturbed)


class Killed(BaseException):
    """What stops a run in these tests."""


def kill() -> None:
    raise Killed


@pytest.mark.parametrize("batch", range(1, 2 * BATCHES + 4))
def test_run_killed_at_any_batch_is_bit_for_bit_the_run_that_was_not(
    batch: int, small_corpus: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """Every second one with a checkpoint after every batch."""
    config = config_of(small_corpus, *OPTIONS, f"train.save_minutes={10 * (batch % 2)}")
    with at_batch(batch, kill), suppress(Killed):
        train(config, tmp_path)
    torch.manual_seed(batch)  # another process has another state
    train(config, tmp_path)
    assert_same(states(tmp_path), undisturbed)


# --- damaged checkpoints


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


def remove_checkpoints(run: Path) -> None:
    for name in ("last.pt", "last.prev.pt"):
        (run / name).unlink()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda lines: lines[:1], ""),  # killed after last.pt was written, which has the line
        (lambda lines: [*lines, lines[-1].replace('"epoch": 2', '"epoch": 3')], ""),  # trained anew
        (lambda lines: lines[1:], "history.jsonl: lacks 1 of 2 epochs"),
        (lambda lines: [], "history.jsonl: lacks 1 of 2 epochs"),
        (lambda lines: ["{"], "history.jsonl: not a JSON object on each line"),
    ],
)
def test_history_ends_where_the_run_goes_on(
    harm: Callable[[list[str]], list[str]],
    said: str,
    small_run: Path,
    small_corpus: Path,
    tmp_path: Path,
    messages: Any,
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    lines = (run / "history.jsonl").read_text().splitlines()
    (run / "history.jsonl").write_text("".join(line + "\n" for line in harm(lines)))
    train(config_of(small_corpus, "train.epochs=3"), run)
    kept = (run / "history.jsonl").read_text().splitlines()
    assert kept[:-1] == (lines[1:] if said else lines)
    assert json.loads(kept[-1])["epoch"] == 3
    assert said in messages() if said else "history.jsonl" not in messages()
    assert (run / "history.jsonl.damaged").exists() == ("not a JSON" in said)
    assert status(run).epoch == 3


def test_run_whose_checkpoints_hold_the_whole_history_goes_on(
    small_corpus: Path, tmp_path: Path
) -> None:
    """As those of earlier versions did."""
    options = (*OPTIONS[1:], "train.halving_factor=0.1")
    train(config_of(small_corpus, *options, "train.epochs=2"), tmp_path / "run")
    history = history_of(tmp_path / "run")
    for name in ("last.pt", "last.prev.pt"):
        content = checkpoint.read(tmp_path / "run" / name)
        count = len(content.pop("dev_errors"))
        del content["entry"]
        checkpoint.save(tmp_path / "run" / name, content | {"history": history[:count]})
    train(config_of(small_corpus, *options, "train.epochs=3"), tmp_path / "run")
    train(config_of(small_corpus, *options, "train.epochs=3"), tmp_path / "whole")
    assert_same(states(tmp_path / "run"), states(tmp_path / "whole"))


def leave_only(name: str) -> Callable[[Path], None]:
    def leave(run: Path) -> None:
        for path in run.iterdir():
            if path.name not in (name, "config.yaml"):
                path.unlink()

    return leave


def set_aside(run: Path) -> None:
    leave_only("last.pt")(run)
    (run / "last.pt").unlink()
    (run / "last.pt.damaged").touch()  # cut to nothing, as by a disk that was full


@pytest.mark.parametrize(
    ("lose", "named"),
    [
        (remove_checkpoints, "best.pt"),
        (leave_only("best.pt"), "best.pt"),  # as fold writes it
        (leave_only("history.jsonl"), "history.jsonl"),
        (set_aside, "last.pt.damaged"),
    ],
)
def test_run_that_lost_its_checkpoints_is_not_started_over_unasked(
    lose: Callable[[Path], None], named: str, small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    lose(run)
    before = (run / named).read_bytes()
    for seed in (1, 2):  # as often as it is asked, whatever the configuration
        config = config_of(small_corpus, "train.epochs=1", f"seed={seed}")
        with pytest.raises(InputError, match=rf"run/{named}: of a run that has no last.pt .*--new"):
            train(config, run)
    assert (run / named).read_bytes() == before
    train(config, run, new=True)
    assert epochs_of(run) == 1


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


def test_other_configuration_is_refused_beside_an_unfinished_checkpoint_alone(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    (run / "last.pt").rename(run / "unfinished.pt")
    (run / "last.prev.pt").unlink()
    with pytest.raises(InputError, match="seed is 1 in this run, but 2 now"):
        train(config_of(small_corpus, "seed=2"), run)
    train(config_of(small_corpus, "train.epochs=3"), run)
    assert epochs_of(run) == 3


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
        patch.setattr(torch, "load", failing)
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


def test_checkpoint_without_its_configuration_is_refused(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    (run / "config.yaml").unlink()
    with pytest.raises(InputError, match=r"config.yaml: missing beside last.pt.* --new"):
        train(config_of(small_corpus), run)


@pytest.mark.parametrize("what", ["torch", "kernels"])
def test_other_versions_are_announced(
    small_run: Path, small_corpus: Path, tmp_path: Path, messages: Any, what: str
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    content = checkpoint.read(run / "last.pt")
    content["versions"][what] = "1.0"
    checkpoint.save(run / "last.pt", content)
    train(config_of(small_corpus, "train.epochs=3"), run)
    assert f"this run was started with {what} 1.0, and goes on with " in messages()


# --- inputs that change under a run


def write_features(path: Path, change: Callable[[np.ndarray], np.ndarray]) -> None:
    name, count = ("dev", 4) if "dev" in path.name else ("train", 12)
    features, _ = made_up(name, count)
    changed = {utt: change(x) for utt, x in features.items()}
    write_matrices(changed.items(), path / "feats.ark", path / "feats.scp")


def swap_speakers(path: Path) -> None:
    path.write_text(path.read_text().replace("train0-0 train0", "train0-0 train1"))


def realign(path: Path) -> None:
    _, alignments = made_up("train", 12)
    write_alignments(path, ((utt, x[::-1].copy()) for utt, x in alignments.items()))


@pytest.mark.parametrize(
    ("place", "change", "named"),
    [
        ("data/train", lambda p: write_features(p, lambda x: x + 1), "data/train/feats.ark"),
        ("data/dev", lambda p: write_features(p, lambda x: x + 1), "data/dev/feats.ark"),
        ("data/train/utt2spk", swap_speakers, "data/train/utt2spk"),
        ("exp/ali", realign, "exp/ali"),
        ("data/train/cmvn.scp", Path.unlink, "data/train/cmvn.scp"),
        ("data/train/frontend.json", lambda p: p.write_text("{}"), "data/train/frontend.json"),
    ],
)
def test_inputs_that_changed_under_a_run_are_refused_by_name(
    place: str, change: Callable[[Path], object], named: str, tmp_path: Path
) -> None:
    root, run = write_corpus(tmp_path / "corpus"), tmp_path / "run"
    train(config_of(root, "train.epochs=1"), run)
    before = (run / "last.pt").read_bytes()
    change(root / place)
    said = r"(has changed|was not read before|is not read any more) since this run was started"
    with pytest.raises(InputError, match=rf"{named}: {said}; restore it, .* --new"):
        train(config_of(root, "train.epochs=2"), run)
    assert (run / "last.pt").read_bytes() == before
    train(config_of(root, "train.epochs=2"), run, new=True)


def statistics_of_other_frames(root: Path) -> None:
    path = root / "data/train/cmvn.ark"
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 1  # within the last number
    path.write_bytes(raw)


def test_speaker_statistics_that_changed_under_a_run_are_refused(tmp_path: Path) -> None:
    root, run = write_corpus(tmp_path / "corpus"), tmp_path / "run"
    train(config_of(root, "features.cmvn=mean", "train.epochs=1"), run)
    statistics_of_other_frames(root)
    with pytest.raises(InputError, match=r"train/cmvn.ark: has changed since this run"):
        train(config_of(root, "features.cmvn=mean", "train.epochs=2"), run)


def test_run_that_did_not_note_the_statistics_goes_on_and_notes_them(tmp_path: Path) -> None:
    root, run = write_corpus(tmp_path / "corpus"), tmp_path / "run"
    train(config_of(root, "features.cmvn=mean", "train.epochs=1"), run)
    content = checkpoint.read(run / "last.pt")
    noted = content["inputs"]
    content["inputs"] = {path: x for path, x in noted.items() if not path.endswith("cmvn.ark")}
    assert len(content["inputs"]) == len(noted) - 2
    checkpoint.save(run / "last.pt", content)
    train(config_of(root, "features.cmvn=mean", "train.epochs=2"), run)
    assert epochs_of(run) == 2
    assert checkpoint.read(run / "last.pt")["inputs"] == noted


def test_inputs_compressed_again_are_the_same_inputs(tmp_path: Path) -> None:
    """How an archive is compressed, and when, is no change of what it says."""
    root, run = write_corpus(tmp_path / "corpus"), tmp_path / "run"
    train(config_of(root, "train.epochs=1"), run)
    archive = root / "exp/ali/ali.1.gz"
    before = archive.read_bytes()
    archive.write_bytes(gzip.compress(gzip.decompress(before), 1, mtime=1))
    assert archive.read_bytes() != before
    train(config_of(root, "train.epochs=2"), run)
    assert epochs_of(run) == 2


# --- numbers that are not finite


@contextmanager
def not_finite(
    utt: str, epochs_of_it: Sequence[int] = (1, 2, 3), *, dev: bool = False, value: float = np.inf
) -> Any:
    """Make the features of an utterance infinite in some epochs, after they were read and found
    to be finite, so that its loss is NaN and the statistics of its batch are poisoned."""
    make = epochs.loader

    def loader(data: Any, normalise: Normalisation, *, epoch: int, **more: Any) -> Any:
        load_batch = make(data, normalise, epoch=epoch, **more)

        def broken(utterances: list[str]) -> Batch:
            batch = load_batch(utterances)
            if utt in utterances and (epoch in epochs_of_it or dev):
                batch.x_NF[0] = value
            return batch

        return broken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(epochs, "loader", loader)
        yield


def history_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]


def test_bad_batch_is_skipped_counted_and_named(
    small_corpus: Path, tmp_path: Path, messages: Any
) -> None:
    with not_finite("train1-4", [2]):
        train(config_of(small_corpus, *OPTIONS), tmp_path)
    first, second, third = history_of(tmp_path)
    assert first["skipped"] == third["skipped"] == []
    (skipped,) = second["skipped"]
    assert "train1-4" in skipped["utterances"]
    assert len(skipped["utterances"]) == 3
    assert skipped["why"] == "the loss is nan"
    said = f"epoch 2, batch {skipped['batch']}: the loss is nan; it is skipped: "
    assert said + ", ".join(skipped["utterances"]) in messages()
    assert third["train_loss"] < first["train_loss"]
    assert {entry["returns"] for entry in history_of(tmp_path)} == {0}


def test_skipped_batch_changes_nothing(small_corpus: Path, tmp_path: Path) -> None:
    """The network, the optimizer and the running statistics are as if it had not been there."""
    config = config_of(small_corpus, "train.epochs=1", "train.batch_sequences=4")
    grouped, batches = epochs.batches_of, []

    def kept(*arguments: Any, **options: Any) -> list[list[str]]:
        batches.append(grouped(*arguments, **options))
        return batches[-1]

    with pytest.MonkeyPatch.context() as patch, not_finite("train1-4", [1]):
        patch.setattr(epochs, "batches_of", kept)
        train(config, tmp_path / "skipped")
    without = [batch for batch in batches[0] if "train1-4" not in batch]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(epochs, "batches_of", lambda *x, **y: without)
        train(config, tmp_path / "without")
    assert_same(states(tmp_path / "skipped"), states(tmp_path / "without"))


def test_batch_that_only_poisons_running_statistics_is_skipped(
    small_corpus: Path, tmp_path: Path
) -> None:
    """A variance that overflows makes what it normalises 0, of which the loss is finite."""
    with not_finite("train1-4", [1], value=1e25):
        train(config_of(small_corpus, *OPTIONS), tmp_path)
    (skipped,) = history_of(tmp_path)[0]["skipped"]
    assert "running_var is not finite" in skipped["why"]
    model = checkpoint.read(tmp_path / "last.pt")["model"]
    assert all(value.isfinite().all() for value in model.values())


@pytest.mark.parametrize("batch", [2, 5, 8, 9])
def test_run_that_skips_and_goes_back_is_resumed_bit_for_bit(
    batch: int, small_corpus: Path, tmp_path: Path
) -> None:
    """The first epoch skips a batch; the second goes back once, and is then well."""
    options = (*OPTIONS, "train.max_bad_batches=1", f"train.save_minutes={10 * (batch % 2)}")
    config = config_of(small_corpus, *options)

    @contextmanager
    def broken() -> Iterator[None]:
        skip = loop.undone_if_not_finite
        with pytest.MonkeyPatch.context() as patch, not_finite("train1-4", [1]):
            at_full_rate = {}
            update = loop.Update.__init__

            def remember(self: loop.Update, model: Any, optimizer: Any, **more: Any) -> None:
                at_full_rate["rate"] = optimizer.param_groups[0]["lr"]
                update(self, model, optimizer, **more)

            @contextmanager
            def undone(model: Any) -> Iterator[None]:
                with skip(model):
                    yield
                    if current["epoch"] == 2 and at_full_rate["rate"] > 0.015:
                        raise loop.NotFiniteError("the loss is inf")

            current = {}
            run_epoch = epochs.run_epoch

            def noted_epoch(*x: Any, title: str, **y: Any) -> Any:
                current["epoch"] = int(title.split()[1])
                return run_epoch(*x, title=title, **y)

            patch.setattr(loop.Update, "__init__", remember)
            patch.setattr(loop, "undone_if_not_finite", undone)
            patch.setattr(epochs, "run_epoch", noted_epoch)
            yield

    with broken():
        train(config, tmp_path / "undisturbed")
        with at_batch(batch, kill), suppress(Killed):
            train(config, tmp_path / "killed")
        train(config, tmp_path / "killed")
    first, second, third = history_of(tmp_path / "killed")
    assert [entry["returns"] for entry in (first, second, third)] == [0, 1, 1]
    assert len(first["skipped"]) == 1
    assert not second["skipped"]
    rates = [entry["learning_rate"] for entry in (first, second)]
    assert rates == [0.02, 0.01]
    assert_same(states(tmp_path / "killed"), states(tmp_path / "undisturbed"))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            ["train.max_bad_batches=0"],
            "the loss is nan in more batches than .*max_bad_batches = 0",
        ),
        (["train.batch_sequences=12"], "the loss is nan in the last of all batches"),
    ],
)
def test_run_goes_back_so_often_and_then_stops_with_a_report(
    options: list[str], why: str, small_corpus: Path, tmp_path: Path, messages: Any
) -> None:
    config = config_of(small_corpus, "train.epochs=3", "train.max_returns=2", *options)
    report = (
        rf"{tmp_path}: epoch 2 diverged: {why}; the run went back 2 times \(train.max_returns\), at"
        r" last to 0.25 of train.learning_rate = 0.02; lower it and start over with --new, or look"
        r" at what was skipped: .*train1-4"
    )
    with not_finite("train1-4", [2]), pytest.raises(InputError, match=report):
        train(config, tmp_path)
    assert messages().count("back to its beginning, and on at") == 2
    found = status(tmp_path)
    assert (found.state, found.epoch) == ("failed", 1)
    assert "epoch 2 diverged" in (found.why or "")
    assert len(checkpoint.read(tmp_path / "last.pt")["dev_errors"]) == epochs_of(tmp_path) == 1
    # Another return may be allowed later; now that the data are well, the run goes on.
    train(config_of(small_corpus, "train.epochs=3", "train.max_returns=3", *options), tmp_path)
    assert [entry["returns"] for entry in history_of(tmp_path)] == [0, 2, 2]


def test_dev_loss_that_is_not_finite_goes_back(small_corpus: Path, tmp_path: Path) -> None:
    config = config_of(small_corpus, "train.epochs=1", "train.max_returns=1")
    with (
        not_finite("dev0-1", dev=True),
        pytest.raises(InputError, match=r"diverged: the dev loss is nan; .* skipped: nothing"),
    ):
        train(config, tmp_path)
    assert not (tmp_path / "best.pt").exists()


@pytest.mark.parametrize(("name", "value"), [("train", np.nan), ("dev", np.inf)])
def test_features_that_are_not_finite_are_named_before_training(
    name: str, value: float, tmp_path: Path
) -> None:
    root = write_corpus(tmp_path / "corpus")
    features, _ = made_up(name, 12 if name == "train" else 4)
    features[f"{name}0-2"][3, 1] = value
    with (root / "data" / name / "feats.ark").open("r+b") as file:
        raw, clean = file.read(), made_up(name, 12 if name == "train" else 4)[0][f"{name}0-2"]
        file.seek(raw.index(clean.tobytes()))
        file.write(features[f"{name}0-2"].tobytes())
    with pytest.raises(InputError, match=rf"feats.ark.*{name}0-2.*(nan|inf|NaN)"):
        train(config_of(root), tmp_path / "run")
    assert not list((tmp_path / "run").glob("*.pt"))
    assert f"{name}0-2" in (status(tmp_path / "run").why or "")


# --- full disks


@contextmanager
def full_disk(name: str, times: int = 1) -> Iterator[list[str]]:
    """Let the first writes of files of this name fail as on a full disk."""
    write, failed = Path.write_bytes, []

    def failing(path: Path, content: bytes) -> int:
        if path.name.startswith(f".{name}.") and len(failed) < times:
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
    assert "No space left on device" in (status(tmp_path).why or "")
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


def test_state_that_cannot_be_written_does_not_end_the_training(
    small_corpus: Path, tmp_path: Path, messages: Any
) -> None:
    (tmp_path / "state.json").mkdir()
    train(config_of(small_corpus, "train.epochs=1"), tmp_path)
    assert epochs_of(tmp_path) == 1
    assert "state.json: cannot be written: " in messages()


# --- status, logs, clocks


def seen(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["status", str(folder), "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_status_shows_every_state(
    small_run: Path, small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("a/finished", "failed", "killed", "old", "running", "stopped")
    runs = {name: shutil.copytree(small_run, tmp_path / name) for name in names}
    state.write(runs["stopped"], "stopped", why="stopped by SIGTERM in epoch 3")
    state.write(runs["failed"], "failed", why="no space")
    position = {"epoch": 3, "batch": 1, "batches": 4, "seconds": 0.5}
    for name in ("killed", "running"):
        state.write(runs[name], "running", **position)
        config_of(small_corpus, "train.epochs=9").save(runs[name] / "config.yaml")
        entries = history_of(runs[name])
        lines = [json.dumps(entry | {"seconds": 2.0}) for entry in entries]
        (runs[name] / "history.jsonl").write_text("\n".join(lines) + "\n")
    (runs["old"] / "state.json").unlink()
    with lock.in_use(runs["running"] / "train.log"):
        found = {Path(run["run"]).name: run for run in seen(tmp_path, capsys)}
    assert {name: run["state"] for name, run in found.items()} == {
        **{name: name for name in found},
        "old": "finished",
    }
    assert len(found) == 6
    assert found["running"]["seconds_left"] == 7 * 2 - 0.5
    assert found["running"]["epoch"], found["running"]["epochs"] == (2, 9)
    assert found["failed"]["why"] == "no space"
    assert {run["seconds_left"] for name, run in found.items() if name != "running"} == {None}
    best = min(entry["dev_error"] for entry in history_of(small_run))
    assert {run["dev_error"] for run in found.values()} == {best}
    assert main(["status", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "a/finished  finished  2/2" in printed
    assert "stopped by SIGTERM in epoch 3" in printed


def test_status_in_the_first_epoch_and_before_it(
    small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.write(tmp_path / "run", "running")
    with lock.in_use(tmp_path / "run" / "train.log"):
        (run,) = seen(tmp_path, capsys)
        assert (run["state"], run["epoch"], run["epochs"]) == ("running", 0, None)
        config_of(small_corpus, "train.epochs=3").save(tmp_path / "run" / "config.yaml")
        state.write(tmp_path / "run", "running", epoch=1, batch=5, batches=20, seconds=10.0)
        (run,) = seen(tmp_path, capsys)
    assert run["seconds_left"] == 3 * 40 - 10


def test_status_of_a_folder_without_runs_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", str(tmp_path)]) == 1
    assert "no run at or below this folder" in capsys.readouterr().err
    assert main(["status", str(tmp_path / "gone")]) == 1
    assert "there is no such folder" in capsys.readouterr().err


def test_status_names_a_damaged_history(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damages = (b'{"epoch": 1', b"\xff\n", b"3\n", b'{"dev_error": "low"}\n', b"[" * 10**5)
    for number, damage in enumerate(damages):
        run = shutil.copytree(small_run, tmp_path / f"run{number}")
        (run / "history.jsonl").write_bytes(damage)
    shutil.copytree(small_run, tmp_path / "whole")
    *damaged, whole = seen(tmp_path, capsys)
    assert len(damaged) == len(damages)
    for found in damaged:
        assert "history.jsonl: not a JSON object on each line" in found["why"]
    assert (whole["state"], whole["epoch"], whole["why"]) == ("finished", 2, None)
    assert main(["status", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    "content", ["[" * 10**5, '{"state": [], "why": 3, "epoch": 1, "batch": "x", "batches": null}']
)
def test_status_of_a_state_that_nobody_wrote(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/state.json").write_text(content)
    with lock.in_use(tmp_path / "run/train.log"):
        (found,) = seen(tmp_path, capsys)
        assert main(["status", str(tmp_path)]) == 0
    assert (found["state"], found["seconds_left"], found["why"]) == ("running", None, None)


def test_looking_at_a_run_does_not_keep_it_from_being_trained(
    small_corpus: Path, tmp_path: Path
) -> None:
    """`status` takes the lock for an instant; a training that begins then waits for it."""
    (tmp_path / "train.log").touch()
    held = f"import fcntl, time; f = open({str(tmp_path / 'train.log')!r}); fcntl.flock(f, 1)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{held}; print(flush=True); time.sleep(0.2)"],
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        train(config_of(small_corpus, "train.epochs=1"), tmp_path)


def test_refusal_leaves_a_finished_run_finished(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    with pytest.raises(InputError, match="seed is 1"):
        train(config_of(small_corpus, "seed=2"), run)
    assert status(run).state == "finished"
    train(config_of(small_corpus), run)
    assert status(run).state == "finished"


def test_error_is_in_the_log_and_a_defect_with_its_traceback(tmp_path: Path) -> None:
    for error in (InputError("x.scp: is empty; fill it"), RuntimeError("a defect")):
        with suppress(type(error)), log.also_in(tmp_path / "train.log"):
            raise error
    lines = (tmp_path / "train.log").read_text().splitlines()
    assert lines[0].endswith("ERROR x.scp: is empty; fill it")
    assert lines[1].endswith("ERROR a defect")
    assert lines[2].startswith("Traceback")


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


def test_log_on_a_full_disk_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log.LOGGER, "handlers", [])
    (tmp_path / "train.log").symlink_to("/dev/full")
    with log.also_in(tmp_path / "train.log"):
        for number in range(3):
            log.LOGGER.warning("message %d", number)
    said = [line for line in capsys.readouterr().err.splitlines() if "cannot be written" in line]
    assert len(said) == 1
    assert "No space left on device" in said[0]


def test_clock_that_is_set_changes_nothing(
    small_corpus: Path,
    undisturbed: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Backwards by a day at each question."""
    now = time.time()
    days = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: now - 86400 * next(days))
    train(config_of(small_corpus, *OPTIONS, "train.save_minutes=0.0001"), tmp_path)
    assert_same(states(tmp_path), undisturbed)
    assert all(0 < entry["seconds"] < 600 for entry in history_of(tmp_path))
    found = status(tmp_path)
    assert found.state == "finished"


# --- TensorBoard


def test_tensorboard_that_is_not_installed_is_said_before_anything_is_read(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setattr("bayes_asr.train.board.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"TensorBoard is not installed; pip install tensorboard"):
        train(config_of(small_corpus, "train.tensorboard=true"), tmp_path)
    assert not list(tmp_path.glob("*.pt"))


def test_tensorboard_has_each_epoch_once(small_corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for number in ("1", "3"):
        options = ("train.tensorboard=true", f"train.epochs={number}")
        train(config_of(small_corpus, *options), tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("dev_error")]
    expected = [(entry["epoch"], entry["dev_error"]) for entry in history_of(tmp_path)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_every_new_key_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for key in ("save_minutes", "max_bad_batches", "max_returns", "tensorboard"):
        assert main(["config", "--explain", f"train.{key}"]) == 0
        assert "default" in capsys.readouterr().out
    with pytest.raises(InputError):
        load([], ["train.save_minutes=-1"])
