"""What a run says of itself: its state, its log, its curves."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_asr.base import lock, log
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.kaldi_io import side_files
from bayes_asr.train.runs import state
from bayes_asr.train.runs.status import list_runs, read_status
from bayes_asr.train.runs.trained_network import read_network
from bayes_asr.train.start import train
from tests.support.training_runs import (
    OPTIONS,
    assert_same,
    config_of,
    epochs_of,
    history_of,
    states,
)


def test_state_that_cannot_be_written_does_not_end_the_training(
    small_corpus: Path, tmp_path: Path, messages: Any
) -> None:
    (tmp_path / "state.json").mkdir()
    train(config_of(small_corpus, "train.epochs=1"), tmp_path)
    assert epochs_of(tmp_path) == 1
    assert "state.json: cannot be written: " in messages()


def seen(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["status", str(folder), "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_page_shows_curves_and_loads_itself_anew_while_a_run_is_running(
    small_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, page = shutil.copytree(small_run, tmp_path / "<b>"), tmp_path / "page.html"
    running = replace(read_status(run), state="running", epochs=9)
    states_seen = iter([[running], [running], list_runs(run)])
    pages: list[str] = []
    monkeypatch.setattr("bayes_asr.cli.status.list_runs", lambda _: next(states_seen))
    monkeypatch.setattr("time.sleep", lambda _: pages.append(page.read_text()))
    assert main(["status", str(run), "--page", str(page), "--every", "3"]) == 0
    pages.append(page.read_text())
    reload = '<meta http-equiv="refresh" content="3">'
    assert [reload in text for text in pages] == [True, True, False]
    assert f"<h2>{tmp_path}/&lt;b&gt;</h2><p>running, epoch 2 of 9, best frame error" in pages[0]
    assert "<p>finished, epoch 2 of 2, " in pages[-1]
    entries = history_of(run)
    expected = []
    for names in (("train_error", "dev_error"), ("train_loss", "dev_loss")):
        for name in names:
            assert f">{name.replace('_', ' ')} {entries[-1][name]:.4f}</span>" in pages[0]
        top = max(entry[name] for entry in entries for name in names)
        expected += [entries[0][name] / top for name in names]
    # Of nine epochs the second is an eighth of the width from the first.
    places = re.findall(r'points="0\.0,([0-9.]+) 80\.0,[0-9.]+"', pages[0])
    shares = [1 - float(place) / 200 for place in places]
    np.testing.assert_allclose(shares, expected, atol=1e-3)
    (run / "history.jsonl").write_text("{")
    monkeypatch.undo()
    assert main(["status", str(run), "--page", str(page)]) == 0
    assert "history.jsonl" in page.read_text()


def test_page_shows_losses_where_no_errors_are_counted(small_run: Path, tmp_path: Path) -> None:
    """Also losses below 0, as of densities: 0 is on every chart."""
    run, page = shutil.copytree(small_run, tmp_path / "run"), tmp_path / "page.html"
    changes = [{"train_loss": 1.0, "dev_loss": 3.0}, {"train_loss": -1.0, "dev_loss": 0.0}]
    lines = [
        json.dumps(entry | change | {"train_error": None, "dev_error": None})
        for entry, change in zip(history_of(run), changes, strict=True)
    ]
    (run / "history.jsonl").write_text("\n".join(lines) + "\n")
    assert main(["status", str(run), "--page", str(page)]) == 0
    # From -1 at the bottom, 200, to 3 at the top, 0, a unit is 50 high.
    assert re.findall(r'points="([^"]*)"', page.read_text()) == [
        "0.0,100.0 640.0,200.0",
        "0.0,0.0 640.0,150.0",
    ]
    assert "the top is 3.0000, the bottom -1.0000" in page.read_text()


@pytest.mark.slow
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
    with lock.alone_in(runs["running"]):
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


@pytest.mark.parametrize(
    ("changes", "said", "key"),
    [
        ((), "frame error", "dev_error"),
        (("train.criterion=smbr", "data.train.lattices=[x]"), "loss", "dev_loss"),
        (("data.classes=utt2lang",), "error of utterances", "dev_error"),
        (("data.sequences=text",), "error of labels", "dev_error"),
    ],
)
def test_status_names_what_a_run_is_judged_by(
    changes: tuple[str, ...],
    said: str,
    key: str,
    small_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    load([run / "config.yaml"], changes).save(run / "config.yaml")
    best = min(entry[key] for entry in history_of(run))
    (found,) = seen(tmp_path, capsys)
    assert (found["judged_by"], found["best"]) == (said, best)
    assert main(["status", str(tmp_path)]) == 0
    assert f"{said} {best:.4f}" in capsys.readouterr().out


def test_status_in_the_first_epoch_and_before_it(
    small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.write(tmp_path / "run", "running")
    with lock.alone_in(tmp_path / "run"):
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


def test_history_that_goes_this_instant_is_none(
    small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanish(path: Path) -> bytes:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    monkeypatch.setattr(side_files, "read_bytes", vanish)
    assert side_files.read_history(small_run, ["epoch"]) == []


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
        assert re.search("line 1: .*; restore the file, or remove the line", found["why"])
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
    with lock.alone_in(tmp_path / "run"):
        (found,) = seen(tmp_path, capsys)
        assert main(["status", str(tmp_path)]) == 0
    assert (found["state"], found["seconds_left"], found["why"]) == ("running", None, None)


def test_looking_at_a_run_does_not_keep_it_from_being_trained(
    small_corpus: Path, tmp_path: Path
) -> None:
    """`read_status` takes the lock for an instant; a training that begins then waits for it."""
    (tmp_path / lock.MARK).touch()
    held = f"import fcntl, time; f = open({str(tmp_path / lock.MARK)!r}); fcntl.flock(f, 1)"
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
    assert read_status(run).state == "finished"
    train(config_of(small_corpus), run)
    assert read_status(run).state == "finished"


def test_refusal_leaves_a_run_what_it_was(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    """A stopped one keeps its reason; whoever looks would think that it cannot go on."""
    run = shutil.copytree(small_run, tmp_path / "run")
    for content in ({"state": "stopped", "why": "stopped by SIGTERM"}, {"state": "running"}):
        (run / "state.json").write_text(json.dumps(content))
        before = read_status(run)
        with pytest.raises(InputError, match="seed is 1"):
            train(config_of(small_corpus, "seed=2"), run)
        assert read_status(run) == before


def test_refusal_leaves_a_network_that_was_not_trained_here(
    small_run: Path,
    small_corpus: Path,
    tmp_path: Path,
    messages: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As one of import-weights or adapt, which has neither a state nor epochs."""
    run = tmp_path / "run"
    run.mkdir()
    for name in ("best.pt", "config.yaml"):
        shutil.copy(small_run / name, run)
    assert read_status(run).state == "finished"
    with pytest.raises(InputError, match=r"best.pt: .* no last.pt .* train.init_from"):
        train(config_of(small_corpus), run)
    assert [status.state for status in list_runs(tmp_path)] == ["finished"]
    assert main(["status", str(tmp_path), "--page", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["run", "finished"]
    assert "epoch" not in (tmp_path / "page.html").read_text().rpartition("</style>")[2]
    read_network(run)
    assert "has not ended" not in messages()


def test_a_finished_run_that_fails_before_its_next_batch_has_failed(
    small_run: Path, small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seen_states = shutil.copytree(small_run, tmp_path / "run"), []

    def fail(*_: Any) -> None:
        seen_states.append(read_status(run).state)
        raise RuntimeError("no more")

    monkeypatch.setattr("bayes_asr.train.start.run_epochs", fail)
    with pytest.raises(RuntimeError, match="no more"):
        train(config_of(small_corpus, "train.epochs=3"), run)
    assert seen_states == ["running"]
    found = read_status(run)
    assert (found.state, found.why) == ("failed", "no more")


def test_error_is_in_the_log_and_a_defect_with_its_traceback(tmp_path: Path) -> None:
    for error in (InputError("x.scp: is empty; fill it"), RuntimeError("a defect")):
        with suppress(type(error)), log.also_in(tmp_path / "train.log"):
            raise error
    lines = (tmp_path / "train.log").read_text().splitlines()
    assert lines[0].endswith("ERROR x.scp: is empty; fill it")
    assert lines[1].endswith("ERROR a defect")
    assert lines[2].startswith("Traceback")


def test_log_on_a_full_disk_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(log, "open_to_append", lambda path: os.fdopen(full, "w"))
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
    found = read_status(tmp_path)
    assert found.state == "finished"


def test_tensorboard_that_is_not_installed_is_said_before_anything_is_read(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setattr("bayes_asr.train.runs.history.find_spec", lambda name: None)
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


@pytest.mark.parametrize("ended", ["finished", "stopped", "failed", "running"])
def test_a_network_of_a_training_that_has_not_ended_is_named(
    small_run: Path, tmp_path: Path, messages: Any, ended: str
) -> None:
    for name in ("best.pt", "config.yaml"):
        shutil.copy(small_run / name, tmp_path)
    read_network(tmp_path)  # of which nothing says more, as of an adapted one
    state.write(tmp_path, ended)
    read_network(tmp_path)
    said = f"{tmp_path}: its training has not ended ({ended})" in messages()
    assert said == (ended != "finished")
