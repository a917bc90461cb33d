"""Training runs: what they write, resume and refuse."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import HOST, REPLACED_BY
from bayes_asr.config.merge import load
from bayes_asr.data.corpus.batches import in_order
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.sets import training_and_dev
from bayes_asr.data.features.fmllr_record import FmllrRecord, write_record
from bayes_asr.data.features.front_end import FEATURES, FrontEnd, Normalisation
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.nn.criteria import CrossEntropy
from bayes_asr.train import components
from bayes_asr.train.components import choose_device, choose_precision
from bayes_asr.train.loader import Loader
from bayes_asr.train.loop import PassBatches, run_batches
from bayes_asr.train.runs import checkpoint, directory, state
from bayes_asr.train.start import train
from bayes_asr.train.trainer import Trainer
from tests.support.nn_units import acoustic_model
from tests.support.places import ROOT
from tests.support.small_corpus import (
    DIMENSIONS,
    MODEL,
    made_up,
    write_corpus,
    write_data_dir,
)
from tests.support.training_runs import Killed, assert_same, config_of, epochs_of, states

# --- what a run writes


def test_run_holds_tensors_and_plain_values(small_run: Path) -> None:
    history = [json.loads(line) for line in (small_run / "history.jsonl").read_text().splitlines()]
    assert [entry["epoch"] for entry in history] == [1, 2]
    assert history[1]["train_loss"] < history[0]["train_loss"]
    best = torch.load(small_run / "best.pt", weights_only=True)
    assert best["architecture"]["heads"] == {"pdfs": MODEL.num_pdfs, "monophones": 3}
    assert set(json.loads((small_run / "env.json").read_text())) >= {
        "torch",
        "bayes_asr",
        "threads",
        "kernels",
    }
    assert "epoch 2 of 2" in (small_run / "train.log").read_text()


def test_run_says_of_what_data_it_is(small_run: Path) -> None:
    """Seeds are averaged, which reads no checkpoints: env.json has the hashes too."""
    last = torch.load(small_run / "last.pt", weights_only=True)
    assert json.loads((small_run / "env.json").read_text())["inputs"] == last["inputs"] != {}


def test_normalisation_of_the_training_data_travels_in_the_checkpoint(
    small_run: Path, small_corpus: Path
) -> None:
    features, _ = made_up("train", 12)
    frames = np.concatenate(list(features.values()))
    front_end = checkpoint.read(small_run / "best.pt")["front_ends"][FEATURES]
    np.testing.assert_allclose(front_end["mean"], frames.mean(0), rtol=1e-4)
    np.testing.assert_allclose(front_end["deviation"], frames.std(0), rtol=1e-4)


@pytest.mark.parametrize(
    ("text", "found"),
    [(None, None), ('{"kind": "fbank", "bins": 40}', {"kind": "fbank", "bins": 40})],
)
def test_front_end_of_the_training_data_travels_in_the_checkpoint(
    text: str | None, found: Any, tmp_path: Path
) -> None:
    root, run = write_corpus(tmp_path), tmp_path / "run"
    if text:
        (root / "data" / "train" / "frontend.json").write_text(text)
    train(config_of(root, "train.epochs=1"), run)
    assert checkpoint.read(run / "best.pt")["front_ends"][FEATURES]["sound"] == found
    assert json.loads((run / "env.json").read_text())["frontend"] == found


def test_environment_says_that_our_mixtures_adapted_the_features(tmp_path: Path) -> None:
    root, run = write_corpus(tmp_path), tmp_path / "run"
    write_record(FmllrRecord(root / "exp/tri3", {"kind": "mfcc"}), root / "data/train")
    train(config_of(root, "train.epochs=1"), run)
    made = {"kind": "mfcc", "adapted": "fmllr"}
    assert json.loads((run / "env.json").read_text())["frontend"] == made


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_damaged_front_end_is_named(text: str, tmp_path: Path) -> None:
    root = write_corpus(tmp_path)
    (root / "data" / "train" / "frontend.json").write_text(text)
    with pytest.raises(InputError, match=r"train/frontend.json: not a JSON object; compute"):
        train(config_of(root, "train.epochs=1"), tmp_path / "run")


# --- resuming


@pytest.mark.parametrize("write", range(1, 10))
def test_run_killed_at_any_write_and_resumed_is_bit_for_bit_the_run_that_was_not(
    write: int,
    small_corpus: Path,
    undisturbed: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Promise 7 between the files of an epoch (best.pt, last.pt, history.jsonl)."""
    config = config_of(small_corpus, "train.epochs=3", "train.noise=0.2", "train.tempo=0.1")
    writes = 0

    def killed(content: Any) -> Any:
        nonlocal writes
        writes += 1
        if writes == write:
            raise Killed
        return content

    with monkeypatch.context() as patch:
        save, append = checkpoint.save, directory.append_to_history
        patch.setattr(checkpoint, "save", lambda path, *x, **y: save(killed(path), *x, **y))
        patch.setattr(directory, "append_to_history", lambda run, entry: append(killed(run), entry))
        with suppress(Killed):
            train(config, tmp_path)
    torch.manual_seed(write)  # another process has another state
    train(config, tmp_path)
    assert_same(states(tmp_path), undisturbed)


@pytest.mark.slow
def test_run_killed_at_any_time_and_resumed_is_bit_for_bit_the_run_that_was_not(
    small_corpus: Path, tmp_path: Path
) -> None:
    """Promise 7 with real processes, killed while they train."""
    options = ("train.epochs=30", "train.noise=0.2", "train.halving_factor=1")
    run, config = tmp_path / "run", config_of(small_corpus, *options)
    config.save(tmp_path / "config.yaml")
    command = [sys.executable, "-m", "bayes_asr", "train", tmp_path / "config.yaml", "--out", run]
    threads = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    for least in (2, 10):
        with subprocess.Popen(command, cwd=ROOT, env=threads, stderr=subprocess.DEVNULL) as process:
            while epochs_of(run) < least:
                assert process.poll() is None, "it ended before it could be killed"
                time.sleep(0.02)
            process.kill()
    assert epochs_of(run) < 30
    left = run / f".{HOST}.99999999.0123456789abcdef.partial" / "last.pt"
    left.parent.mkdir()
    left.write_bytes(b"half a checkpoint")
    assert subprocess.run(command, cwd=ROOT, env=threads, stderr=subprocess.DEVNULL).returncode == 0
    assert not list(run.glob(".*"))
    train(config, tmp_path / "undisturbed")
    assert_same(states(run), states(tmp_path / "undisturbed"))


def test_run_that_another_process_trains_is_refused(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    before = states(run)
    held = f"import fcntl; f = open({str(run / '.in_use')!r}, 'a'); fcntl.flock(f, fcntl.LOCK_EX)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{held}; print(); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()  # it has the lock
        with pytest.raises(InputError, match=rf"{run}: another process is at work"):
            train(config_of(small_corpus, "train.epochs=3"), run, new=True)
        assert_same(states(run), before)
        other.kill()
    train(config_of(small_corpus), run)  # a killed process leaves no lock


@pytest.mark.parametrize("what", ["the log", "the lock", "the folder"])
def test_two_trainings_never_write_into_one_folder(
    what: str, small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is removed under one that runs: the second is refused, or the first one stops."""
    run, config = tmp_path / "run", config_of(small_corpus, "train.epochs=2")
    complete, theirs = Trainer.complete_epoch, list[str]()

    def disturbed(self: Trainer, *given: Any) -> None:
        if self.epoch == 2:
            {
                "the log": lambda: (run / "train.log").unlink(missing_ok=True),
                "the lock": (run / ".in_use").unlink,
                "the folder": lambda: shutil.rmtree(run),
            }[what]()
            if what == "the log":
                with pytest.raises(InputError, match="another process is at work"):
                    train(config, run)
            else:
                monkeypatch.undo()
                train(config, run, new=True)
            theirs.append(str(states(run)))
        complete(self, *given)

    monkeypatch.setattr(Trainer, "complete_epoch", disturbed)
    if what == "the log":
        train(config, run)
    else:
        with pytest.raises(InputError, match=r"\.in_use: was removed, or its folder was"):
            train(config, run)
        assert theirs == [str(states(run))]
    assert state.read(run)["state"] == "finished"


def test_finished_run_is_left_as_it_is_and_reads_one_utterance(
    small_run: Path, small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    (run / "env.json").write_text("what it was trained with")
    names = ("best.pt", "last.pt", "history.jsonl", "env.json")
    before = {name: (run / name).read_bytes() for name in names}
    read, prepare = [], LabelledSet.prepare
    monkeypatch.setattr(
        LabelledSet, "prepare", lambda self, utt: read.append(utt) or prepare(self, utt)
    )
    train(load([run / "config.yaml"]), run)
    assert read == ["train0-0"]
    assert before == {name: (run / name).read_bytes() for name in before}


def test_epochs_added_to_a_newbob_run_continue_it(
    small_corpus: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    options = ("train.noise=0.2", "train.tempo=0.1")
    train(config_of(small_corpus, "train.epochs=1", *options), tmp_path)
    train(config_of(small_corpus, "train.epochs=3", *options), tmp_path)
    assert_same(states(tmp_path), undisturbed)


@pytest.mark.parametrize(
    ("setting", "refused"),
    [
        ("train.noise=1", True),
        ("train.precision=bfloat16", True),
        ("seed=2", True),
        ("model.units=9", True),
        ("decode.beam=7", False),
        ("score.metric=per", False),
        ("data.graph=elsewhere", False),
    ],
)
def test_only_what_has_no_effect_on_training_may_change(
    setting: str, refused: bool, small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    config = config_of(small_corpus, setting)
    if refused:
        key = setting.split("=")[0]
        with pytest.raises(InputError, match=rf"config.yaml: {key} is .* in this run, but .* now"):
            train(config, run)
        config = load([small_run / "config.yaml"])
    else:
        train(config, run)
    assert load([run / "config.yaml"]) == config


def test_gpu_that_is_not_there_is_refused_and_auto_does_without(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(InputError, match=r"train.device is cuda, but torch finds no GPU here"):
        train(config_of(small_corpus, "train.device=cuda"), tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [choose_device(name).type for name in ("auto", "cpu", "cuda")] == ["cuda", "cpu", "cuda"]


def test_bfloat16_without_instructions_for_it_is_float32(
    small_corpus: Path,
    undisturbed: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    messages: Any,
) -> None:
    cpu = torch.device("cpu")
    for name in ("avx512_bf16", "amx_bf16", "sve_bf16"):
        monkeypatch.setattr(
            torch.cpu, "get_capabilities", lambda name=name: {name: True}, raising=False
        )
        assert choose_precision("bfloat16", cpu) == "bfloat16"
    assert choose_precision("float32", cpu) == "float32"
    monkeypatch.setattr(components, "library", SimpleNamespace(paths=lambda: ["avx512"]))
    monkeypatch.setattr(
        torch.cpu, "get_capabilities", lambda: {"amx_bf16": False, "avx": True}, raising=False
    )
    options = ("train.noise=0.2", "train.tempo=0.1", "train.epochs=3")
    train(config_of(small_corpus, "train.precision=bfloat16", *options), tmp_path)
    assert_same(states(tmp_path), undisturbed)
    assert ", precision float32" in messages()
    assert "train.precision: there are no instructions for bfloat16 here" in messages()
    assert json.loads((tmp_path / "env.json").read_text())["precision"] == "float32"


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_gpu_learns_what_the_cpu_does_and_the_cpu_goes_on_with_it(
    precision: str, small_corpus: Path, tmp_path: Path, messages: Any
) -> None:
    options = (f"train.precision={precision}", "train.noise=0.2")
    train(config_of(small_corpus, *options, "train.epochs=3"), tmp_path / "cpu")
    train(config_of(small_corpus, *options, "train.device=cuda"), tmp_path / "gpu")
    train(config_of(small_corpus, *options, "train.epochs=3"), tmp_path / "gpu")
    assert "this run was started with device" in messages()
    here, there = (states(tmp_path / name) for name in ("cpu", "gpu"))
    tolerance = 1e-3 if precision == "float32" else 2e-2
    for key in ("train_loss", "dev_loss"):
        torch.testing.assert_close(
            there[f"3 {key}"], here[f"3 {key}"], rtol=tolerance, atol=tolerance
        )


def test_cosine_run_cannot_be_lengthened(small_corpus: Path, tmp_path: Path) -> None:
    cosine_run = config_of(small_corpus, "train.schedule=cosine", "train.epochs=1")
    train(cosine_run, tmp_path)
    with pytest.raises(InputError, match=r"train.epochs is 1 in this run, but 2 now"):
        train(config_of(small_corpus, "train.schedule=cosine", "train.epochs=2"), tmp_path)


def test_new_starts_over(small_run: Path, small_corpus: Path, tmp_path: Path) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    (run / "score_test.json").write_text("of the network that is discarded")
    train(config_of(small_corpus, "seed=2", "train.epochs=1"), run, new=True)
    assert not (run / "score_test.json").exists(), "a report would show it beside the new network"
    assert len((run / "history.jsonl").read_text().splitlines()) == 1
    assert load([run / "config.yaml"]).seed == 2


@pytest.mark.parametrize("new", [False, True])
def test_what_a_stopped_score_left_never_comes_beside_a_new_network(
    new: bool, small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    ready = run / REPLACED_BY
    ready.mkdir()
    (ready / ".lock").touch()
    (ready / "score_test.json").write_text("of the network that was there")
    epochs = "train.epochs=1" if new else "train.epochs=2"
    train(config_of(small_corpus, epochs), run, new=new)
    assert (run / "score_test.json").exists() is not new
    assert not ready.exists()


def test_a_network_that_a_stopped_fold_left_is_not_trained_over(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    ready = tmp_path / "run" / REPLACED_BY
    ready.mkdir(parents=True)
    (ready / ".lock").touch()
    for name in ("config.yaml", "best.pt"):
        shutil.copy(small_run / name, ready)
    with pytest.raises(InputError, match=r"best\.pt: of a run that has no last\.pt"):
        train(config_of(small_corpus), tmp_path / "run")
    assert (tmp_path / "run" / "best.pt").read_bytes() == (small_run / "best.pt").read_bytes()


def test_other_data_under_an_old_run_are_refused(tmp_path: Path) -> None:
    root = write_corpus(tmp_path)
    train(config_of(root, "train.epochs=1"), tmp_path / "run")
    for name, count in (("train", 12), ("dev", 4)):
        longer = {utt: np.repeat(x, 2, axis=1) for utt, x in made_up(name, count)[0].items()}
        write_data_dir(root / "data" / name, longer)
    with pytest.raises(
        InputError, match=r"its network has inputs 5, but these data need 10; start"
    ):
        train(config_of(root, "train.epochs=1"), tmp_path / "run")
    write_corpus(root)
    for folder in ("ali", "ali_dev"):
        write_transition_model(
            build_monophone_model((2, 3, 7, 8), 2), root / "exp" / folder / "final.mdl"
        )
    with pytest.raises(InputError, match=r"network has outputs 6, 3, but these data need 8, 4"):
        train(config_of(root, "train.epochs=1"), tmp_path / "run")


def test_divergence_is_an_error_and_leaves_the_last_good_epoch(
    small_corpus: Path, tmp_path: Path
) -> None:
    options = (
        "train.learning_rate=10",
        "train.epochs=30",
        "train.max_bad_batches=0",
        "train.max_returns=1",
    )
    with pytest.raises(
        InputError,
        match=r"epoch \d+ diverged: the (gradient|loss) is .* went back 1 times .* --new",
    ):
        train(config_of(small_corpus, *options), tmp_path)
    for path in tmp_path.glob("*.pt"):
        assert all(x.isfinite().all() for x in checkpoint.read(path)["model"].values())


# --- loss and error


def test_dev_loss_weighs_frames_and_not_batches(small_corpus: Path) -> None:
    """Promise 2: whatever shares a batch, and whether anything pads it, the sums stay the same."""
    _, dev = training_and_dev(config_of(small_corpus))
    torch.manual_seed(0)
    model = acoustic_model(DIMENSIONS, (MODEL.num_pdfs, 3), units=(8,))
    normalisation = Normalisation.of(dev.prepare(utt)[FEATURES] for utt in dev.lengths)
    front_ends = {FEATURES: FrontEnd(normalisation=normalisation)}
    load_batch = Loader(dev, front_ends, dev.targets, seed=0, epoch=0)
    criterion = CrossEntropy({"pdfs": 1.0, "monophones": 1.0})
    results = [
        run_batches(
            model,
            criterion,
            PassBatches("", in_order(dev.lengths, sequences=n, frames=10**6), load_batch),
        )
        for n in (1, 3, 4)
    ]
    assert {r.errors for r in results} == {results[0].errors}
    assert {r.frames for r in results} == {sum(dev.lengths.values())}
    losses = [r.metrics()["loss"] for r in results]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["float32", "float16"])
def test_features_held_in_memory_are_read_once(
    keep: str, small_corpus: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """In float32 they are the same; in float16 a run that is resumed is still the same run."""
    read, stored = [], LabelledSet.read
    options = ("train.noise=0.2", "train.tempo=0.1", f"data.keep={keep}")
    config = config_of(small_corpus, "train.epochs=3", *options)
    train(config_of(small_corpus, "train.epochs=1"), tmp_path / "first")  # makes the index
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LabelledSet, "read", lambda self, u, s: read.append(u) or stored(self, u, s))
        train(config, tmp_path / "whole")
    assert sorted(read) == sorted(
        [
            *(f"train{n // 3}-{n}" for n in range(12)),
            "train0-0",
            *(f"dev{n // 3}-{n}" for n in range(4)),
        ]
    )
    found = states(tmp_path / "whole")
    if keep == "float32":
        assert_same(found, undisturbed)
    train(config_of(small_corpus, "train.epochs=1", *options), tmp_path / "parts")
    train(config, tmp_path / "parts")
    assert_same(states(tmp_path / "parts"), found)
