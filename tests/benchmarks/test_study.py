"""Studies: which run comes next, what is repeated, and what the table says is missing."""

import json
import math
import sys
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.data.corpus.sets import open_sets
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.decode.forward.interface import Output
from bayes_asr.decode.forward.log_likelihoods import load as load_network
from bayes_asr.evaluate.score.scores import Score, read_scores, write_scores
from tests.support.places import ROOT
from tests.support.report_runs import make_score
from tests.support.small_corpus import write_corpus

sys.path.insert(0, str(ROOT / "benchmarks"))
import study
from calibration import measure_calibration

SYSTEMS = ("a", "b", "c")
PAIR = "systems: {gru: units/gru.yaml, lstm: units/lstm.yaml}\n"
LOWEST = {"a": study.MIDDLE, "b": 0, "c": len(study.RATES) - 2}


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> dict[Path, float]:
    """Errors of runs by their folder, in place of trainings."""
    errors: dict[Path, float] = {}
    monkeypatch.setattr(study, "dev_error", errors.get)
    return errors


def train(run: study.Run, trained: dict[Path, float], out: Path) -> None:
    """Complete a run, whose errors grow with its distance from the lowest rate."""
    trained[run.path(out)] = 0.3 + 0.01 * abs(run.rate - LOWEST[run.system])


def test_runs_come_in_the_order_of_what_they_tell(
    trained: dict[Path, float], tmp_path: Path
) -> None:
    order = []
    while missing := study.list_missing(tmp_path, SYSTEMS, seeds=2):
        order.append(missing[0])
        train(missing[0], trained, tmp_path)
    middle = study.MIDDLE
    assert order[:3] == [study.Run(system, middle, 1) for system in SYSTEMS]
    assert {run[:2] for run in order[3:9]} == {(s, middle + i) for s in SYSTEMS for i in (-1, 1)}
    for system, lowest in LOWEST.items():
        errors = study.read_errors(tmp_path, system)
        assert study.best_rate(errors) == lowest
        # The best is inside of what was tried, unless there is no rate beyond it.
        assert {i for i in (lowest - 1, lowest + 1) if i in range(len(study.RATES))} <= {*errors}
        for seed in (1, 2):
            assert study.Run(system, lowest, seed).path(tmp_path) in trained
    searched = max(i for i, run in enumerate(order) if run.seed == 1 and run.rate != LOWEST[run[0]])
    assert all(run.seed == 1 for run in order[:searched])


def test_a_rate_that_diverges_is_the_worst(tmp_path: Path) -> None:
    why = "epoch 1 diverged: loss nan; the run went back 3 times (train.max_returns)"
    (tmp_path / "state.json").write_text(json.dumps({"state": "failed", "why": why}))
    assert study.dev_error(tmp_path) == math.inf
    assert (
        study.untried({study.MIDDLE: 0.4, study.MIDDLE - 1: 0.5, study.MIDDLE + 1: math.inf}) == []
    )


def test_a_system_that_diverges_at_every_rate_wants_no_seeds(
    trained: dict[Path, float], tmp_path: Path
) -> None:
    tried = []
    while missing := study.list_missing(tmp_path, ["a"], seeds=3):
        tried.append(missing[0])
        trained[missing[0].path(tmp_path)] = math.inf
    assert {run.seed for run in tried} == {1}
    row = study.describe_system(tmp_path, "a", 3)
    assert (row["best"], row["seeds"], row["missing"]) == (None, 0, "all diverged")
    with pytest.raises(InputError, match="a: every run diverged"):
        [*study.compare_systems(tmp_path, [["a", "b"]], 3)]


def complete(run: study.Run, out: Path, error: float, score: Score | None = None) -> None:
    """Write what a complete run has; infinite errors are of one that diverged."""
    path = run.path(out)
    path.mkdir(parents=True)
    if error == math.inf:
        (path / "state.json").write_text(json.dumps({"why": "gave up (train.max_returns)"}))
        return
    entry = {"epoch": 1, "dev_error": error, "frames_per_second": 1.0, "seconds": 1.0}
    (path / "history.jsonl").write_text(json.dumps(entry) + "\n")
    (path / "calibration.json").write_text('{"calibration error": 3.0}')
    score = score or make_score(run.seed, 0.3, "test", "strict")
    write_scores([score], path / "score_test.json")
    write_scores([replace(score, set="dev")], path / "score_dev.json")


def test_seeds_that_diverged_are_not_missing(tmp_path: Path) -> None:
    middle = study.MIDDLE
    for rate, error in ((middle - 1, 0.5), (middle, 0.4), (middle + 1, math.inf)):
        complete(study.Run("a", rate, 1), tmp_path, error)
    complete(study.Run("a", middle, 2), tmp_path, math.inf)
    assert study.list_missing(tmp_path, ["a"], seeds=2) == []
    row = study.describe_system(tmp_path, "a", 2)
    assert (row["seeds"], row["missing"]) == (1, "1 diverged")
    assert study.list_missing(tmp_path, ["a"], seeds=3) == [study.Run("a", middle, 3)]
    assert study.describe_system(tmp_path, "a", 3)["missing"] == "seeds, 1 diverged"


def test_tests_are_of_the_seeds_that_the_table_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where there are others, as of an earlier call with more seeds."""
    monkeypatch.setattr(study, "REPLICATES", 100)
    middle = study.MIDDLE
    for number, system in enumerate("ab"):
        complete(study.Run(system, middle - 1, 1), tmp_path, 0.5)
        complete(study.Run(system, middle + 1, 1), tmp_path, 0.5)
        for seed in range(1, 5):
            made = make_score(10 * number + seed, 0.2 + 0.05 * seed, "test", "strict")
            complete(study.Run(system, middle, seed), tmp_path, 0.4, made)
    (row,) = study.compare_systems(tmp_path, ["ab"], 2)
    rates = {}
    for system in "ab":
        paths = [study.Run(system, middle, seed).path(tmp_path) for seed in (1, 2)]
        scores = [read_scores(path / "score_test.json")[0] for path in paths]
        rates[system] = np.mean([score.counts.rate for score in scores])
    assert row["points"].startswith(f"{rates['a'] - rates['b']:+.2f} [")
    for system, rate in rates.items():
        described = study.describe_system(tmp_path, system, 2)
        assert described["test"].startswith(f"{rate:.2f} ± ")


def test_runs_are_completed_once_and_the_rest_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With verbs that write what the real ones do."""
    verbs: list[str] = []

    def run_verb(words: list[str]) -> int:
        verbs.append(words[0])
        path = Path(words[words.index("--out") + 1] if "--out" in words else words[1])
        path.mkdir(parents=True, exist_ok=True)
        if words[0] == "train":
            (rate,) = (float(w.split("=")[1]) for w in words if "learning_rate" in w)
            error = 0.25 if rate == 2.5e-3 else 0.5
            entry = {"epoch": 1, "dev_error": error, "frames_per_second": 1.0, "seconds": 1.0}
            (path / "history.jsonl").write_text(json.dumps(entry) + "\n")
        elif words[0] == "forward":
            (path / f"forward_{words[-1]}").mkdir()
        return 0

    monkeypatch.setattr(study, "run_verb", run_verb)
    monkeypatch.setattr(study, "measure_calibration", lambda _: {"calibration error": 3.0})
    monkeypatch.setattr(study, "rates_of", lambda paths, part: [12.5 for _ in paths])
    (tmp_path / "pair.yaml").write_text(PAIR)
    (tmp_path / "small.yaml").write_text("data: {dir: none}\n")
    words = ["study.py", str(tmp_path / "pair.yaml"), "--out", str(tmp_path / "out")]
    words += ["--train", str(tmp_path / "small.yaml")]
    monkeypatch.setattr(sys, "argv", [*words, "--minutes", "1e-9"])
    study.main()
    assert verbs == []
    monkeypatch.setattr(sys, "argv", [*words, "--seeds", "2"])
    study.main()
    steps = ["train", "forward", "forward", "decode", "decode", "score"]
    assert verbs == steps * 2 * 4
    assert not [*tmp_path.rglob("forward_*")]
    *_, gru, lstm = capsys.readouterr().out.splitlines()
    tried = "0.001: 50.00%, 12.50; 0.0025: 25.00%, 12.50; 0.0063: 50.00%, 12.50"
    assert gru == f"| gru | {tried} | 0.0025 | 2 | 12.50 ± 0.00 | 12.50 ± 0.00 | 3.00 ± 0.00 |  |"
    assert lstm == gru.replace("gru", "lstm")


def test_what_would_mix_settings_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    experiment, out = tmp_path / "pair.yaml", tmp_path / "out"
    experiment.write_text("model: {layers: 1, units: 4}\n" + PAIR)
    trained = tmp_path / "small.yaml"
    trained.write_text(
        f"data: {{dir: {write_corpus(tmp_path / 'corpus')}}}\ntrain: {{epochs: 1}}\n"
    )
    run = study.Run("gru", study.MIDDLE, 1).path(out)
    rate = f"train.learning_rate={study.RATES[study.MIDDLE]:g}"
    words = ["--set", rate, "--set", "seed=1", "--out", str(run)]
    assert main(["train", str(trained), f"{experiment}#gru", *words]) == 0
    words = ["study.py", str(experiment), "--out", str(out)]
    for further, says in (
        (["--train", str(trained), "--minutes", "0"], None),
        (["--train", str(trained), "--set", "train.batch_sequences=3"], "train.batch_sequences is"),
        (["--train", str(trained), "--set", "decode.max_active=777"], "decode.max_active is"),
        (["--train", str(trained), "--set", "model.unit=rnn"], "model.unit of gru is not that of"),
        (["--train", str(trained), "--set", "model={unit: rnn}"], "model.unit of gru is not that"),
        (["--train", str(trained), "--set", "seed=2"], "for each run"),
        (["--tests", "gru", "lstm"], "no run is complete"),
        (["--tests", "gru"], "--tests gru: "),
    ):
        monkeypatch.setattr(sys, "argv", [*words, *further])
        with nullcontext() if says is None else pytest.raises(SystemExit, match=says):
            study.main()


def test_options_that_follow_from_others_are_those_of_the_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`train` records the acoustic scale of a criterion on lattices, which is that of decoding."""
    experiment, out, trained = tmp_path / "pair.yaml", tmp_path / "out", tmp_path / "small.yaml"
    experiment.write_text(PAIR)
    lattices = "train: {lattices: [x]}, dev: {lattices: [x]}"
    trained.write_text(f"data: {{dir: {tmp_path}, {lattices}}}\ntrain: {{criterion: mmi}}\n")
    run = study.Run("gru", study.MIDDLE, 1)
    scale = load([]).decode.acoustic_scale
    for given, says in ((scale, None), (2 * scale, "train.sequence.acoustic_scale is")):
        settings = [f"train.learning_rate={study.RATES[study.MIDDLE]:g}", "seed=1"]
        settings += [f"train.sequence.acoustic_scale={given}"]
        run.path(out).mkdir(parents=True, exist_ok=True)
        recorded = load([trained, Path(f"{experiment}#gru")], settings)
        recorded.save(run.path(out) / "config.yaml")
        words = ["study.py", str(experiment), "--out", str(out), "--train", str(trained)]
        more = [] if says is None else ["--set", f"train.sequence.acoustic_scale={scale}"]
        monkeypatch.setattr(sys, "argv", [*words, "--minutes", "0", *more])
        with nullcontext() if says is None else pytest.raises(SystemExit, match=says):
            study.main()


def test_calibration_is_that_of_every_other_utterance(tmp_path: Path) -> None:
    corpus, run = write_corpus(tmp_path / "corpus"), tmp_path / "run"
    settings = [f"data.dir={corpus}", "model.layers=1", "model.units=4", "train.epochs=1"]
    config = tmp_path / "empty.yaml"
    config.write_text("model: {unit: li-bru}\n")
    words = [word for setting in settings for word in ("--set", setting)]
    assert main(["train", str(config), *words, "--out", str(run)]) == 0
    _, dev = open_sets(load([config], settings))
    network = load_network(run, output=Output(kind="log-posteriors"))
    labels = dev.targets[network.model.outputs[0]].labels
    confidences, right = [], []
    for utt in sorted(dev.lengths)[1::2]:
        posteriors = np.exp(network(dev.read(utt, FEATURES)).numpy())
        confidences += [*posteriors.max(1)]
        right += [*(posteriors.argmax(1) == labels(utt))]
    gaps = [
        abs(sum(c - r for c, r in zip(confidences, right, strict=True) if low <= c < high))
        for low, high in pairwise(np.linspace(0, 1, 16))
    ]
    row = measure_calibration(run)
    assert row["frames"] == len(right)
    assert row["wrong"] == pytest.approx(100 - 100 * np.mean(right))
    assert row["calibration error"] == pytest.approx(100 * sum(gaps) / len(right), abs=1e-3)
    assert row["calibration error after"] <= row["calibration error"] + 5
