"""Training on several sets at once, against training on the directory that Kaldi would merge."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.data.corpus.directories import data_dir
from bayes_asr.data.corpus.fingerprints import check_same
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.sets import open_sets
from bayes_asr.data.directories import locate_all
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.train.start import train
from tests.support.small_corpus import made_up, write_alignments, write_corpus, write_data_dir
from tests.support.training_runs import assert_same, config_of, states

FEATURES, ALIGNED = made_up("train", 12)
FEATURES_OF_BOTH = "data.train.features_all_of=[data/a, data/b]"
ALIGNMENTS_OF_BOTH = "data.train.alignments_all_of=[exp/a, exp/b]"
TOGETHER = (FEATURES_OF_BOTH, ALIGNMENTS_OF_BOTH)
MERGED = ("data.train.features=data/merged", "data.train.alignments=exp/merged")


def in_order(
    table: Mapping[str, np.ndarray], which: Callable[[str], bool]
) -> dict[str, np.ndarray]:
    return {utt: table[utt] for utt in sorted(table) if which(utt)}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The training set as a whole, in data/merged, and its speakers by turns in data/{a,b}."""
    root = write_corpus(tmp_path / "corpus")
    for name, which in (
        ("merged", lambda utt: True),
        ("a", lambda utt: utt.startswith(("train0", "train2"))),
        ("b", lambda utt: utt.startswith(("train1", "train3"))),
    ):
        write_data_dir(root / "data" / name, in_order(FEATURES, which))
        write_alignments(root / "exp" / name, in_order(ALIGNED, which).items())
    return root


@pytest.mark.slow
@pytest.mark.parametrize("dev", ["exp/ali_dev", "[]"], ids=["dev", "held out"])
@pytest.mark.parametrize("cmvn", ["none", "mean-variance"])
def test_several_sets_train_as_the_merged_one_does(
    cmvn: str, dev: str, corpus: Path, tmp_path: Path
) -> None:
    more = (f"features.cmvn={cmvn}", f"data.dev.alignments={dev}", "data.held_out=0.25")
    train(config_of(corpus, *MERGED, *more), tmp_path / "merged")
    for name in ("made", "found"):  # its index
        train(config_of(corpus, *TOGETHER, *more), tmp_path / name)
        assert_same(states(tmp_path / name), states(tmp_path / "merged"))
    train(load([tmp_path / "found/config.yaml"]), tmp_path / "recorded")
    assert_same(states(tmp_path / "recorded"), states(tmp_path / "merged"))


@pytest.mark.parametrize("cmvn", [True, False], ids=["cmvn.scp", "own utterances"])
def test_speakers_of_several_sets_have_the_statistics_of_the_merged_one(
    cmvn: bool, corpus: Path, tmp_path: Path
) -> None:
    """Without cmvn.scp they are of the utterances of a speaker in both."""
    half = ("train0-0", "train1-4", "train2-7")
    for name, which in (("a", half.__contains__), ("b", lambda utt: utt not in half)):
        write_data_dir(corpus / "data" / name, in_order(FEATURES, which), cmvn=False)
    if cmvn:
        write_data_dir(corpus / "data/a", in_order(FEATURES, lambda u: u < "train2"), cmvn=True)
        write_data_dir(corpus / "data/b", in_order(FEATURES, lambda u: u > "train2"), cmvn=True)
    else:
        for name in ("ark", "scp"):
            for folder in ("a", "b", "merged"):
                (corpus / f"data/{folder}/cmvn.{name}").unlink()
    opened = [
        open_sets(config_of(corpus, *where, "features.cmvn=mean-variance"))[0]
        for where in ((FEATURES_OF_BOTH, "data.train.alignments=exp/merged"), MERGED)
    ]
    together, merged = opened
    assert list(together.lengths.items()) == list(merged.lengths.items())
    for utt in merged.lengths:
        for name, matrix in merged.prepare(utt).items():
            np.testing.assert_array_equal(together.prepare(utt)[name], matrix)


@pytest.mark.parametrize(
    "where",
    [
        (FEATURES_OF_BOTH, "data.train.alignments=exp/merged"),
        ("data.train.features=data/merged", ALIGNMENTS_OF_BOTH),
    ],
)
@pytest.mark.parametrize("indexed", [True, False])
def test_features_and_alignments_may_be_divided_otherwise(
    where: tuple[str, ...], indexed: bool, corpus: Path, tmp_path: Path
) -> None:
    index = Index(tmp_path / "index") if indexed else None
    found, _ = open_sets(config_of(corpus, *where), None, index)
    assert list(found.lengths.items()) == [(utt, len(ALIGNED[utt])) for utt in sorted(ALIGNED)]
    for utt, frames in FEATURES.items():
        np.testing.assert_array_equal(found.read(utt, "features"), frames)
        np.testing.assert_array_equal(
            found.targets["pdfs"].labels(utt), found.first_labels.model.pdf[ALIGNED[utt]]
        )


def test_run_refuses_to_go_on_when_the_second_set_has_changed(corpus: Path, tmp_path: Path) -> None:
    config = config_of(corpus, *TOGETHER)
    train(replace(config, train=replace(config.train, epochs=1)), tmp_path / "run")
    table = corpus / "data/b/utt2spk"
    table.write_text(table.read_text().replace(" train3\n", " train1\n"))
    with pytest.raises(InputError, match=r"data/b/utt2spk: has changed since this run was started"):
        train(config, tmp_path / "run")


def same_utterance(root: Path) -> None:
    write_data_dir(root / "data/b", {"train0-1": FEATURES["train0-1"]})


def aligned_twice(root: Path) -> None:
    write_alignments(root / "exp/b", [("train2-6", ALIGNED["train2-6"])])


def same_speaker(root: Path) -> None:
    write_data_dir(root / "data/b", {"train0-99": FEATURES["train0-1"]})


def without_statistics(root: Path) -> None:
    (root / "data/b/cmvn.scp").unlink()


def other_model(root: Path) -> None:
    write_alignments(root / "exp/b", [("train1-3", np.ones(9, np.int32))])
    write_transition_model(build_monophone_model((2, 3), 2), root / "exp/b/final.mdl")


def without_a_directory(root: Path) -> None:
    (root / "data/b").rename(root / "data/c")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (same_utterance, r"data/b/feats.scp: train0-1 has features in .*data/a/feats.scp too; ren"),
        (aligned_twice, r"exp/b: train2-6 has labels in .*exp/a too; rename it in one of them"),
        (same_speaker, r"data/b/cmvn.scp: train0 has statistics in .*data/a/cmvn.scp too"),
        (without_statistics, r"data/b/cmvn.scp: is missing, but .*data/a has one; compute"),
        (other_model, r"exp/b/final.mdl \(4 pdfs\) has other transitions than .*exp/a/final.mdl"),
        (without_a_directory, r"train features: none of these exists: .*data/b; set data.dir"),
    ],
)
@pytest.mark.parametrize("indexed", [True, False])
def test_sets_that_do_not_go_together_are_refused_by_name(
    change: Callable[[Path], None], message: str, indexed: bool, corpus: Path, tmp_path: Path
) -> None:
    change(corpus)
    index = Index(tmp_path / "index") if indexed else None
    with pytest.raises(InputError, match=message):
        open_sets(config_of(corpus, *TOGETHER, "features.cmvn=mean"), None, index)


def test_tables_of_several_sets_are_read_as_one(corpus: Path) -> None:
    data = data_dir(config_of(corpus, *TOGETHER), "train")
    assert list(data.utt2spk) == list(data.feats or {}) == list(data.text or {}) == sorted(FEATURES)
    with (corpus / "data/b/utt2spk").open("a") as file:
        file.write("train0-1 train0\n")
    with pytest.raises(InputError, match=r"b/utt2spk: train0-1 is an utterance in .*a/utt2spk too"):
        _ = data_dir(config_of(corpus, *TOGETHER), "train").utt2spk


# --- which is meant


def test_alternatives_that_are_passed_over_are_said_with_the_key_for_several(
    corpus: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayes_asr.data.corpus.sets.LOGGER.propagate", True)
    caplog.set_level("INFO", "bayes_asr")
    train_set, _ = open_sets(
        config_of(corpus, "data.train.features=[absent, data/b, data/a]", MERGED[1])
    )
    assert sorted(train_set.lengths) == [u for u in sorted(FEATURES) if u[5] in "13"]
    assert re.search(
        r"train features: .*data/b, the first that exists; not used: .*data/a"
        r" \(data.train.features_all_of takes several together\)",
        caplog.text,
    )


def test_another_form_of_the_set_is_not_said_to_be_passed_over(
    corpus: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayes_asr.data.corpus.sets.LOGGER.propagate", True)
    caplog.set_level("INFO", "bayes_asr")
    (corpus / "data-fmllr").symlink_to("data")
    data = config_of(corpus, "data.train.features=[data-fmllr/a, data/a]").data
    assert locate_all(data, "train", "features") == [corpus / "data-fmllr/a"]
    assert "train features: " in caplog.text
    assert "not used" not in caplog.text


@pytest.mark.parametrize(
    ("script", "remedy"),
    [
        ("run.sh", r"{}/egs/s5 looks like the experiment: name it by --kaldi-dir$"),
        ("", r"{}/egs/s5 looks like the experiment: name it by data.dir$"),
    ],
)
def test_parent_of_an_experiment_is_told_from_it(
    script: str, remedy: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "egs").mkdir()
    corpus.rename(tmp_path / "egs" / "s5")
    monkeypatch.setenv("BAYES_ASR_STAGE_OF", script)
    data = config_of(tmp_path, "data.train.features=[absent, data/a]").data
    with pytest.raises(InputError, match=remedy.format(tmp_path)):
        locate_all(data, "train", "features")


@pytest.mark.parametrize(
    ("script", "remedy"),
    [("run.sh", r"start over with run\.sh --force --stage 3"), ("", "start over with --new")],
)
def test_a_training_starts_over_by_an_option_of_the_script_that_runs_it(
    script: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAYES_ASR_STAGE_OF", script)
    with pytest.raises(InputError, match=f", {remedy}, "):
        check_same({"train/text": "1"}, {"train/text": "2"})


def test_recipe_script_has_its_own_words_for_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAYES_ASR_STAGE_OF", "run.sh")
    with pytest.raises(InputError, match="; stages 0 to 2 make them, or --kaldi-dir names the"):
        locate_all(config_of(tmp_path).data, "train", "features")


@pytest.mark.parametrize(
    ("settings", "alternatives", "together"),
    [
        ([], ["data/train"], []),
        (["features=[a, b]"], ["a", "b"], []),
        (["features_first_of=[a, b]"], ["a", "b"], []),
        (["features_all_of=[a, b]"], [], ["a", "b"]),
        (["features_all_of=[a, b]", "features=c"], ["c"], []),
        (["features=c", "features_all_of=[a, b]"], [], ["a", "b"]),
        (["features_first_of=c", "features_all_of=[a, b]", "features_first_of=d"], ["d"], []),
    ],
)
def test_what_is_said_last_holds(
    settings: list[str], alternatives: list[str], together: list[str]
) -> None:
    config = load([], [f"data.train.{setting}" for setting in settings]).data.train
    assert list(config.features) == alternatives
    assert list(config.features_all_of) == together


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("features: [a]\n    features_all_of: [b]", r"line 4: data.train.features_all_of takes"),
        ("features: [a]\n    features_first_of: [b]", r"line 4: features_first_of is another name"),
    ],
)
def test_both_in_one_file_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"data:\n  train:\n    {text}\n")
    with pytest.raises(InputError, match=message):
        load([path])
