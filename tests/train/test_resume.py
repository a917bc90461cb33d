"""What a run goes on from, and what it refuses to go on with."""

import gzip
import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bayes_asr import load
from bayes_asr.base.errors import InputError, StoppedError
from bayes_asr.data.features.front_end import cmvn_statistics
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.status import read_status
from bayes_asr.train.start import train
from tests.support.small_corpus import DIMENSIONS, made_up, write_alignments, write_corpus
from tests.support.training_runs import (
    BATCHES,
    OPTIONS,
    Killed,
    assert_same,
    at_batch,
    config_of,
    epochs_of,
    history_of,
    kill,
    states,
)


@pytest.mark.slow
def test_bfloat16_learns_in_single_precision_weights_and_resumes_bit_for_bit(
    small_corpus: Path,
    undisturbed: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where it has to be emulated."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
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


@pytest.mark.parametrize("minutes", ["0", "0.0001"])
def test_saving_often_changes_nothing(
    minutes: str, small_corpus: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    train(config_of(small_corpus, *OPTIONS, f"train.save_minutes={minutes}"), tmp_path)
    assert_same(states(tmp_path), undisturbed)


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
    assert read_status(run).epoch == 3


@pytest.mark.slow
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


def write_as_version_0_1(run: Path) -> None:
    """Checkpoints with one unit and one stream, and with the front end in the configuration."""
    for path in run.glob("*.pt"):
        content = torch.load(path, weights_only=True)
        described, front_end = content["architecture"], content.pop("front_ends")["features"]
        first, *_ = described["layers"]
        shared = {k: v for k, v in first.items() if k not in ("name", "kind", "reads", "units")}
        content["architecture"] = {
            **shared,
            "inputs": described["streams"]["features"],
            "outputs": list(described["heads"].values()),
            "units": [layer["units"] for layer in described["layers"]],
        }
        content |= {"mean": front_end["mean"], "deviation": front_end["deviation"]}
        torch.save(content | {"frontend": front_end["sound"], "format": 1}, path)


@pytest.mark.slow
def test_run_of_version_0_1_goes_on_and_is_read(small_corpus: Path, tmp_path: Path) -> None:
    cmvn = ("features.cmvn=mean", "features.deltas=1", "features.left_context=1")
    options = (*OPTIONS[1:], *cmvn, "model.layers=2", "model.input_dropout=0.2")
    run, whole = tmp_path / "run", tmp_path / "whole"
    train(config_of(small_corpus, *options, "train.epochs=2"), run)
    features = np.ones((9, DIMENSIONS), np.float32)
    stats = cmvn_statistics([features + np.arange(9)[:, None]])
    expected = load(run)(features, stats)
    write_as_version_0_1(run)
    assert torch.equal(load(run)(features, stats), expected)
    train(config_of(small_corpus, *options, "train.epochs=3"), run)
    train(config_of(small_corpus, *options, "train.epochs=3"), whole)
    assert_same(states(run), states(whole))
    assert checkpoint.read(run / "last.pt")["format"] == checkpoint.FORMAT


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


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


@pytest.mark.parametrize(
    ("lose", "why"),
    [(Path.unlink, "missing"), (cut_short, "cannot be read as a checkpoint: .*")],
)
@pytest.mark.parametrize("epochs", [2, 3])  # complete, or with an epoch to come
def test_a_run_that_lost_its_best_network_does_not_go_on(
    epochs: int,
    lose: Callable[[Path], None],
    why: str,
    small_run: Path,
    small_corpus: Path,
    tmp_path: Path,
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    config = config_of(small_corpus, f"train.epochs={epochs}")
    lose(run / "best.pt")
    with pytest.raises(InputError, match=rf"run/best\.pt: {why}; restore it, copy last\.pt there"):
        train(config, run)
    shutil.copy(run / "last.pt", run / "best.pt")  # as it says
    train(config, run)
    assert epochs_of(run) == epochs
    load(run)


def check_that_it_goes_on(run: Path, corpus: Path) -> None:
    """A run refuses another seed, and trains a third epoch."""
    with pytest.raises(InputError, match="seed is 1 in this run, but 2 now"):
        train(config_of(corpus, "seed=2"), run)
    train(config_of(corpus, "train.epochs=3"), run)
    assert epochs_of(run) == 3


def test_other_configuration_is_refused_beside_an_unfinished_checkpoint_alone(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    (run / "last.pt").rename(run / "unfinished.pt")
    (run / "last.prev.pt").unlink()
    check_that_it_goes_on(run, small_corpus)


def test_fewer_epochs_than_are_done_are_refused(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    done = epochs_of(run)
    with pytest.raises(InputError, match=rf"train.epochs is {done} in this run, but {done - 1}"):
        train(config_of(small_corpus, f"train.epochs={done - 1}"), run)
    assert read_configuration(run).train.epochs == done


def test_an_edited_configuration_is_not_what_a_run_was_trained_with(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    """Its checkpoint says that."""
    run = shutil.copytree(small_run, tmp_path / "run")
    config_of(small_corpus, "train.noise=1").save(run / "config.yaml")
    with pytest.raises(InputError, match=r"train.noise is 0.0 in this run, but 1.0 now; .* --new"):
        train(read_configuration(run), run)
    train(config_of(small_corpus, "decode.beam=7"), run)
    recorded = read_configuration(run)
    assert (recorded.train.noise, recorded.decode.beam) == (0, 7)


def test_a_run_follows_its_data(
    small_corpus: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """To a copy, to where they have moved to, and not to others."""
    first, second, run = (tmp_path / name for name in ("a and b", "c", "run"))

    def go_on(folder: Path, epochs: int) -> None:
        moved = f"data.moved={small_corpus}={folder}"  # its tables name the corpus
        train(config_of(folder, moved, *OPTIONS, f"train.epochs={epochs}"), run)

    shutil.copytree(small_corpus, first)
    go_on(first, 1)
    shutil.copytree(first, second)
    go_on(second, 2)
    shutil.rmtree(first)
    second.rename(first)
    labels = first / "exp/ali_dev/ali.1.gz"
    original = labels.read_bytes()
    shutil.copy(first / "exp/ali/ali.1.gz", labels)
    with pytest.raises(InputError, match="ali_dev"):
        go_on(first, 3)
    labels.write_bytes(original)
    go_on(first, 3)
    assert read_configuration(run).data.dir == str(first)
    assert_same(states(run), undisturbed)


def test_a_run_of_an_earlier_version_with_other_keys_goes_on_by_its_configuration(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    content = checkpoint.read(run / "last.pt")
    checkpoint.save(run / "last.pt", content | {"config": "train: {no_such_key: 1}\n"})
    check_that_it_goes_on(run, small_corpus)


def test_a_configuration_that_is_missing_is_that_of_the_checkpoint(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    written = (run / "config.yaml").read_text()
    (run / "config.yaml").unlink()
    with pytest.raises(InputError, match="seed is 1 in this run, but 2 now"):
        train(config_of(small_corpus, "seed=2"), run)
    train(config_of(small_corpus), run)
    assert (run / "config.yaml").read_text() == written


@pytest.mark.parametrize("what", ["torch", "kernels"])
def test_other_versions_are_announced(
    small_run: Path, small_corpus: Path, tmp_path: Path, messages: Any, what: str
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    content = checkpoint.read(run / "last.pt")
    here = content["versions"][what]
    content["versions"][what] = "1.0"
    checkpoint.save(run / "last.pt", content)
    train(config_of(small_corpus, "train.epochs=3"), run)
    assert f"this run was started with {what} 1.0, and goes on with {here}:" in messages()


@pytest.mark.slow
def test_versions_of_the_start_stay_beside_those_of_other_sessions(
    small_run: Path, small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions that differ are listed once, with what they have in place of the start's."""
    run = shutil.copytree(small_run, tmp_path / "run")
    started = json.loads((run / "env.json").read_text())
    assert "resumed_with" not in started
    for epochs, machine in ((3, "m68k"), (4, "m68k"), (5, "vax"), (6, started["machine"])):
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        train(config_of(small_corpus, f"train.epochs={epochs}"), run)
    found = json.loads((run / "env.json").read_text())
    assert found.pop("resumed_with") == [{"machine": "m68k"}, {"machine": "vax"}]
    assert found == started


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
