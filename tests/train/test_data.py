"""Which data a training takes: candidate directories, held out speakers, what does not fit."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.data.corpus.sets import training_and_dev
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.text import write_mapping
from tests.support.small_corpus import (
    DIMENSIONS,
    made_up,
    write_alignments,
    write_corpus,
    write_data_dir,
)
from tests.support.training_runs import config_of


def test_dev_without_alignments_is_replaced_by_training_speakers(
    small_corpus: Path, messages: Any
) -> None:
    config = config_of(small_corpus, "data.dev.alignments=[]", "data.held_out=0.25")
    train_set, held = training_and_dev(config)
    speakers = [{utt.split("-")[0] for utt in data.lengths} for data in (train_set, held)]
    assert [len(found) for found in speakers] == [3, 1]
    assert not speakers[0] & speakers[1]
    assert train_set.lengths.keys() | held.lengths.keys() == set(train_set.features.utterances)
    (name,) = speakers[1]
    said = "dev has no alignment: 1 of 4 training speakers are held out to drive the learning rate:"
    assert f"{said} {name}" in messages()
    assert "WARNING" in messages()


@pytest.mark.parametrize("copy", ["sp0.9-", "sp1.1-sp0.9-"])
def test_held_out_speakers_are_held_out_at_all_speeds(copy: str, tmp_path: Path) -> None:
    """They are those that would be without other speeds."""
    root = write_corpus(tmp_path)
    settings = ("data.dev.alignments=[]", "data.held_out=0.25")
    _, alone = training_and_dev(config_of(root, *settings))
    features, alignments = made_up("train", 12)
    write_data_dir(root / "data/train", features | at_speed(copy, features), cmvn=False)
    speakers = {utt: utt.rpartition("-")[0] for utt in (*features, *at_speed(copy, features))}
    write_mapping(speakers.items(), root / "data/train/utt2spk")
    write_alignments(root / "exp/ali", (alignments | at_speed(copy, alignments)).items())
    remaining, held = training_and_dev(config_of(root, *settings))
    assert held.lengths == alone.lengths | at_speed(copy, alone.lengths)
    assert len(remaining.lengths) == 24 - len(held.lengths)


def at_speed(copy: str, table: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{copy}{utt}": value for utt, value in table.items()}


@pytest.mark.parametrize("share", ["0", "0.5"])
def test_speakers_that_cannot_be_held_out_are_an_error(share: str, tmp_path: Path) -> None:
    features, alignments = made_up("train", 3)  # of one speaker
    write_data_dir(tmp_path / "data" / "train", features)
    write_alignments(tmp_path / "exp" / "ali", alignments.items())
    with pytest.raises(InputError, match=r"of 1 training speakers data.held_out = .* cannot hold"):
        training_and_dev(config_of(tmp_path, f"data.held_out={share}"))


def test_the_first_candidate_directory_is_taken_and_said(tmp_path: Path, messages: Any) -> None:
    root = write_corpus(tmp_path)
    shutil.copytree(root / "data" / "train", root / "other")
    training_and_dev(config_of(root, "data.train.features=[absent, other, data/train]"))
    assert f"train features: {root / 'other'}" in messages()
    with pytest.raises(
        InputError, match=r"train features: none of these exists: .*/absent, .*/gone;"
    ):
        training_and_dev(config_of(root, "data.train.features=[absent, gone]"))


def test_unexpected_dimensions_are_announced(small_corpus: Path, messages: Any) -> None:
    training_and_dev(config_of(small_corpus, f"data.expected_dims=[{DIMENSIONS}]"))
    assert "dimensions" not in messages()
    training_and_dev(config_of(small_corpus, "data.expected_dims=[40, 50]"))
    assert f"features have {DIMENSIONS} dimensions" in messages()
    assert "not 40 or 50 as this recipe expects" in messages()


def test_dev_aligned_by_another_model_is_refused(tmp_path: Path) -> None:
    root = write_corpus(tmp_path)
    # The same number of pdfs, but of other phones.
    write_transition_model(
        build_monophone_model((2, 3, 8), 2), root / "exp" / "ali_dev" / "final.mdl"
    )
    with pytest.raises(
        InputError, match=r"ali_dev/final.mdl \(6 pdfs\) has other transitions than"
    ):
        training_and_dev(config_of(root))


def test_dev_features_of_another_size_are_refused(tmp_path: Path) -> None:
    root = write_corpus(tmp_path)
    features, _ = made_up("dev", 4)
    write_data_dir(root / "data" / "dev", {utt: x[:, 1:] for utt, x in features.items()})
    with pytest.raises(InputError, match=r"has 4 dimensions, but the training features have 5"):
        training_and_dev(config_of(root))
