"""Which data a training takes: candidate directories, held out speakers, what does not fit."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.data.corpus.sets import training_and_dev
from bayes_asr.data.features.fmllr_record import FmllrRecord, write_record
from bayes_asr.decode.forward.directory import StreamSource, forward
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.text import write_mapping
from bayes_asr.train.start import train
from tests.support.archives import one_line
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


MFCC = {"kind": "mfcc", "sample_rate": 16000, "bands": 23, "cepstra": 13, "dither": 0.0}


def write_analysis(data: Path, **changes: object) -> None:
    """Say that the features are MFCC of 16 kHz; None for a field that older versions lack."""
    fields = {key: value for key, value in {**MFCC, **changes}.items() if value is not None}
    (data / "frontend.json").write_text(json.dumps(fields))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"kind": "plp"}, "kind plp, but those of training mfcc"),
        ({"sample_rate": 8000}, "sample_rate 8000, but those of training 16000"),
        ({"bands": 40}, "bands 40, but those of training 23"),
    ],
)
def test_sound_that_is_analysed_otherwise_than_for_training_is_refused(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    """In dev, and where a trained network computes."""
    root = write_corpus(tmp_path)
    write_analysis(root / "data/train")
    train(config_of(root, "train.epochs=1"), tmp_path / "run")
    for name in ("dev", "test"):
        write_analysis(root / "data" / name, **change)
    with pytest.raises(InputError) as raised:
        training_and_dev(config_of(root))
    one_line(raised, f"{root}/data/dev/feats.scp", named, "extract all alike")
    with pytest.raises(InputError) as raised:
        forward(tmp_path / "run", tmp_path / "out", StreamSource(root / "data/test"))
    one_line(raised, f"{root}/data/test/feats.scp", named)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "warnings"), [({}, 0), ({"bands": None, "dither": None}, 0), ({"dither": 1.0}, 2)]
)
def test_another_dither_is_announced(
    change: dict[str, Any], warnings: int, tmp_path: Path, messages: Any
) -> None:
    """As older versions had none, whose runs go on."""
    root = write_corpus(tmp_path)
    write_analysis(root / "data/train")
    for name in ("dev", "test"):
        write_analysis(root / "data" / name, **change)
    train(config_of(root, "train.epochs=1"), tmp_path / "run")
    forward(tmp_path / "run", tmp_path / "out", StreamSource(root / "data/test"))
    assert messages().count("have the dither 1.0, but those of training 0.0") == warnings


def write_adapted(data: Path, **changes: object) -> None:
    """Say that fMLLR has adapted the features, which are else MFCC of 16 kHz."""
    write_record(FmllrRecord(data.parents[1] / "exp/tri3", {**MFCC, **changes}), data)


@pytest.mark.parametrize(
    ("write_other", "change", "named"),
    [
        (write_adapted, {"kind": "plp"}, "kind plp with fMLLR, but those of training mfcc with"),
        (write_analysis, {}, "kind mfcc, but those of training mfcc with fMLLR"),
        (write_adapted, {}, ""),
    ],
)
def test_joined_directories_of_training_are_analysed_alike(
    write_other: Callable[..., None], change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    """Also where speakers of theirs are held out, and one, as of Kaldi, has no record."""
    root = write_corpus(tmp_path)
    write_adapted(root / "data/train")
    write_other(root / "data/dev", **change)
    joined = ",".join(str(root / "data" / name) for name in ("test", "train", "dev"))
    config = config_of(
        root,
        f"data.train.features_all_of=[{joined}]",
        f"data.train.alignments_all_of=[{root}/exp/ali,{root}/exp/ali_dev]",
        "data.dev.alignments=[exp/none]",
        "data.max_skipped=1",
    )
    if not named:
        training_and_dev(config)
        return
    with pytest.raises(InputError) as raised:
        training_and_dev(config)
    one_line(raised, f"{root}/data/dev/feats.scp", named)


@pytest.mark.parametrize(("adapted", "other"), [("train", "dev"), ("dev", "train")])
def test_features_that_fmllr_adapts_are_not_those_of_sound(
    adapted: str, other: str, tmp_path: Path
) -> None:
    """Of 40 values each, they fit each other by their width."""
    root = write_corpus(tmp_path)
    write_adapted(root / "data" / adapted)
    write_analysis(root / "data" / other)
    with pytest.raises(InputError, match="mfcc with fMLLR"):
        training_and_dev(config_of(root))
    write_adapted(root / "data" / other)
    (root / "data" / other / "frontend.json").unlink()
    training_and_dev(config_of(root))


@pytest.mark.parametrize(
    ("write_other", "change", "named"),
    [
        (write_analysis, {}, "kind mfcc, but those of training mfcc with fMLLR"),
        (write_adapted, {"kind": "plp"}, "kind plp with fMLLR, but those of training mfcc with"),
        (write_adapted, {"sample_rate": 8000}, "sample_rate 8000, but those of training 16000"),
    ],
)
def test_forward_refuses_other_features_than_those_that_fmllr_adapted(
    write_other: Callable[..., None], change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    """The network does not know of them, but the record of its run, with one stream or several."""
    root = write_corpus(tmp_path)
    write_adapted(root / "data/train")
    run, out, source = tmp_path / "run", tmp_path / "out", StreamSource(root / "data/test")
    train(config_of(root, "train.epochs=1"), run)
    forward(run, out, source)  # of Kaldi, without a record
    write_adapted(root / "data/test")
    forward(run, out, source)
    (root / "data/test/fmllr.json").unlink()
    write_other(root / "data/test", **change)
    with pytest.raises(InputError) as raised:
        forward(run, out, source)
    one_line(raised, f"{root}/data/test/feats.scp", named)
    environment = json.loads((run / "env.json").read_text())
    several = {"frontends": {"features": environment["frontend"], "ivectors": None}}
    (run / "env.json").write_text(json.dumps({**environment, **several}))
    with pytest.raises(InputError, match=named):
        forward(run, out, source)
    (run / "env.json").unlink()
    forward(run, out, source)
