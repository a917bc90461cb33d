"""Searches: every trial is the run that train makes, and the table is the same whatever happens."""

import json
import os
import re
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.base.processes.pool import map_utterances
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.start import train
from bayes_asr.train.trials.search_runs import Outcome, SearchPlan, Trial, search
from tests.support.places import CONF
from tests.support.small_corpus import settings
from tests.support.training_runs import (
    Killed,
    assert_same,
    at_batch,
    config_of,
    history_of,
    kill,
    states,
)

HEAD = ("epochs", "best", "on", "dev", "in", "epoch", "why")
BASE = str(CONF / "base.yaml")
SPACE = "train.learning_rate: {log_uniform: [1e-4, 1e-1]}\nmodel.units: {ints: [4, 8]}\n"


def command(root: Path, out: Path, space: str, *more: str, sets: tuple[str, ...] = ()) -> list[str]:
    file = out.parent / f"{out.name}.yaml"
    file.write_text(space)
    options = ["--space", str(file), "--out", str(out), "--json", *more]
    return ["search", BASE, *settings(root, *sets), *options]


def results(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What was printed, without the folder of the search."""
    found = json.loads(capsys.readouterr().out)
    return [{**one, "run": Path(one["run"]).name} for one in found]


@pytest.fixture
def whole(
    small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, Any]]:
    """What a search of four trials gives that nothing happened to."""
    assert main(command(small_corpus, tmp_path / "whole", SPACE, "--trials", "4")) == 0
    return results(capsys)


@pytest.mark.slow
def test_each_trial_is_the_run_that_train_makes(
    whole: list[dict[str, Any]], small_corpus: Path, tmp_path: Path
) -> None:
    assert [one["trial"] for one in sorted(whole, key=lambda o: o["run"])] == [1, 2, 3, 4]
    errors = [one["dev_error"] for one in whole]
    assert errors == sorted(errors)
    assert len(set(errors)) > 1
    best = whole[0]
    more = [f"{key}={value}" for key, value in best["settings"].items()]
    train(config_of(small_corpus, *more), tmp_path / "alone")
    alone = states(tmp_path / "alone")
    assert_same(alone, states(tmp_path / "whole" / best["run"]))
    assert best["dev_error"] == min(alone["1 dev_error"], alone["2 dev_error"])
    assert best["epochs"] == 2
    kept = json.loads((tmp_path / "whole" / "trials.json").read_text())
    assert [one["dev_error"] for one in kept] == errors


def train_and_count(name: str, job: tuple[SearchPlan, Trial]) -> int:
    """Page faults of a batch of 192 MiB, of many, in a process that has trained."""
    plan, trial = job
    plan.train(trial.config, trial.run)
    for _ in range(20):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        batch = [torch.ones(2**24) for _ in range(3)]
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        del batch
    return faults


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="of glibc and Linux")
def test_processes_that_train_trials_keep_their_memory(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[tuple[str, tuple[SearchPlan, Trial]]] = []

    def note(trials: Sequence[Trial], plan: SearchPlan, *_: Any) -> list[Outcome]:
        jobs.extend((trial.run.name, (plan, trial)) for trial in trials)
        return []

    monkeypatch.setattr("bayes_asr.cli.search.search", note)
    assert main(command(small_corpus, tmp_path / "out", SPACE, "--trials", "2", "--nj", "2")) == 0
    assert max(map_utterances(train_and_count, jobs, 2)) < 1000  # in place of 49,152 pages


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 7, 15, 30])
def test_a_search_that_is_killed_and_given_again_gives_the_same(
    batch: int,
    whole: list[dict[str, Any]],
    small_corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = command(small_corpus, tmp_path / "killed", SPACE, "--trials", "4")
    with at_batch(batch, kill), suppress(Killed):
        main(words)
    capsys.readouterr()
    assert main(words) == 0
    assert results(capsys) == whole
    for one in whole:
        assert_same(
            states(tmp_path / "killed" / one["run"]), states(tmp_path / "whole" / one["run"])
        )


@pytest.mark.slow
def test_a_signal_ends_it_with_everything_saved(
    whole: list[dict[str, Any]],
    small_corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = command(small_corpus, tmp_path / "stopped", SPACE, "--trials", "4")
    with at_batch(9, lambda: os.kill(os.getpid(), signal.SIGTERM)):
        assert main(words) == 143
    assert "everything is saved" in capsys.readouterr().err
    assert main(words) == 0
    assert results(capsys) == whole


@pytest.mark.slow
def test_more_trials_are_added_and_complete_ones_are_not_trained_again(
    whole: list[dict[str, Any]],
    small_corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = sorted((tmp_path / "whole").glob("trial-*/last.pt"))
    before = [run.stat().st_mtime_ns for run in runs]
    assert main(command(small_corpus, tmp_path / "whole", SPACE, "--trials", "5")) == 0
    found = results(capsys)
    assert [one for one in found if one["trial"] < 5] == whole
    assert [run.stat().st_mtime_ns for run in runs] == before


@pytest.mark.slow
def test_several_processes_give_the_same(
    whole: list[dict[str, Any]],
    small_corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = command(small_corpus, tmp_path / "two", SPACE, "--trials", "4", "--nj", "2")
    assert main(words) == 0
    assert results(capsys) == whole


@pytest.mark.slow
def test_the_better_half_goes_on(
    small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command(small_corpus, tmp_path / "halves", SPACE, "--trials", "5", "--rungs", "1", "2")
    assert main([*words, "4"]) == 0
    found = results(capsys)
    assert [one["epochs"] for one in found] == [4, 4, 2, 1, 1]
    histories = {
        one["trial"]: [line["dev_error"] for line in history_of(tmp_path / "halves" / one["run"])]
        for one in found
    }
    assert {number: len(history) for number, history in histories.items()} == {
        one["trial"]: one["epochs"] for one in found
    }
    first = sorted(histories, key=lambda number: (histories[number][0], number))
    assert {one["trial"] for one in found[:3]} == set(first[:3])
    second = sorted(first[:3], key=lambda number: (min(histories[number][:2]), number))
    assert {one["trial"] for one in found[:2]} == set(second[:2])
    assert main([*words, "4"]) == 0, "given again, what is complete is read"
    assert results(capsys) == found


def test_a_trial_that_fails_later_keeps_what_it_was_worth(
    small_corpus: Path, tmp_path: Path
) -> None:
    def fail_later(config: Config, run: Path) -> None:
        if config.train.epochs > 1:
            raise InputError("diverged")
        train(config, run)

    trials = [
        Trial(number, (), config_of(small_corpus, f"seed={number}"), tmp_path / str(number))
        for number in (1, 2)
    ]
    best, other = search(trials, SearchPlan(fail_later, (1, 2)), tmp_path / "search", {})
    values = [history_of(tmp_path / name)[0]["dev_error"] for name in ("1", "2")]
    assert [best.best, other.best] == sorted(values)
    assert (best.epochs, best.why, other.why) == (1, "diverged", None)


@pytest.mark.slow
def test_it_stops_at_a_trial_that_is_good_enough(
    whole: list[dict[str, Any]],
    small_corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    by_number = sorted(whole, key=lambda one: one["trial"])
    second = by_number[1]["dev_error"]
    first = next(n for n, one in enumerate(by_number, start=1) if one["dev_error"] <= second)
    words = command(small_corpus, tmp_path / "early", SPACE, "--stop-at", str(second))
    assert main(words) == 0
    assert sorted(one["trial"] for one in results(capsys)) == list(range(1, first + 1))
    assert len(list((tmp_path / "early").glob("trial-*"))) == first


@pytest.mark.slow
def test_a_trial_that_fails_is_named_and_the_others_go_on(
    small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A learning rate that makes numbers infinite in all batches, and no way back."""
    space = "train.learning_rate: [0.01, 10.0]\n"
    sets = (
        "train.max_returns=0",
        "train.max_bad_batches=0",
        "train.optimizer=sgd",
        "train.max_gradient_norm=1e9",
        "model.unit=rnn",
        "model.activation=relu",
        "model.norm=none",
        "train.momentum=0.99",
        "train.epochs=4",
    )
    out = tmp_path / "fails"
    words = command(small_corpus, out, space, "--grid", sets=sets)
    assert main(words) == 0
    good, bad = results(capsys)
    assert good["why"] is None
    assert bad["dev_error"] is None
    assert "diverged" in bad["why"]
    words.remove("--json")
    assert main(words) == 0
    header, first, last = capsys.readouterr().out.splitlines()
    assert header.split() == [
        "trial",
        "train.learning_rate",
        *HEAD,
    ]
    assert first.split()[:3] == ["trial-001", "0.01", "4"]
    assert last.split()[:4] == ["trial-002", "10.0", "4", "failed"]


@pytest.mark.parametrize(
    ("space", "more", "message"),
    [
        ("train.lerning_rate: [1]", (), r"trial-001: --set .*no key train.lerning_rate; did you"),
        ("train.learning_rate: [20]", (), "trial-001: --set train.learning_rate=20: .* between"),
        ("train.schedule: [cosine]", ("--rungs", "1", "2"), "schedule = cosine does not allow"),
        ("seed: [1]", ("--rungs", "2", "1"), "name more epochs at each"),
        ("seed: {ints: [1, 2]}", ("--grid",), "seed is a range, which has no grid"),
        ("data.train.features: [nowhere]", (), "every trial failed, .* none of these exists"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    space: str,
    more: tuple[str, ...],
    message: str,
    small_corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = command(small_corpus, tmp_path / "out", space, "--trials", "1", *more)
    assert main(words) == 1
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.slow
def test_another_search_is_refused_in_its_folder(
    whole: list[dict[str, Any]],
    small_corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = checkpoint.read(tmp_path / "whole" / "trial-001" / "last.pt")["inputs"]
    for space, more, named in (
        (SPACE.replace("8", "9"), (), "space"),
        (SPACE, ("--seed", "2"), "seed"),
        (SPACE, ("--rungs", "1", "2"), "rungs"),
    ):
        assert main(command(small_corpus, tmp_path / "whole", space, *more)) == 1
        assert f"begun with another {named}; search into another" in capsys.readouterr().err
    words = command(small_corpus, tmp_path / "whole", SPACE, sets=("train.noise=0.1",))
    assert main(words) == 1
    assert "begun with another configuration" in capsys.readouterr().err
    assert checkpoint.read(tmp_path / "whole" / "trial-001" / "last.pt")["inputs"] == before


LATTICES = "data.train.lattices=[x]"


def made_up_trials(folder: Path, *criteria: str) -> list[Trial]:
    changes = ([f"train.criterion={criterion}", LATTICES] for criterion in criteria)
    return [
        Trial(number, {}, load([], change), folder / f"trial-{number:03d}")
        for number, change in enumerate(changes, start=1)
    ]


def write_made_up_history(config: Config, run: Path) -> None:
    """The trials whose loss falls have more and more errors."""
    number = int(run.name[-1])
    line = {"epoch": 1, "dev_loss": -number / 8, "dev_error": number / 8}
    line |= {"frames_per_second": 1.0, "seconds": 1.0}
    run.mkdir(parents=True, exist_ok=True)
    (run / "history.jsonl").write_text(json.dumps(line) + "\n")


@pytest.mark.parametrize("stop_at", [None, -0.25])
def test_trials_that_are_judged_by_loss_are_ranked_by_it(
    stop_at: float | None, tmp_path: Path
) -> None:
    trials = made_up_trials(tmp_path, "smbr", "smbr", "smbr")
    outcomes = search(trials, SearchPlan(write_made_up_history, (1,), stop_at), tmp_path, {})
    assert [outcome.trial for outcome in outcomes] == ([3, 2, 1] if stop_at is None else [2, 1])
    best = outcomes[0]
    assert (best.judged_by, best.best, best.epoch) == ("loss", -best.trial / 8, 1)
    assert best.dev_error == best.trial / 8


def test_losses_of_different_criteria_are_not_compared(tmp_path: Path) -> None:
    trials = made_up_trials(tmp_path, "cross-entropy", "mmi")
    with pytest.raises(InputError, match=r"train.criterion is cross-entropy and mmi, whose losses"):
        search(trials, SearchPlan(write_made_up_history, (1,)), tmp_path, {})
