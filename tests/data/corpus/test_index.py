"""The index of a training's inputs: what it holds, when it is made again, and by whom."""

import errno
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_asr.base import log
from bayes_asr.base.errors import InputError
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus import index, labels_index, survey
from bayes_asr.data.corpus.fingerprints import hash_stream
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labels_index import index_alignments
from bayes_asr.data.corpus.sets import open_sets, training_and_dev
from bayes_asr.data.features.front_end import FEATURES, Normalisation
from bayes_asr.data.targets.target import Target
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.train.start import train
from tests.attacks.breakages import unprivileged
from tests.support.processes import FORKED
from tests.support.small_corpus import made_up, write_alignments, write_corpus
from tests.support.training_runs import assert_same, config_of, states


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus")


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is logged, as one string when asked."""
    monkeypatch.setattr(log.LOGGER, "propagate", True)
    caplog.set_level("INFO", "bayes_asr")
    return lambda: caplog.text


@pytest.fixture
def surveys(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sets of which all features were read."""
    read, names = survey._read, []
    monkeypatch.setattr(survey, "_read", lambda name, *x: names.append(name) or read(name, *x))
    return names


def kept(root: Path, name: str) -> Path:
    """The file of the index that has this name."""
    (path,) = (root / "index").glob(name)
    return path


# --- the second training on the same data


@pytest.mark.slow
def test_second_training_reads_nothing_to_start_and_learns_the_same(
    corpus: Path, tmp_path: Path, surveys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    train(config_of(corpus), tmp_path / "first")
    assert surveys == ["dev", "train"]
    for module, name in (labels_index, "iter_alignments"), (Target, "count"):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("read again"))
    train(config_of(corpus), tmp_path / "second")
    assert surveys == ["dev", "train"]
    assert_same(states(tmp_path / "second"), states(tmp_path / "first"))


def test_survey_is_what_the_set_gives(corpus: Path, tmp_path: Path) -> None:
    data, _ = training_and_dev(config_of(corpus, "features.cmvn=mean", "features.deltas=1"))
    for _ in range(2):
        noted = hash_stream(data, FEATURES)
        found = survey.survey_stream(
            "train", data, FEATURES, noted, Index(tmp_path / "index"), new=True
        )
        expected = Normalisation.of(data.prepare(utt)[FEATURES] for utt in data.lengths)
        np.testing.assert_array_equal(found.normalisation.mean, expected.mean)
        np.testing.assert_array_equal(found.normalisation.deviation, expected.deviation)


def touched(root: Path) -> None:
    (root / "data/train/feats.ark").touch()


def other_table(root: Path) -> None:
    path = root / "data/train/utt2spk"
    path.write_text(path.read_text().replace("train0\n", "train9\n"))


def other_alignment(root: Path) -> None:
    _, alignments = made_up("train", 12)
    write_alignments(root / "exp/ali", ((utt, x[::-1]) for utt, x in alignments.items()))


@pytest.mark.parametrize(
    ("change", "read", "named"),
    [
        (touched, ["train"], "feats.ark (times) has changed"),
        (other_table, ["train"], "utt2spk has changed"),
        (other_alignment, ["train"], "exp/ali has changed"),
        (
            lambda root: shutil.rmtree(root.parent / "index"),
            ["dev", "train"],
            "reading all features of 4 dev",
        ),
    ],
)
def test_what_changed_is_read_again_and_said(
    change: Callable[[Path], None],
    read: list[str],
    named: str,
    corpus: Path,
    tmp_path: Path,
    surveys: list[str],
    messages: Any,
) -> None:
    train(config_of(corpus, "train.epochs=1"), tmp_path / "first")
    surveys.clear()
    change(corpus)
    train(config_of(corpus, "train.epochs=1"), tmp_path / "second")
    assert surveys == read
    assert named in messages()


@pytest.mark.parametrize(("name", "announced"), [("../index", True), ("index", False)])
def test_an_index_elsewhere_than_beside_the_run_is_announced(
    name: str, announced: bool, corpus: Path, tmp_path: Path, messages: Any
) -> None:
    run = tmp_path / "runs/run"
    train(config_of(corpus, "train.epochs=1", f"data.index={name}"), run)
    folder = (run.parent / name).resolve()
    assert list(folder.iterdir())
    assert (f"written to {folder}" in messages()) == announced


@pytest.mark.slow
def test_other_preparation_has_an_index_of_its_own(
    corpus: Path, tmp_path: Path, surveys: list[str]
) -> None:
    for number in range(2):
        for cmvn in ("none", "mean"):
            config = config_of(corpus, "train.epochs=1", f"features.cmvn={cmvn}")
            train(config, tmp_path / f"{cmvn}{number}")
    assert surveys == ["dev", "train"] * 2


def test_another_choice_of_utterances_has_an_index_of_its_own(
    corpus: Path, tmp_path: Path, surveys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As LF-MMI leaves out utterances without a numerator, of the same features and labels."""
    counted: list[int] = []
    count = Target.count
    monkeypatch.setattr(
        Target, "count", lambda target, utts: counted.append(len(utts)) or count(target, utts)
    )
    held = ("train.epochs=1", "data.dev.alignments=[]")
    for number in range(2):
        for share in ("0.25", "0.5"):
            settings = (*held, f"data.held_out={share}")
            train(config_of(corpus, *settings), tmp_path / f"{share}-{number}")
    assert surveys == ["dev", "train"] * 2
    assert counted == [9, 9, 6, 6]  # of two heads


def test_archive_changed_in_place_with_its_size_and_times_is_refused(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of the places that are looked at; only the time of the change tells."""
    monkeypatch.setattr(index, "SAMPLE", 4)
    train(config_of(corpus, "train.epochs=1"), tmp_path / "run")
    ark = corpus / "data/train/feats.ark"
    before, raw = ark.stat(), bytearray(ark.read_bytes())
    raw[40] ^= 1  # the last bit of a value
    with ark.open("r+b") as file:
        file.write(raw)
    os.utime(ark, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InputError, match=r"data/train \(frames of train\): has changed since"):
        train(config_of(corpus, "train.epochs=2"), tmp_path / "run")


def in_order(root: Path) -> None:
    path = root / "data/train/feats.scp"
    path.write_text("".join(sorted(path.read_text().splitlines(keepends=True))))


def unsorted(root: Path) -> None:
    path = root / "data/train/feats.scp"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))


def without_alignment(root: Path) -> None:
    _, alignments = made_up("train", 12)
    del alignments["train0-1"]
    write_alignments(root / "exp/ali", alignments.items())


@pytest.mark.parametrize("change", [unsorted, without_alignment, in_order])
def test_utterances_of_the_index_are_those_of_the_tables(
    change: Callable[[Path], None], corpus: Path, tmp_path: Path, messages: Any
) -> None:
    change(corpus)
    config = config_of(corpus, "data.max_skipped=0.1")
    expected, _ = training_and_dev(config)
    for _ in range(2):  # made, and found
        found, _ = open_sets(config, None, Index(tmp_path / "index"))
        assert list(found.lengths.items()) == list(expected.lengths.items())
        assert found.features.utterances == expected.features.utterances
        for utt in expected.lengths:
            np.testing.assert_array_equal(
                found.prepare(utt)[FEATURES], expected.prepare(utt)[FEATURES]
            )
    skipped = "no alignment in .* for 1 of 12 utterances: train0-1;"
    assert len(re.findall(skipped, messages())) == (3 if change is without_alignment else 0)


def relative(root: Path) -> None:
    in_order(root)
    path = root / "data/train/feats.scp"
    path.write_text(path.read_text().replace(f"{root / 'data/train'}/", ""))


def frames_read(config: Any, folder: Path) -> list[np.ndarray]:
    data, _ = open_sets(config, None, Index(folder))
    return [data.prepare(utt)[FEATURES] for utt in data.lengths]


def test_relative_names_are_of_the_working_directory(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relative(corpus)
    config, other = config_of(corpus), tmp_path / "other"
    beside = frames_read(config, tmp_path / "index")
    features, _ = made_up("train", 12)
    other.mkdir()
    write_matrices(((utt, 2 * x) for utt, x in features.items()), other / "feats.ark")
    monkeypatch.chdir(other)
    for ours, theirs in zip(frames_read(config, tmp_path / "index"), beside, strict=True):
        np.testing.assert_array_equal(ours, 2 * theirs)


def test_archive_that_was_moved_is_found_again(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relative(corpus)
    monkeypatch.chdir(tmp_path)
    (corpus / "data/train/feats.ark").rename(tmp_path / "feats.ark")
    before = frames_read(config_of(corpus), tmp_path / "index")
    (tmp_path / "feats.ark").rename(corpus / "data/train/feats.ark")
    for now, then in zip(frames_read(config_of(corpus), tmp_path / "index"), before, strict=True):
        np.testing.assert_array_equal(now, then)


# --- damage, and folders that cannot be written to


@pytest.mark.parametrize(
    "name", ["ali-*.npz", "ali-*.ark", "counts-*.npz", "train-*.npz", "utterances-*.npz"]
)
@pytest.mark.parametrize("damage", ["removed", "empty", "cut", "other"])
def test_damaged_index_is_made_again(
    name: str, damage: str, corpus: Path, tmp_path: Path, messages: Any
) -> None:
    config = config_of(corpus, "train.epochs=1", "data.dev.alignments=[]", "data.held_out=0.25")
    train(config, tmp_path / "first")
    path = kept(tmp_path, name)
    raw = path.read_bytes()
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "cut": raw[:-20], "other": b"x" + raw}[damage])
    train(config, tmp_path / "second")
    assert path.stat().st_size == len(raw)
    never_made = damage == "removed" and name.endswith("npz")
    assert (f"{path.with_suffix('.npz')}: damaged" in messages()) == (not never_made)
    assert_same(states(tmp_path / "second"), states(tmp_path / "first"))


def test_index_is_in_the_run_where_nothing_can_be_written_beside_it(
    corpus: Path, tmp_path: Path, surveys: list[str]
) -> None:
    run = tmp_path / "runs/run"
    run.mkdir(parents=True)
    run.parent.chmod(0o555)
    with unprivileged():
        train(config_of(corpus, "train.epochs=1"), run)
        train(config_of(corpus, "train.epochs=1"), run, new=True)
    assert surveys == ["dev", "train"]
    assert len(list((run / "index").glob("*.npz"))) == 7
    assert not (run.parent / "index").exists()


def test_index_that_may_only_be_read_is_used(
    corpus: Path, tmp_path: Path, surveys: list[str]
) -> None:
    train(config_of(corpus, "train.epochs=1"), tmp_path / "first")
    (tmp_path / "index").chmod(0o555)
    with unprivileged():
        train(config_of(corpus, "train.epochs=1"), tmp_path / "second")
    assert surveys == ["dev", "train"]
    assert not (tmp_path / "second/index").exists()


def test_index_for_which_there_is_no_room_is_done_without(
    corpus: Path, tmp_path: Path, messages: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    train(config_of(corpus, "train.epochs=1"), tmp_path / "first")
    shutil.rmtree(tmp_path / "index")
    monkeypatch.setattr(np, "savez", full)
    train(config_of(corpus, "train.epochs=1"), tmp_path / "second")
    assert "alignments, which are held in memory: [Errno 28] No space left" in messages()
    assert "is not kept: [Errno 28] No space left" in messages()
    assert_same(states(tmp_path / "second"), states(tmp_path / "first"))


def test_corpus_that_cannot_be_read_is_not_taken_for_an_index_that_cannot_be_written(
    corpus: Path, tmp_path: Path, messages: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def failing(name: str, *_: Any) -> None:
        tries.append(name)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(survey, "_read", failing)
    with pytest.raises(OSError, match="Input/output error"):
        train(config_of(corpus), tmp_path / "run")
    assert tries == ["dev"]
    assert "is not kept" not in messages()


# --- several at once


def train_and_note(config: Config, run: Path, surveys: Path) -> None:
    """Train, and note the sets of which all features are read."""
    read = survey._read

    def reading(name: str, *more: Any) -> Any:
        with surveys.open("a") as file:
            file.write(f"{name}\n")
        return read(name, *more)

    survey._read = reading
    train(config, run)


def test_of_trainings_that_start_together_one_makes_the_index(corpus: Path, tmp_path: Path) -> None:
    """Each is a process: threads share more, such as random numbers and modules half imported."""
    runs, surveys = [tmp_path / str(number) for number in range(3)], tmp_path / "surveys"
    config = config_of(corpus, "train.epochs=1")
    processes = [FORKED.Process(target=train_and_note, args=(config, r, surveys)) for r in runs]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert surveys.read_text().split() == ["dev", "train"]
    assert all((run / "best.pt").exists() for run in runs)
    assert index_alignments(corpus / "exp/ali", Index(tmp_path / "index")).lengths
