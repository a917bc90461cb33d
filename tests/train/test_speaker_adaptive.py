"""Training with activations of each speaker: steps, checkpoints, going on, applying, refusals."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import kaldiio
import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.data.corpus.sets import open_set
from bayes_asr.decode.forward.log_likelihoods import load
from bayes_asr.kaldi_io.text import write_mapping
from bayes_asr.nn.network import build_network
from bayes_asr.tasks.lattices.regeneration import find_initial_lattices
from bayes_asr.train.loader import Loader
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.trained_network import read_network
from bayes_asr.train.start import train
from tests.support.training_runs import (
    OPTIONS,
    Killed,
    assert_same,
    at_batch,
    config_of,
    kill,
    states,
)

ADAPTIVE = (
    "model.unit=mlp",
    "model.activation=p-sigmoid",
    "model.norm=none",
    "train.speaker_adaptive=true",
)
BY_HAND = (
    *ADAPTIVE,
    "model.dropout=0",
    "train.epochs=1",
    "train.batch_sequences=100",
    "train.monophone_weight=0",
    "train.optimizer=sgd",
    "train.max_gradient_norm=1e6",
)
RATE = 0.02  # of support.small_corpus.TINY
SPEAKERS = [f"train{number}" for number in range(4)]


def learnt(run: Path) -> dict[str, Any]:
    """What `states` has, and what each speaker has."""
    own = {
        f"{name} {speaker} {key}": value
        for name in ("best.pt", "last.pt")
        for speaker, values in checkpoint.read(run / name)["speakers"].items()
        for key, value in values.items()
    }
    return states(run) | own


@pytest.fixture(scope="module")
def run(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("adaptive") / "run"
    train(config_of(small_corpus, *OPTIONS, *ADAPTIVE), path)
    return path


def test_a_step_by_hand(small_corpus: Path, tmp_path: Path) -> None:
    """All utterances are one batch: a speaker's step is down the loss of his own frames."""
    config = config_of(small_corpus, *BY_HAND)
    train(config, tmp_path)
    network, data = read_network(tmp_path), open_set(config, "train")
    torch.manual_seed(config.seed)
    begun = build_network(network.model.architecture)
    parameters = begun.activation_parameters
    load = Loader(data, network.front_ends, ["pdfs"], seed=0, epoch=1)
    assert sorted(network.speakers) == SPEAKERS
    for speaker, values in network.speakers.items():
        batch = load([utt for utt in data.lengths if data.features.speakers[utt] == speaker])
        logits = begun(batch.streams, batch.frames)["pdfs"]
        loss = torch.nn.functional.cross_entropy(logits, batch.targets["pdfs"], reduction="sum")
        gradients = torch.autograd.grad(
            loss / sum(data.lengths.values()), list(parameters.values())
        )
        for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
            expected = parameter.detach() - RATE * gradient
            assert (values[name] - parameter.detach()).abs().max() > 1e-5
            torch.testing.assert_close(values[name], expected, rtol=0, atol=1e-7)


def test_the_network_itself_has_the_mean(run: Path) -> None:
    network = read_network(run)
    for name, parameter in network.model.activation_parameters.items():
        own = torch.stack([values[name] for values in network.speakers.values()])
        assert own.std(0).max() > 1e-3
        torch.testing.assert_close(parameter.detach(), own.mean(0))


def test_one_speaker_alone_learns_as_a_plain_network(small_corpus: Path, tmp_path: Path) -> None:
    corpus = shutil.copytree(small_corpus, tmp_path / "corpus")
    table = corpus / "data/train/utt2spk"
    write_mapping([(line.split()[0], "one") for line in table.read_text().splitlines()], table)
    write = ("features.cmvn=none", "data.max_skipped=0")
    train(config_of(corpus, *ADAPTIVE, *write), tmp_path / "one")
    plain = (*ADAPTIVE, *write, "train.speaker_adaptive=false")
    train(config_of(corpus, *plain), tmp_path / "plain")
    found, expected = (checkpoint.read(tmp_path / name / "best.pt") for name in ("one", "plain"))
    for key, value in expected["model"].items():
        torch.testing.assert_close(found["model"][key], value, rtol=0, atol=1e-5)
    assert list(found["speakers"]) == ["one"]
    assert "speakers" not in expected


@pytest.mark.parametrize("batch", [2, 7])
def test_killed_and_resumed_is_bit_for_bit_the_run_that_was_not(
    batch: int, run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    config = config_of(small_corpus, *OPTIONS, *ADAPTIVE, "train.save_minutes=0")
    with at_batch(batch, kill), suppress(Killed):
        train(config, tmp_path)
    torch.manual_seed(batch)
    train(config, tmp_path)
    assert_same(learnt(tmp_path), learnt(run))


def test_forward_computes_training_speakers_by_their_own_and_others_by_the_mean(
    run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    network = read_network(run)
    for part in ("train", "dev"):
        assert main(["forward", str(run), "--on", part, "--out", str(tmp_path / part)]) == 0
        data = open_set(config_of(small_corpus, *ADAPTIVE), part)
        for utt, matrix in kaldiio.load_scp(str(tmp_path / part / "loglikes.scp")).items():
            alone = load(run)
            if part == "train":
                alone.model.set_activations(network.speakers[data.features.speakers[utt]])
            expected = alone(data.read(utt, "features"))
            torch.testing.assert_close(torch.tensor(matrix), expected, rtol=0, atol=1e-5)


def test_new_speakers_are_adapted_from_the_mean(
    run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "adapted"
    ali = f"--ali=dev={small_corpus}/exp/ali_dev"
    assert main(["adapt", str(run), ali, "--steps=1", f"--out={out}"]) == 0
    before, after = read_network(run), read_network(out)
    assert set(after.speakers) > set(SPEAKERS)
    assert_same(
        {key: value for speaker in SPEAKERS for key, value in after.speakers[speaker].items()},
        {key: value for speaker in SPEAKERS for key, value in before.speakers[speaker].items()},
    )
    name, mean = next(iter(before.model.activation_parameters.items()))
    step = (after.speakers["dev0"][name] - mean).abs()
    assert 0 < step.max() <= 0.003 * 1.001  # the first step of Adam is as long as the rate


def test_pretraining_is_of_all_speakers_alike(small_corpus: Path, tmp_path: Path) -> None:
    grown = ("model.layers=2", "train.epochs=1", "train.pretrain.epochs=1")
    train(config_of(small_corpus, *ADAPTIVE, *grown), tmp_path)
    assert "speakers" not in checkpoint.read(tmp_path / "pretrain/1/best.pt")
    assert sorted(checkpoint.read(tmp_path / "best.pt")["speakers"]) == SPEAKERS


def test_recurrent_units_learn_so_too(small_corpus: Path, tmp_path: Path) -> None:
    train(
        config_of(small_corpus, *ADAPTIVE, "model.unit=li-gru", "model.activation=p-relu"), tmp_path
    )
    losses = [float(states(tmp_path)[f"{epoch} train_loss"]) for epoch in (1, 2)]
    assert losses[1] < losses[0]
    own = checkpoint.read(tmp_path / "best.pt")["speakers"]
    assert not torch.equal(*(next(iter(own[speaker].values())) for speaker in SPEAKERS[:2]))


def test_activations_without_parameters_are_refused(small_corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"train\.speaker_adaptive: .* have no parameters that a"):
        train(config_of(small_corpus, "train.speaker_adaptive=true"), tmp_path)


def test_lattices_of_each_epoch_could_bring_speakers(small_corpus: Path) -> None:
    with pytest.raises(InputError, match="may bring a speaker to whom"):
        find_initial_lattices(config_of(small_corpus, *ADAPTIVE))


def test_a_speaker_without_labels_is_named(
    small_corpus: Path, tmp_path: Path, messages: Any
) -> None:
    corpus = shutil.copytree(small_corpus, tmp_path / "corpus")
    table = corpus / "data/train/utt2spk"
    table.write_text(table.read_text() + "zz-1 zz\n")
    more = ("data.max_skipped=0.5", "train.epochs=1")
    train(config_of(corpus, *ADAPTIVE, *more), tmp_path / "run")
    assert "1 of 5 speakers have no utterance with labels" in messages()
    assert sorted(checkpoint.read(tmp_path / "run/best.pt")["speakers"]) == SPEAKERS


def test_a_run_of_other_speakers_does_not_go_on(small_corpus: Path, tmp_path: Path) -> None:
    corpus = shutil.copytree(small_corpus, tmp_path / "corpus")
    train(config_of(corpus, *ADAPTIVE), tmp_path / "run")
    table = corpus / "data/train/utt2spk"
    table.write_text(table.read_text().replace("train3\n", "other\n"))
    with pytest.raises(InputError, match="start over with --new"):
        train(
            config_of(corpus, *ADAPTIVE, "train.epochs=3", "features.cmvn=none"), tmp_path / "run"
        )
