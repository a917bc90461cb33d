"""Networks that learn one label an utterance: what they read, how they resume, what is refused."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from bayes_asr import load as load_network
from bayes_asr.base.errors import InputError, StoppedError
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.sets import open_sets
from bayes_asr.decode.forward.network_record import describe_network
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.kaldi_io.text import read_mapping, write_mapping
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.trained_network import read_network
from bayes_asr.train.start import train
from tests.support.small_corpus import SETS, made_up, write_corpus
from tests.support.training_runs import assert_same, at_batch, config_of, history_of, states

STACK = [
    {"name": "low", "kind": "recurrent", "unit": "gru", "units": 4},
    {"name": "segments", "kind": "pool", "segment": 6, "shift": 3},
    {"name": "high", "kind": "recurrent", "unit": "li-bru", "units": 4},
    {"name": "whole", "kind": "pool"},
]
CLASSES = ("data.classes=utt2lang", f"model.stack={STACK}", "model.kinds.pool.units=3")
NAMES = ("fra", "deu", "pol")  # not in order


def write_classes(root: Path) -> Path:
    """A class for each utterance of the small corpus."""
    for name, count in SETS.items():
        utterances = list(made_up(name, count)[0])
        given = ((utt, NAMES[i % 3]) for i, utt in enumerate(utterances))
        write_mapping(given, root / "data" / name / "utt2lang")
    return root


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_classes(write_corpus(tmp_path_factory.mktemp("classes")))
    for folder in ("ali", "ali_dev"):
        for file in (root / "exp" / folder).iterdir():
            file.unlink()
    return root


def classes_of(root: Path, *more: str) -> Config:
    return config_of(root, *CLASSES, *more)


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run."""
    run = tmp_path_factory.mktemp("run") / "whole"
    train(classes_of(corpus, "train.epochs=3", "train.noise=0.2"), run)
    return run


def test_targets_and_priors_are_what_the_tables_say(corpus: Path, run: Path) -> None:
    network = read_network(run)
    assert network.classes == ("deu", "fra", "pol")
    counts = Counter(read_mapping(corpus / "data/train/utt2lang").values())
    share = np.array([counts[name] + 0.5 for name in network.classes])
    np.testing.assert_allclose(network.log_priors.numpy(), np.log(share / share.sum()))
    sets = open_sets(classes_of(corpus))
    for name, data in zip(("train", "dev"), sets, strict=True):
        features, _ = made_up(name, SETS[name])
        assert dict(data.lengths) == {utt: len(x) for utt, x in features.items()}
        for utt, given in read_mapping(corpus / f"data/{name}/utt2lang").items():
            (label,) = data.targets["classes"].labels(utt)
            assert network.classes[label] == given


def test_dev_loss_and_error_are_means_over_utterances(corpus: Path, run: Path) -> None:
    network, given = load_network(run), read_mapping(corpus / "data/dev/utt2lang")
    names, losses, wrong = read_network(run).classes, [], []
    for utt, x in made_up("dev", SETS["dev"])[0].items():
        (loglikes,) = network(x)
        posteriors = torch.log_softmax(loglikes + network.log_priors, 0)
        losses.append(-float(posteriors[names.index(given[utt])]))
        wrong.append(names[int(posteriors.argmax())] != given[utt])
    best = min(history_of(run), key=lambda entry: entry["dev_error"])
    assert best["dev_loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert best["dev_error"] == np.mean(wrong)
    assert history_of(run)[-1]["train_loss"] < history_of(run)[0]["train_loss"]


@pytest.mark.slow
def test_a_stopped_run_goes_on_bit_for_bit(corpus: Path, run: Path, tmp_path: Path) -> None:
    config = classes_of(corpus, "train.epochs=3", "train.noise=0.2", "train.save_minutes=0")
    stop: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731
    with at_batch(7, stop), pytest.raises(StoppedError):
        train(config, tmp_path / "stopped")
    torch.manual_seed(9)
    train(config, tmp_path / "stopped")
    assert_same(states(tmp_path / "stopped"), states(run))


def test_bfloat16_and_pieces_learn_too(corpus: Path, tmp_path: Path) -> None:
    train(classes_of(corpus, "train.precision=bfloat16", "train.max_frames=12"), tmp_path)
    losses = [entry["train_loss"] for entry in history_of(tmp_path)]
    assert losses[-1] < losses[0]


def test_an_utterance_is_classified_alike_in_any_company(corpus: Path, run: Path) -> None:
    network = load_network(run)
    features, _ = made_up("train", SETS["train"])
    prepared = [network.prepare({"features": x}) for x in features.values()]
    together = network.compute_prepared(prepared)
    for matrix, found in zip(prepared, together, strict=True):
        assert found.shape == (1, 3)
        torch.testing.assert_close(network.compute_prepared([matrix])[0], found, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_classify_writes_posteriors_decisions_weights_and_scores(
    corpus: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    words = ["classify", str(run), "--on", "test", "--attention", "whole", "--draw", "test0-1"]
    assert main(words) == 0
    out, given = run / "classify_test", read_mapping(corpus / "data/test/utt2lang")
    decided = read_mapping(out / "decisions")
    posteriors = dict(iter_matrices(out / "log_posteriors.ark"))
    assert list(decided) == list(given) == list(posteriors)
    for utt, matrix in posteriors.items():
        assert np.exp(matrix).sum() == pytest.approx(1, abs=1e-6)
        assert read_network(run).classes[matrix[0].argmax()] == decided[utt]
    features, _ = made_up("test", SETS["test"])
    for utt, weights in iter_matrices(out / "attention.ark"):
        assert weights.shape == (len(features[utt]), 1)
        assert weights.sum() == pytest.approx(1, abs=1e-5)
        assert (weights > 0).all()
        assert len(np.unique(weights)) <= -(-len(weights) // 3)  # of segments, three frames apart
    assert (out / "attention_test0-1.svg").read_text().startswith("<?xml")
    wrong = sum(decided[utt] != name for utt, name in given.items())
    assert capsys.readouterr().out.startswith(f"test: {wrong} of 3 wrong, ")
    assert main(["classify", str(run), "--on", "dev", "--json"]) == 0
    assert '"c_primary_lre17"' in capsys.readouterr().out
    assert main(["report", str(run), "--json"]) == 0
    assert '"rate": "ERROR plain"' in capsys.readouterr().out
    (score,) = json.loads((run / "score_dev.json").read_text())
    assert score["decoded"] == describe_network(run) != {}


def test_classify_with_out_writes_below_it_alone(run: Path, tmp_path: Path) -> None:
    def files() -> dict[str, int]:
        return {p.name: p.stat().st_mtime_ns for p in run.iterdir()}

    before = files()
    assert main(["classify", str(run), "--on", "dev", "--out", str(tmp_path / "out")]) == 0
    assert files() == before
    assert (tmp_path / "out" / "score_dev.json").is_file()


@pytest.mark.slow
def test_folders_without_classes_are_classified_too(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_corpus(tmp_path / "other") / "data/test"
    assert main(["classify", str(run), "--data", str(data), "--out", str(tmp_path / "out")]) == 0
    assert "3 decisions; there is no utt2lang to compare with" in capsys.readouterr().out
    assert len(read_mapping(tmp_path / "out/decisions")) == 3


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (("dev", "deu", "dut"), r"data/dev: dev0-1 is of the class dut, .* mean deu\?; known: deu"),
        (("train", " ", " x "), r"utt2lang, line 1: train0-0 has 3 fields, not 2"),
        (("train", "train0-0 fra\n", ""), r"train: no class in .*utt2lang for 1 of 12 utterances"),
    ],
)
def test_classes_that_say_too_little_or_other_things_are_refused(
    harm: tuple[str, str, str], message: str, tmp_path: Path
) -> None:
    root = write_classes(write_corpus(tmp_path))
    table = root / "data" / harm[0] / "utt2lang"
    table.write_text(table.read_text().replace(*harm[1:]))
    with pytest.raises(InputError, match=message):
        open_sets(classes_of(root))


def test_a_table_that_is_missing_is_refused(tmp_path: Path) -> None:
    root = write_classes(write_corpus(tmp_path))
    (root / "data/train/utt2lang").unlink()
    with pytest.raises(InputError, match=r"utt2lang is missing; write the class"):
        open_sets(classes_of(root))


def test_a_class_that_changed_keeps_a_run_from_going_on(corpus: Path, tmp_path: Path) -> None:
    root = write_classes(write_corpus(tmp_path / "corpus"))
    train(classes_of(root, "train.epochs=1"), tmp_path / "run")
    table = root / "data/train/utt2lang"
    table.write_text(table.read_text().replace("train0-0 fra", "train0-0 pol"))
    with pytest.raises(InputError, match="data/train: has changed since this run was started"):
        train(classes_of(root, "train.epochs=2"), tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["train.target_weights.x=1"], "train.target_weights is of labels of frames"),
        (["data.train.labels.x=exp/x"], "data.train.labels is of labels of frames"),
    ],
)
def test_labels_of_frames_are_refused_beside_classes(settings: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        task_of(load([], [*CLASSES, *settings]))


def test_doctor_says_what_keeps_a_classifier_from_training(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(*more: str) -> tuple[int, str]:
        given = [f"--set={one}" for one in (f"data.dir={corpus}", *CLASSES, *more)]
        status = main(["doctor", "--until", "7", "--out", str(tmp_path), *given])
        return status, capsys.readouterr().out

    status, said = ask()
    assert (status, [line for line in said.splitlines() if line.startswith("error")]) == (0, [])
    status, said = ask(f"model.stack={STACK[:1]}")
    assert status == 1
    assert "head classes has one label an utterance, but it reads layer low" in said


def test_only_classifiers_classify(small_corpus: Path, tmp_path: Path) -> None:
    train(config_of(small_corpus, "train.epochs=1"), tmp_path)
    assert main(["classify", str(tmp_path), "--on", "dev"]) == 1


def test_an_utterance_has_the_class_of_its_own_directory(tmp_path: Path) -> None:
    root = write_classes(write_corpus(tmp_path))
    tables = {name: read_mapping(root / "data" / name / "utt2lang") for name in ("train", "dev")}
    # The first table also names utterances of the second directory, whose features it lacks.
    strays = dict.fromkeys(tables["dev"], "pol")
    write_mapping({**tables["train"], **strays}.items(), root / "data/train/utt2lang")
    together = "data.train.features_all_of=[data/train, data/dev]"
    data, _ = open_sets(classes_of(root, together, "data.dev.features=[data/test]"))
    target = data.targets["classes"]
    found = {utt: target.names[int(target.labels(utt)[0])] for utt in data.lengths}
    assert found == {**tables["train"], **tables["dev"]}


def test_each_directory_is_announced_once(corpus: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        open_sets(classes_of(corpus))
    said = [line for line in caplog.messages if "features: " in line]
    assert len(said) == len(set(said)) == 2


def test_speakers_are_held_out_where_dev_has_no_classes(tmp_path: Path) -> None:
    root = write_classes(write_corpus(tmp_path))
    (root / "data/dev/utt2lang").unlink()
    train_set, dev_set = open_sets(classes_of(root, "data.held_out=0.3"))
    speakers = [{utt.split("-")[0] for utt in data.lengths} for data in (train_set, dev_set)]
    assert not speakers[0] & speakers[1]
    assert train_set.targets["classes"].names == dev_set.targets["classes"].names
