"""Networks that write sequences: what they learn, how they resume, what is written and refused."""

import json
import math
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from bayes_asr.base.errors import InputError, StoppedError
from bayes_asr.base.processes import group
from bayes_asr.cli import main
from bayes_asr.config.epochs import between_epochs
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.sets import open_sets
from bayes_asr.data.targets.sequences import ENDS
from bayes_asr.decode.forward.generator import load_generator
from bayes_asr.decode.forward.network_record import describe_network
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.kaldi_io.text import read_mapping, read_text, write_text
from bayes_asr.nn.beam_search import search
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.tasks.task import task_of
from bayes_asr.train.loader import Loader
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.trained_network import read_network
from bayes_asr.train.start import train
from tests.support.places import RECIPES
from tests.support.processes import together
from tests.support.small_corpus import SETS, TINY, made_up, write_corpus
from tests.support.training_runs import (
    BATCHES,
    assert_same,
    at_batch,
    config_of,
    history_of,
    states,
)

STACK = [
    {"name": "half", "kind": "conv1d", "channels": 6, "stride": 2},
    {"name": "top", "kind": "recurrent", "unit": "li-bru", "units": 5},
]
SMALL = ("units=6", "embedding=4", "attention_units=5", "attention=location", "dropout=0.1")
PER_FRAME = 0.05
SEQUENCES = (
    "data.sequences=text",
    f"model.stack={STACK}",
    *(f"model.decoder.{one}" for one in SMALL),
    f"model.decoder.labels_per_frame={PER_FRAME}",
)
ALONE = ("train.epochs=1", "train.batch_sequences=1")
OPTIONS = ("train.epochs=3", "train.tempo=0.1", "train.teacher_forcing={1: 1.0, 3: 0.4}")


def said(name: str, number: int) -> list[str]:
    """The labels of an utterance of the small corpus; one of train has none."""
    rng = np.random.default_rng(number)
    count = 0 if (name, number) == ("train", 5) else rng.integers(1, 6)
    return [("ba", "ab", "c")[one] for one in rng.integers(3, size=count)]


def write_labels(root: Path) -> Path:
    for name, count in SETS.items():
        utterances = list(made_up(name, count)[0])
        given = ((utt, said(name, number)) for number, utt in enumerate(utterances))
        write_text(given, root / "data" / name / "text")
    return root


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small corpus without alignments."""
    root = write_labels(write_corpus(tmp_path_factory.mktemp("sequences")))
    for folder in ("ali", "ali_dev"):
        for file in (root / "exp" / folder).iterdir():
            file.unlink()
    return root


def sequences_of(root: Path, *more: str) -> Config:
    return config_of(root, *SEQUENCES, *more)


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run."""
    run = tmp_path_factory.mktemp("run") / "whole"
    train(sequences_of(corpus, *OPTIONS), run)
    return run


@pytest.mark.slow
def test_the_vocabulary_is_that_of_train_and_travels(corpus: Path, run: Path) -> None:
    network = read_network(run)
    assert network.classes == (ENDS, "ab", "ba", "c")
    counts = Counter(label for i in range(SETS["train"]) for label in said("train", i))
    share = np.array([counts[name] + 0.5 for name in network.classes])
    np.testing.assert_allclose(network.log_priors.numpy(), np.log(share / share.sum()))
    for name, data in zip(("train", "dev"), open_sets(sequences_of(corpus)), strict=True):
        for utt, given in read_text(corpus / f"data/{name}/text").items():
            labels = data.targets["sequence"].labels(utt)
            assert [network.classes[label] for label in labels] == given


def train_in_a_group(_: int, corpus: Path, run: Path) -> int:
    with group.process_group():
        train(sequences_of(corpus, *ALONE), run)
    return 0


@pytest.mark.slow
def test_a_process_may_have_no_utterance_of_a_batch(corpus: Path, tmp_path: Path) -> None:
    train(sequences_of(corpus, *ALONE), tmp_path / "one")
    ended = together(tmp_path, train_in_a_group, corpus, tmp_path / "two")
    assert [each.status for each in ended] == [0, 0], ended
    one, two = (checkpoint.read(tmp_path / run / "last.pt")["model"] for run in ("one", "two"))
    for name, expected in one.items():
        torch.testing.assert_close(two[name], expected, rtol=1e-3, atol=1e-4)


def at_most(x: np.ndarray) -> int:
    return math.ceil(PER_FRAME * len(x))


def edit_distance(one: list[str], other: list[str]) -> int:
    if not one or not other:
        return len(one) + len(other)
    if one[-1] == other[-1]:
        return edit_distance(one[:-1], other[:-1])
    pairs = (one[:-1], other), (one, other[:-1]), (one[:-1], other[:-1])
    return 1 + min(edit_distance(*pair) for pair in pairs)


def test_dev_loss_is_told_and_dev_error_is_not(corpus: Path, run: Path) -> None:
    writer, given = load_generator(run), read_text(corpus / "data/dev/text")
    losses, errors = [], 0
    for utt, x in made_up("dev", SETS["dev"])[0].items():
        (encoded,) = writer.compute_prepared([writer.prepare({"features": x})])
        found = search(writer.decoder, encoded, width=1, max_length=at_most(x), length_penalty=0)
        errors += edit_distance(given[utt], writer.name_labels(found))
        memory, state = writer.decoder.begin(encoded, frames := PackedFrames((len(encoded),)))
        before = 0
        for label in [*map(writer.vocabulary.index, given[utt]), 0]:
            read, state = writer.decoder.step(torch.tensor([before]), memory, state)
            losses.append(-torch.log_softmax(writer.decoder.read_out(read), 1)[0, label].item())
            before = label
        assert frames.count == -(-len(x) // 2)
    best = min(history_of(run), key=lambda entry: entry["dev_error"])
    assert best["dev_loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert best["dev_error"] == pytest.approx(errors / len(losses))


def test_it_learns(run: Path) -> None:
    losses = [entry["train_loss"] for entry in history_of(run)]
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_a_stopped_run_goes_on_bit_for_bit(corpus: Path, run: Path, tmp_path: Path) -> None:
    config = sequences_of(corpus, *OPTIONS, "train.save_minutes=0")
    stop: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731
    with at_batch(2 * BATCHES + 3, stop), pytest.raises(StoppedError):
        train(config, tmp_path / "stopped")
    torch.manual_seed(9)
    train(config, tmp_path / "stopped")
    assert_same(states(tmp_path / "stopped"), states(run))


def test_what_is_told_depends_on_seed_epoch_and_utterance_alone(corpus: Path, run: Path) -> None:
    data, _ = open_sets(sequences_of(corpus))
    front_ends = read_network(run).front_ends

    def drawn(chosen: list[str], epoch: int, share: float = 0.5) -> dict[str, list[bool]]:
        load = Loader(data, front_ends, ["sequence"], seed=1, epoch=epoch, teacher_forcing=share)
        told = load(chosen).decoder_targets
        assert told is not None
        assert told.forced_N is not None
        by_length = sorted(chosen, key=lambda utt: -data.lengths[utt])
        return {
            by_length[place]: told.forced_N[told.steps.sequence == row].tolist()
            for row, place in enumerate(told.order)
        }

    utterances = list(data.lengths)
    together, others = drawn(utterances, 1), drawn(utterances, 2)
    for utt in utterances:
        assert drawn([utt], 1) == {utt: together[utt]}
    assert together != others
    assert {one for told in together.values() for one in told} == {True, False}
    assert not any(any(told) for told in drawn(utterances, 1, 0.0).values())


@pytest.mark.parametrize("epoch", [1, 2, 5, 9, 10, 30])
def test_teacher_forcing_is_linear_between_epochs(epoch: int) -> None:
    named = {1: 1.0, 5: 0.8, 10: 0.0}
    expected = np.interp(epoch, list(named), list(named.values()))
    assert between_epochs(named, epoch) == pytest.approx(expected)
    assert between_epochs(0.3, epoch) == 0.3


def test_bfloat16_learns_too(corpus: Path, tmp_path: Path) -> None:
    train(sequences_of(corpus, "train.precision=bfloat16", "train.epochs=2"), tmp_path)
    losses = [entry["train_loss"] for entry in history_of(tmp_path)]
    assert losses[-1] < losses[0]


def test_a_decoder_without_vocabulary_is_refused(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "run")
    content = checkpoint.read(other / "best.pt")
    torch.save({**content, "classes": []}, other / "best.pt")
    with pytest.raises(InputError, match="classes: 0 for "):
        read_network(other)


@pytest.mark.slow
def test_generate_writes_what_score_counts(
    corpus: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    for name in ("dev", "test"):
        assert main(["generate", str(run), "--on", name, "--attention"]) == 0
    out, writer = run / "decode_test", load_generator(run)
    found, probabilities = read_text(out / "words.txt"), read_mapping(out / "log_probabilities")
    weights = dict(iter_matrices(out / "attention.ark"))
    for utt, x in made_up("test", SETS["test"])[0].items():
        (encoded,) = writer.compute_prepared([writer.prepare({"features": x})])
        best = search(writer.decoder, encoded, width=8, max_length=at_most(x), length_penalty=1.0)
        assert found[utt] == writer.name_labels(best)
        assert float(probabilities[utt]) == pytest.approx(best.log_probability, abs=1e-5)
        assert weights[utt].shape == (len(found[utt]) + 1, -(-len(x) // 2))
        np.testing.assert_allclose(weights[utt].sum(1), 1, atol=1e-5)
    record = json.loads((out / "decode.json").read_text())
    assert record == {"beam_width": 8, "length_penalty": 1.0, **describe_network(run)}
    capsys.readouterr()
    assert main(["score", str(run), "--json"]) == 0
    dev, test = json.loads(capsys.readouterr().out)
    assert (dev["set"], test["lm_weight"]) == ("dev", None)
    assert json.loads((run / "score_test.json").read_text())[0]["decoded"] == record
    assert test["tokens"] == sum(len(said("test", i)) for i in range(SETS["test"]))
    assert main(["score", str(run)]) == 0
    assert "LM weight" not in capsys.readouterr().out
    assert main(["compare", str(run), str(run)]) == 0
    assert main(["report", str(run), "--json"]) == 0
    assert '"rate": "WER plain"' in capsys.readouterr().out
    content = checkpoint.read(run / "best.pt")
    other = shutil.copytree(run, tmp_path / "run")
    checkpoint.save(other / "best.pt", content | {"log_priors": content["log_priors"] - 1})
    assert main(["score", str(other)]) == 1
    assert "decode_dev: of another network" in capsys.readouterr().err


def test_generate_reads_other_folders_and_draws(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    data, out = write_corpus(tmp_path / "other") / "data/test", tmp_path / "out"
    words = ["generate", str(run), "--data", str(data), "--beam-width", "1"]
    assert main([*words, "--out", str(out), "--length-penalty", "0", "--draw", "test0-1"]) == 0
    assert (out / "attention_test0-1.svg").read_text().startswith("<?xml")
    assert json.loads((out / "decode.json").read_text())["beam_width"] == 1
    assert main([*words, "--out", str(out), "--draw", "test0-9"]) == 1


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (("dev", " c", " cc"), r"data/dev: dev.* has the label cc, .*did you mean c\?; .*3 known"),
        (("train", " c", f" {ENDS}"), f"has {ENDS}, which means the end of all labels"),
        (("train", "train0-0 ", "other "), r"train: no labels in .*text for 1 of 12 utterances"),
    ],
)
def test_labels_that_cannot_be_learnt_are_refused(
    harm: tuple[str, str, str], message: str, tmp_path: Path
) -> None:
    root = write_labels(write_corpus(tmp_path))
    table = root / "data" / harm[0] / "text"
    table.write_text(table.read_text().replace(*harm[1:]))
    with pytest.raises(InputError, match=message):
        open_sets(sequences_of(root))


def test_a_table_that_is_missing_is_refused(tmp_path: Path) -> None:
    root = write_labels(write_corpus(tmp_path))
    (root / "data/train/text").unlink()
    with pytest.raises(InputError, match=r"text is missing; write the labels"):
        open_sets(sequences_of(root))


def test_several_directories_and_held_out_speakers_have_one_vocabulary(tmp_path: Path) -> None:
    root = write_labels(write_corpus(tmp_path))
    together = "data.train.features_all_of=[data/train, data/dev]"
    train_set, dev_set = open_sets(sequences_of(root, together, "data.dev.features=[data/test]"))
    assert set(train_set.lengths) == {*made_up("train", 12)[0], *made_up("dev", 4)[0]}
    assert dev_set.targets["sequence"].names == train_set.targets["sequence"].names
    (root / "data/dev/text").unlink()
    train_set, held = open_sets(sequences_of(root, "data.held_out=0.3"))
    assert not {*train_set.lengths} & {*held.lengths}


def test_labels_that_changed_keep_a_run_from_going_on(tmp_path: Path) -> None:
    root = write_labels(write_corpus(tmp_path / "corpus"))
    train(sequences_of(root, "train.epochs=1"), tmp_path / "run")
    table = root / "data/train/text"
    table.write_text(table.read_text().replace("train0-0 ", "train0-0 c "))
    with pytest.raises(InputError, match="data/train: has changed since this run was started"):
        train(sequences_of(root, "train.epochs=2"), tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["train.target_weights.x=1"], "train.target_weights is of labels of frames"),
        (["data.classes=utt2lang"], "data.classes is utt2lang, and data.sequences is text"),
        (["train.max_frames=50"], "train.max_frames is 50, but which of the labels"),
        (["train.teacher_forcing={2: 0.5}"], "train.teacher_forcing says nothing of epoch 1"),
        (["train.teacher_forcing=1.5"], "teacher_forcing"),
        (["model.decoder.unit=mlp"], "model.decoder.unit"),
        (["model.decoder.attention=aditive"], "model.decoder.attention"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        task_of(load([], [*SEQUENCES, *settings]))


@pytest.mark.slow
def test_verbs_of_frames_refuse_it_and_generate_refuses_others(
    corpus: Path, run: Path, small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["forward", "--on", "dev"], ["classify", "--on", "dev"], ["gradients"]):
        assert main([words[0], str(run), *words[1:]]) == 1
        assert "bayes-asr generate RUN does" in capsys.readouterr().err
    assert (
        main(["forward", str(run), "--on", "dev", "--layer", "top", "--out", f"{tmp_path}/h"]) == 0
    )
    assert next(iter_matrices(tmp_path / "h/feats.ark"))[1].shape[1] == 10
    plain = tmp_path / "plain"
    train(config_of(small_corpus, "train.epochs=1"), plain)
    assert main(["generate", str(plain), "--on", "dev"]) == 1
    assert "this run has no decoder" in capsys.readouterr().err
    bare = tmp_path / "bare"
    settings = ("train.epochs=1", "model.decoder.attention=none", "model.stack=[]")
    train(sequences_of(corpus, *settings), bare)  # whose layers compute in single precision
    assert main(["generate", str(bare), "--on", "dev"]) == 0
    assert main(["generate", str(bare), "--on", "dev", "--attention"]) == 1
    assert "its decoder has no attention" in capsys.readouterr().err


def test_doctor_finds_nothing_wrong(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"--set={one}" for one in (f"data.dir={corpus}", *SEQUENCES)]
    assert main(["doctor", "--until", "7", "--out", str(tmp_path), *given]) == 0
    assert not [line for line in capsys.readouterr().out.splitlines() if line.startswith("error")]


@pytest.mark.parametrize("system", ["attention", "last-state"])
@pytest.mark.parametrize("recipe", ["mini_large", "mboshi"])
def test_each_decoder_of_the_experiment_trains(
    recipe: str, system: str, corpus: Path, tmp_path: Path
) -> None:
    folder = RECIPES / recipe
    files = [folder / "config.yaml", folder / f"experiments/encoder-decoder.yaml#{system}"]
    small = ("units=4", "kinds.conv1d.channels=4", "decoder.units=4", "decoder.attention_units=4")
    settings = [f"data.dir={corpus}", *(f"model.{one}" for one in small), *TINY[2:]]
    settings.append("train.init_from=[]")
    train(load(files, settings), tmp_path)
    assert load_generator(tmp_path).decoder.attention is not None or system == "last-state"
