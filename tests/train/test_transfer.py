"""Runs that begin with weights of others: what is taken, what is not, and what needs them later."""

import hashlib
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.start import train
from tests.support.small_corpus import write_corpus
from tests.support.training_runs import (
    BATCHES,
    Killed,
    assert_same,
    at_batch,
    config_of,
    kill,
    states,
)

OLD = ("model.layers=2", "train.epochs=1")
FROZEN = ("train.epochs=1", *(f"train.layers.{n}.frozen_epochs=all" for n in ("layer1", "layer2")))


@pytest.fixture(scope="module")
def old_run(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("old") / "run"
    train(config_of(small_corpus, *OLD, "seed=7"), run)
    return run


def init(*entries: Any) -> str:
    return f"train.init_from={json.dumps(entries)}"


def weights(run: Path, prefix: str) -> dict[str, Tensor]:
    """What of a network's weights and statistics begins so."""
    model = checkpoint.read(run / "best.pt")["model"]
    return {k.removeprefix(prefix): v for k, v in model.items() if k.startswith(prefix)}


def are_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def test_all_that_fits_is_taken_and_the_rest_is_said(
    old_run: Path, small_corpus: Path, tmp_path: Path, messages: Any
) -> None:
    settings = ("model.layers=3", "train.monophone_weight=0", *FROZEN)
    train(config_of(small_corpus, *settings, init({"run": str(old_run)})), tmp_path)
    for layer in ("layers.0.", "layers.1."):
        assert are_equal(weights(tmp_path, layer), weights(old_run, layer))
    said = messages()
    assert f"{old_run}/best.pt: taken: layer1, layer2, pdfs" in said
    assert f"{old_run}: not taken: layer3: not there" in said
    assert "train.init_from: begun at random: layer3" in said


def test_options_that_change_no_equation_may_differ(
    old_run: Path, small_corpus: Path, tmp_path: Path, messages: Any
) -> None:
    """The form and the dropped candidate are the defaults of li-bru, written out."""
    same = ("model.form=prob", "model.dropped_candidate=zero", "model.input_init=uniform")
    settings = ("model.layers=2", *same, *FROZEN, init({"run": str(old_run)}))
    train(config_of(small_corpus, *settings), tmp_path)
    for layer in ("layers.0.", "layers.1."):
        assert are_equal(weights(tmp_path, layer), weights(old_run, layer))
    assert "not taken" not in messages()


def test_layers_are_taken_by_name_and_a_head_may_be_another(
    old_run: Path, small_corpus: Path, tmp_path: Path, messages: Any
) -> None:
    entry = {"run": str(old_run), "layers": {"layer2": "layer2"}}
    train(config_of(small_corpus, "model.layers=2", *FROZEN, init(entry)), tmp_path / "a")
    assert are_equal(weights(tmp_path / "a", "layers.1."), weights(old_run, "layers.1."))
    assert not are_equal(weights(tmp_path / "a", "layers.0."), weights(old_run, "layers.0."))
    moved = {"run": str(old_run), "layers": {"layer3": "layer2"}}
    freeze = "train.layers.layer3.frozen_epochs=all"
    train(config_of(small_corpus, "model.layers=3", freeze, init(moved)), tmp_path / "b")
    assert are_equal(weights(tmp_path / "b", "layers.2."), weights(old_run, "layers.1."))
    assert "taken: layer3 (layer2)" in messages()


def test_several_runs_give_what_others_have_not_given(
    old_run: Path, small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    first = {"run": str(small_run), "layers": {"layer1": "layer1"}}
    settings = ("model.layers=2", *FROZEN, init(first, {"run": str(old_run)}))
    train(config_of(small_corpus, *settings), tmp_path)
    assert are_equal(weights(tmp_path, "layers.0."), weights(small_run, "layers.0."))
    assert are_equal(weights(tmp_path, "layers.1."), weights(old_run, "layers.1."))


def test_statistics_of_the_features_are_those_of_the_data_or_of_the_run(
    old_run: Path, tmp_path: Path
) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    shutil.rmtree(corpus / "data/train")
    shutil.copytree(corpus / "data/dev", corpus / "data/train")
    shutil.rmtree(corpus / "exp/ali")
    shutil.copytree(corpus / "exp/ali_dev", corpus / "exp/ali")
    means = {}
    for kept in ("data", "run"):
        entry = {"run": str(old_run), "normalisation": kept}
        train(config_of(corpus, "model.layers=2", "train.epochs=1", init(entry)), tmp_path / kept)
        means[kept] = checkpoint.read(tmp_path / kept / "best.pt")["front_ends"]["features"]["mean"]
    old = checkpoint.read(old_run / "best.pt")["front_ends"]["features"]["mean"]
    assert torch.equal(means["run"], old)
    assert not torch.equal(means["data"], old)


def test_statistics_of_features_that_were_prepared_otherwise_are_refused(
    small_corpus: Path, tmp_path: Path
) -> None:
    once = ("model.layers=1", "train.epochs=1")
    train(config_of(small_corpus, *once, "features.deltas=2"), tmp_path / "old")
    entry = {"run": str(tmp_path / "old"), "normalisation": "run"}
    spliced = ("features.left_context=1", "features.right_context=1")  # as many values
    with pytest.raises(InputError, match=r"normalisation is that of .* with .* but here it has"):
        train(config_of(small_corpus, *once, *spliced, init(entry)), tmp_path / "new")


@pytest.mark.parametrize(
    ("scaling", "dropout", "warned"),
    [("pytorch-kaldi", 0.0, True), ("pytorch-kaldi", 0.5, False), ("inverted", 0.0, False)],
)
def test_another_scale_of_dropout_is_said(
    scaling: str, dropout: float, warned: bool, small_corpus: Path, tmp_path: Path, messages: Any
) -> None:
    once = ("model.layers=1", "train.epochs=1", f"model.dropout_scaling={scaling}")
    train(config_of(small_corpus, *once, "model.dropout=0.5"), tmp_path / "old")
    entry = init({"run": str(tmp_path / "old")})
    train(config_of(small_corpus, *once, f"model.dropout={dropout}", entry), tmp_path / "new")
    assert ("its values were multiplied by 0.5, which is 1 here" in "".join(messages())) == warned


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, BATCHES + 2])
def test_it_is_resumed_bit_for_bit_without_the_other_run(
    batch: int, old_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(old_run, tmp_path / "old")
    entry = {"run": str(copy), "normalisation": "run"}
    config = config_of(small_corpus, "model.layers=2", init(entry), "train.save_minutes=0")
    train(config, tmp_path / "whole")
    with at_batch(batch, kill), suppress(Killed):
        train(config, tmp_path / "killed")
    digest = hashlib.sha256((copy / "best.pt").read_bytes()).hexdigest()
    shutil.rmtree(copy)
    train(config, tmp_path / "killed")
    assert_same(states(tmp_path / "killed"), states(tmp_path / "whole"))
    for run in ("whole", "killed"):
        found = json.loads((tmp_path / run / "env.json").read_text())["begun_from"]
        assert found == {str(copy / "best.pt"): digest}
        assert checkpoint.read(tmp_path / run / "last.pt")["begun_from"] == found


@pytest.mark.parametrize(
    ("settings", "entries", "message"),
    [
        ([], [{"run": "RUN", "layers": {"layer9": "layer1"}}], "init_from names layer9; layers"),
        ([], [{"run": "RUN", "layers": {"layer1": "layr1"}}], r"RUN names layr1; .*mean layer1\?"),
        (
            ["model.units=9"],
            [{"run": "RUN", "layers": {"layer1": "layer1"}}],
            r"layer1 of RUN does not fit layer1: it has V of size \[2, 8, 16\], this one has V of"
            r" size \[2, 9, 18\]",
        ),
        (
            ["model.units=9"],
            [{"run": "RUN"}],
            r"nothing of RUN fits: layer1: it has V .*; pdfs: it has weight of size \[6, 16\]",
        ),
        (
            [],
            [{"run": "RUN", "layers": {"layer1": "layer1"}}] * 2,
            "takes layer1 from RUN and from RUN; leave one",
        ),
        (
            ["features.deltas=1"],
            [{"run": "RUN", "layers": {"pdfs": "pdfs"}, "normalisation": "run"}],
            "for the stream features of 10 values, but that has 5 values; use normalisation: data",
        ),
        ([], [{"run": "nowhere"}], "nowhere: not a run directory"),
        ([], [{"runs": "RUN"}], r"there is no key train.init_from.1.runs; known: run, .* mean run"),
        ([], [{"layers": {}}], r"train.init_from.1.run has no value"),
        ([], [{"run": "RUN"}, {"run": "RUN"}], r"of RUN fits: layer1: taken from RUN; pdfs:"),
        ([], "RUN", r"train.init_from is a list of sections with run, layers, normalisation"),
    ],
)
def test_what_cannot_be_taken_is_refused(
    settings: list[str],
    entries: Any,
    message: str,
    old_run: Path,
    small_corpus: Path,
    tmp_path: Path,
) -> None:
    text = f"train.init_from={json.dumps(entries)}".replace("RUN", str(old_run))
    with pytest.raises(InputError, match=message.replace("RUN", str(old_run))):
        train(config_of(small_corpus, *settings, text), tmp_path / "new")


def test_another_unit_of_the_same_size_is_not_taken_unasked(
    small_corpus: Path, tmp_path: Path, messages: Any
) -> None:
    train(config_of(small_corpus, "model.unit=li-gru", "train.epochs=1"), tmp_path / "old")
    settings = ("train.epochs=1", "train.layers.layer1.frozen_epochs=all")
    old = str(tmp_path / "old")
    train(config_of(small_corpus, *settings, init({"run": old})), tmp_path / "fits")
    said = "unit is li-gru there and li-bru here"
    assert f"{old}: not taken: layer1: {said}" in messages()
    assert not are_equal(weights(tmp_path / "fits", "layers.0."), weights(Path(old), "layers.0."))
    named = {"run": old, "layers": {"layer1": "layer1"}}
    train(config_of(small_corpus, *settings, init(named)), tmp_path / "named")
    assert f"{old}: layer1 as layer1: {said}" in messages()
    assert are_equal(weights(tmp_path / "named", "layers.0."), weights(Path(old), "layers.0."))
