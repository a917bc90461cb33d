"""Numbers that are not finite: batches are skipped, epochs repeated, features refused."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.train import loop
from bayes_asr.train.batch import Batch
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.status import read_status
from bayes_asr.train.start import train
from bayes_asr.train.step import NotFiniteError, Step
from tests.support.small_corpus import made_up, write_corpus
from tests.support.training_runs import (
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


@contextmanager
def not_finite(
    utt: str, epochs_of_it: Sequence[int] = (1, 2, 3), *, dev: bool = False, value: float = np.inf
) -> Any:
    """Make the features of an utterance infinite in some epochs, after they were read and found
    to be finite, so that its loss is NaN and the statistics of its batch are poisoned."""
    make = loop.Loader

    def make_broken(*what: Any, epoch: int, **more: Any) -> Any:
        load_batch = make(*what, epoch=epoch, **more)

        def broken(utterances: list[str]) -> Batch:
            batch = load_batch(utterances)
            if utt in utterances and (epoch in epochs_of_it or dev):
                batch.streams[FEATURES][0] = value
            return batch

        return broken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Loader", make_broken)
        yield


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
    grouped, batches = loop.batches_of, []

    def kept(*arguments: Any, **options: Any) -> list[list[str]]:
        batches.append(grouped(*arguments, **options))
        return batches[-1]

    with pytest.MonkeyPatch.context() as patch, not_finite("train1-4", [1]):
        patch.setattr(loop, "batches_of", kept)
        train(config, tmp_path / "skipped")
    without = [batch for batch in batches[0] if "train1-4" not in batch]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "batches_of", lambda *x, **y: without)
        train(config, tmp_path / "without")
    assert_same(states(tmp_path / "skipped"), states(tmp_path / "without"))


@pytest.mark.parametrize(("value", "why"), [(1e25, "is inf"), (1e15, "e+")])
def test_batch_that_only_poisons_running_statistics_is_skipped(
    value: float, why: str, small_corpus: Path, tmp_path: Path
) -> None:
    """A variance that overflows makes what it normalises 0, of which the loss is finite."""
    with not_finite("train1-4", [1], value=value):
        train(config_of(small_corpus, *OPTIONS), tmp_path)
    (skipped,) = history_of(tmp_path)[0]["skipped"]
    assert "running_var is" in skipped["why"]
    assert why in skipped["why"]
    model = checkpoint.read(tmp_path / "last.pt")["model"]
    assert all(value.abs().max() < 1e12 for value in model.values())


@pytest.mark.slow
@pytest.mark.parametrize("batch", [2, 5, 8, 9])
def test_run_that_skips_and_goes_back_is_resumed_bit_for_bit(
    batch: int, small_corpus: Path, tmp_path: Path
) -> None:
    """The first epoch skips a batch; the second goes back once, and is then well."""
    options = (*OPTIONS, "train.max_bad_batches=1", f"train.save_minutes={10 * (batch % 2)}")
    config = config_of(small_corpus, *options)

    @contextmanager
    def broken() -> Iterator[None]:
        skip = Step.restoring_statistics
        with pytest.MonkeyPatch.context() as patch, not_finite("train1-4", [1]):
            at_full_rate = {}
            make = Step.__init__

            def remember(self: Step, model: Any, optimizer: Any, **more: Any) -> None:
                at_full_rate["rate"] = optimizer.param_groups[0]["lr"]
                make(self, model, optimizer, **more)

            @contextmanager
            def undone(step: Step) -> Iterator[None]:
                with skip(step):
                    yield
                    if current["epoch"] == 2 and at_full_rate["rate"] > 0.015:
                        raise NotFiniteError("the loss is inf")

            current = {}
            run_batches = loop.run_batches

            def noted_pass(model: Any, criterion: Any, batches: Any, **more: Any) -> Any:
                current["epoch"] = int(batches.title.split()[1])
                return run_batches(model, criterion, batches, **more)

            patch.setattr(Step, "__init__", remember)
            patch.setattr(Step, "restoring_statistics", undone)
            patch.setattr(loop, "run_batches", noted_pass)
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
    found = read_status(tmp_path)
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
    assert f"{name}0-2" in (read_status(tmp_path / "run").why or "")
