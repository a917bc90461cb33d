"""Runs that are trained on whole utterances, of made-up corpora."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.decode.lattices.aligned import align_lattice
from bayes_asr.decode.lattices.reference import check_succession
from bayes_asr.kaldi_io.lattice import select_states
from bayes_asr.kaldi_io.lattice_files import iter_lattices, write_lattices
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.train.runs.trained_network import read_network
from bayes_asr.train.start import train
from tests.support.chain_corpus import chain_config, write_chain_corpus
from tests.support.small_lattices import make_lattice, write_denlats
from tests.support.training_runs import (
    BATCHES,
    Killed,
    assert_same,
    at_batch,
    config_of,
    history_of,
    kill,
    states,
)

NO_PATH = select_states(
    make_lattice(np.ones(3, np.int32), np.random.default_rng(0)), np.empty(0, np.int64)
)


@pytest.fixture(scope="module")
def lattices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of train and dev in one folder."""
    return write_denlats(tmp_path_factory.mktemp("denlats"), "train", "dev")


def sequence_config(root: Path, lattices: Path, *more: str) -> Config:
    wanted = [f"data.train.lattices=[{lattices}]", "train.sequence.silence_phones=[2]"]
    return config_of(root, "train.criterion=smbr", *wanted, "train.noise=0.2", *more)


@pytest.fixture(scope="module")
def configure(
    small_corpus: Path, lattices: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Config]:
    """Configurations by criterion, with further settings."""
    chain = write_chain_corpus(tmp_path_factory.mktemp("chain"))

    def make(criterion: str, *more: str) -> Config:
        if criterion == "lfmmi":
            return chain_config(chain, "train.noise=0.2", *more)
        return sequence_config(small_corpus, lattices, *more)

    return make


@pytest.fixture(scope="module")
def undisturbed(
    configure: Callable[..., Config], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, Any]]:
    """What a run learns that nobody kills, by criterion."""

    @cache
    def learn(criterion: str) -> dict[str, Any]:
        run = tmp_path_factory.mktemp(criterion)
        train(configure(criterion), run)
        return states(run)

    return learn


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["mmi", "bmmi", "mpe", "smbr"])
def test_a_run_goes_on_by_the_command_line(
    criterion: str, small_run: Path, lattices: Path, tmp_path: Path
) -> None:
    run = tmp_path / criterion
    settings = [
        f"data.train.lattices=[{lattices}]",
        "train.sequence.silence_phones=[2]",
        "train.sequence.xent_regularize=0.1",
        "train.epochs=2",
        "train.learning_rate=0.01",
    ]
    words = ["train", str(small_run), f"--criterion={criterion}", f"--out={run}"]
    assert main([*words, *(f"--set={one}" for one in settings)]) == 0
    history = history_of(run)
    assert history[1]["train_loss"] < history[0]["train_loss"]
    assert {"dev_loss", "dev_error"} <= history[1].keys()
    before, after = read_network(small_run), read_network(run)
    assert torch.equal(before.log_priors, after.log_priors)
    for name, front_end in before.front_ends.items():
        kept = after.front_ends[name].normalisation
        assert np.array_equal(front_end.normalisation.mean, kept.mean)
    recorded = load([run / "config.yaml"]).train
    assert recorded.sequence.acoustic_scale == load([]).decode.acoustic_scale
    assert recorded.epochs == 2


def test_the_control_goes_on_with_cross_entropy(small_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "control"
    words = ["train", str(small_run), "--criterion=cross-entropy", f"--out={run}"]
    assert main([*words, "--set=train.epochs=1"]) == 0
    assert history_of(run)[0]["train_loss"] < history_of(small_run)[0]["train_loss"]


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["smbr", "lfmmi"])
def test_the_best_epoch_has_the_lowest_loss(
    criterion: str, configure: Callable[..., Config], tmp_path: Path
) -> None:
    more = ("train.epochs=5", "train.learning_rate=0.1", "train.schedule=linear")
    train(configure(criterion, *more), tmp_path / "all")
    best = int(np.argmin([entry["dev_loss"] for entry in history_of(tmp_path / "all")]))
    few = (f"train.epochs={best + 1}", "train.schedule=list")
    rates = [entry["learning_rate"] for entry in history_of(tmp_path / "all")]
    listed = ", ".join(f"{number}: {rate}" for number, rate in enumerate(rates, start=1))
    rates_of = f"train.learning_rates={{{listed}}}"
    train(configure(criterion, *few, rates_of), tmp_path / "few")
    wanted, found = (read_network(tmp_path / name).model.state_dict() for name in ("few", "all"))
    assert all(torch.equal(value, found[name]) for name, value in wanted.items())


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["smbr", "lfmmi"])
@pytest.mark.parametrize("batch", [1, 2, BATCHES + 1, BATCHES + 3])
def test_killed_run_is_bit_for_bit_the_run_that_was_not(
    batch: int,
    criterion: str,
    configure: Callable[..., Config],
    undisturbed: Callable[[str], dict[str, Any]],
    tmp_path: Path,
) -> None:
    config = configure(criterion, f"train.save_minutes={10 * (batch % 2)}")
    with at_batch(batch, kill), suppress(Killed):
        train(config, tmp_path)
    torch.manual_seed(batch)
    train(config, tmp_path)
    assert_same(states(tmp_path), undisturbed(criterion))


def test_lattices_that_have_changed_are_refused(small_corpus: Path, tmp_path: Path) -> None:
    folder = write_denlats(tmp_path / "denlats", "train", "dev")
    train(sequence_config(small_corpus, folder, "train.epochs=1"), tmp_path / "run")
    rng = np.random.default_rng(9)
    write_lattices([("train0-0", make_lattice(np.ones(9, np.int32), rng))], folder / "lat.2.gz")
    more = ("train.epochs=2", "data.max_skipped=1")
    with pytest.raises(InputError, match="train0-0 has a second lattice; keep one of them"):
        train(sequence_config(small_corpus, folder, *more), tmp_path / "run")
    (folder / "lat.2.gz").unlink()
    write_denlats(folder, "train", "dev", without="train0-0")
    with pytest.raises(InputError, match=r"denlats: has changed since this run was started"):
        train(sequence_config(small_corpus, folder, *more), tmp_path / "run")


def test_utterances_without_lattice_are_named(
    small_corpus: Path, tmp_path: Path, messages: Callable[[], str]
) -> None:
    folder = write_denlats(tmp_path / "denlats", "train", without="train0-1")
    write_lattices([("train0-1", NO_PATH)], folder / "lat.2.gz")
    more = (f"data.dev.lattices=[{write_denlats(tmp_path / 'dev', 'dev')}]", "train.epochs=1")
    with pytest.raises(InputError, match=r"train: no lattice in .* for 1 of 12 utt.*: train0-1;"):
        train(sequence_config(small_corpus, folder, *more), tmp_path / "refused")
    train(sequence_config(small_corpus, folder, *more, "data.max_skipped=0.1"), tmp_path / "run")
    assert "for 1 of 12 utterances: train0-1; they are skipped" in messages()
    assert "lat.2.gz: the lattice of train0-1 has no path" in messages()


def refused(small_corpus: Path, folder: Path, run: Path, *more: str) -> str:
    with pytest.raises(InputError) as caught:
        train(sequence_config(small_corpus, folder, *more), run)
    return str(caught.value)


def test_what_does_not_fit_is_refused(small_corpus: Path, lattices: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert f"{empty}: there is no lat.*.gz; make" in refused(small_corpus, empty, tmp_path / "a")
    for key in ("tempo=0.1", "max_frames=10"):
        said = refused(small_corpus, lattices, tmp_path / "b", f"train.{key}")
        assert f"train.{key.replace('=', ' is ')}, but the lattices of smbr are of utter" in said
    with pytest.raises(InputError, match=r"smbr, which wants data\.train\.lattices; make them"):
        config_of(small_corpus, "train.criterion=smbr")
    graph = tmp_path / "graph"
    graph.mkdir()
    more = ("train.sequence.silence_phones=null", f"data.graph=[{graph}]")
    said = refused(small_corpus, lattices, tmp_path / "c", *more)
    assert "silence.csl: is missing" in said
    assert "or set train.sequence.silence_phones to the numbers of these" in said
    said = refused(small_corpus, lattices, tmp_path / "d", "train.sequence.silence_phones=[99]")
    assert "train.sequence.silence_phones: silence phone 99, but the phones of the" in said


def test_mmi_asks_for_no_silence(small_corpus: Path, lattices: Path, tmp_path: Path) -> None:
    more = ("train.criterion=mmi", "train.sequence.silence_phones=null", "train.epochs=1")
    train(sequence_config(small_corpus, lattices, *more), tmp_path / "run")
    assert load([tmp_path / "run" / "config.yaml"]).train.sequence.silence_phones is None


@pytest.mark.parametrize("name", ["train", "dev"])
def test_sets_of_which_nothing_has_a_lattice_are_refused(
    name: str, small_corpus: Path, tmp_path: Path
) -> None:
    other = {"train": "dev", "dev": "train"}[name]
    folder = write_denlats(tmp_path / "denlats", other)
    said = refused(small_corpus, folder, tmp_path / "run", "data.max_skipped=1")
    assert f"{folder}: has no lattice of the " in said
    assert f"name the folder of its own lattices as data.{name}.lattices" in said


def test_outputs_that_nothing_has_trained_are_warned_of(
    small_corpus: Path, lattices: Path, tmp_path: Path, messages: Callable[[], str]
) -> None:
    train(sequence_config(small_corpus, lattices, "train.epochs=1"), tmp_path / "run")
    assert "smbr begins with outputs that nothing has trained" in messages()


def test_a_run_goes_on_with_the_options_of_its_decoding(
    small_corpus: Path, lattices: Path, tmp_path: Path
) -> None:
    configure = partial(sequence_config, small_corpus, lattices, "decode.acoustic_scale=0.1")
    train(configure("train.epochs=1", "train.schedule=newbob"), tmp_path / "run")
    more = ("decode.acoustic_scale=0.3", "train.epochs=2", "train.schedule=newbob")
    train(configure(*more), tmp_path / "run")
    assert load([tmp_path / "run" / "config.yaml"]).train.sequence.acoustic_scale == 0.1
    said = refused(
        small_corpus, lattices, tmp_path / "run", "train.sequence.acoustic_scale=0.3", *more
    )
    assert "train.sequence.acoustic_scale is 0.1 in this run, but 0.3 now" in said


@pytest.mark.slow
def test_a_run_stands_for_what_holds_at_its_end(small_corpus: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    by_epoch = ("train.batch_sequences={1: 2, 2: 3}", "train.pretrain.epochs=1", "model.layers=2")
    frozen = ("train.layers={layer1: {frozen_epochs: 1}, layer2: {frozen_epochs: all}}",)
    rates = ("train.schedule=list", "train.learning_rates={1: 0.1, 2: 0.05}", "train.epochs=2")
    train(config_of(small_corpus, *by_epoch, *frozen, *rates), old)
    later = tmp_path / "later.yaml"
    later.write_text("train: {epochs: 1, max_frames: 100}\n")
    assert main(["train", str(old), str(later), f"--out={new}"]) == 0
    found = load([new / "config.yaml"]).train
    assert (found.batch_sequences, found.learning_rates, found.pretrain.epochs) == (3, {}, 0)
    assert {name: layer.frozen_epochs for name, layer in found.layers.items()} == {
        "layer1": 0,
        "layer2": "all",
    }
    assert (found.epochs, found.max_frames, found.init_from[0].run) == (1, 100, str(old))
    before, after = (read_network(run).model.parts for run in (old, new))
    for name, trained in (("layer1", True), ("layer2", False)):
        same = [
            torch.equal(one, other)
            for one, other in zip(before[name].parameters(), after[name].parameters(), strict=True)
        ]
        assert all(same) != trained


@pytest.mark.parametrize("frames", [0, 7])
def test_lattices_of_other_frames_are_refused(
    frames: int, small_corpus: Path, tmp_path: Path
) -> None:
    folder = write_denlats(tmp_path / "denlats", "train", "dev", without="train0-0")
    rng = np.random.default_rng(1)
    other = make_lattice(np.ones(max(frames, 1), np.int32), rng)
    if not frames:
        other.ilabel[:] = 0
    write_lattices([("train0-0", other)], folder / "lat.2.gz")
    said = refused(small_corpus, folder, tmp_path / "run")
    wanted = "has 7 frames, but" if frames else "has no transition-ids, which say"
    assert f"train0-0: the lattice {wanted}" in said
    assert not (tmp_path / "run" / "last.pt").exists()


def test_lattices_of_another_model_are_refused(golden: Path, shared_data: Path) -> None:
    """Those of a Kaldi run follow the topology of its model, and not that of its monophones."""
    exp = shared_data / "kaldi" / "timit_sample" / "exp"
    right, wrong = (
        read_transition_model(exp / name / "final.mdl") for name in ("tri3_ali", "mono_ali")
    )
    for _, lattice in iter_lattices(golden / "sequence" / "timit_dev" / "lat.gz"):
        aligned = align_lattice(lattice, 1.0)
        check_succession(aligned, right)
        there = replace(aligned, tid=np.minimum(aligned.tid, wrong.num_transition_ids))
        with pytest.raises(InputError, match=r"has transition-id \d+ after \d+, which the model"):
            check_succession(there, wrong)
