"""Several label sets: what a network learns of them, against sums by hand."""

import gzip
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.sets import open_sets, training_and_dev
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.tasks.task import task_of
from bayes_asr.train.loader import Loader
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.trained_network import read_network
from bayes_asr.train.start import train
from tests.support.nn_units import plain_front_end
from tests.support.small_corpus import MODEL, PHONES, SETS, made_up, write_corpus
from tests.support.training_runs import Killed, assert_same, at_batch, config_of, kill, states

TREE = build_monophone_model(PHONES, 3)  # another model of the same phones
LABELS = [
    "data.train.labels={tree: exp/tree, tones: exp/tones}",
    "data.dev.labels={tree: exp/tree_dev, tones: exp/tones_dev/labels.txt}",
    "train.target_weights={tree.pdfs: 0.5, tree.monophones: 0, tones: 0.25}",
]


def tree_ids(name: str) -> dict[str, np.ndarray]:
    """Transition-ids by the other model of a set."""
    rng = np.random.default_rng(5)
    last = TREE.num_transition_ids
    _, aligned = made_up(name, SETS[name])
    return {u: rng.integers(1, last + 1, len(x)).astype(np.int32) for u, x in aligned.items()}


def tones(name: str) -> dict[str, np.ndarray]:
    """Whole numbers from 0 to 4 of a set; the greatest of train is in one utterance alone."""
    rng = np.random.default_rng(6)
    _, aligned = made_up(name, SETS[name])
    found = {u: rng.integers(0, 4, len(x)).astype(np.int32) for u, x in aligned.items()}
    if name == "train":
        found["train2-7"][3] = 4
    return found


def write_text(path: Path, labels: dict[str, np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{utt} {' '.join(map(str, values))}\n" for utt, values in labels.items())
    path.write_text("".join(lines))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The small corpus with both label sets, in every form that these may have."""
    root = write_corpus(tmp_path / "corpus")
    for name, end in (("train", ""), ("dev", "_dev")):
        folder = root / f"exp/tree{end}"
        folder.mkdir()
        write_int_vectors(tree_ids(name).items(), folder / "ali.1.gz")
        write_transition_model(TREE, folder / "final.mdl")
    folder = root / "exp/tones"
    folder.mkdir()
    items = list(tones("train").items())
    for job in (1, 2):
        write_int_vectors(items[job - 1 :: 2], folder / f"ali.{job}.gz")
    write_text(root / "exp/tones_dev/labels.txt", tones("dev"))
    return root


@pytest.mark.parametrize("indexed", [True, False])
def test_targets_are_what_the_files_say(indexed: bool, corpus: Path, tmp_path: Path) -> None:
    index = Index(tmp_path / "index") if indexed else None
    for _ in range(2):
        for name, data in zip(
            ("train", "dev"), open_sets(config_of(corpus, *LABELS), None, index), strict=True
        ):
            sizes = {target: one.size for target, one in data.targets.items()}
            assert sizes["tones"] == (5 if name == "train" else 4)
            assert (sizes["pdfs"], sizes["tree.pdfs"], sizes["tree.monophones"]) == (6, 9, 3)
            for utt, ids in tree_ids(name).items():
                wanted = {"tree.pdfs": TREE.pdf[ids], "tones": tones(name)[utt]}
                wanted["tree.monophones"] = np.searchsorted(PHONES, TREE.phone[ids])
                for target, labels in wanted.items():
                    np.testing.assert_array_equal(data.targets[target].labels(utt), labels)


def test_loss_is_the_weighted_sum_over_targets(corpus: Path) -> None:
    config = config_of(corpus, *LABELS, "train.monophone_weight=2")
    weights = task_of(config).weights
    assert weights == {"pdfs": 1.0, "monophones": 2.0, "tones": 0.25, "tree.pdfs": 0.5}
    data, _ = training_and_dev(config)
    utterances = list(data.lengths)[:3]
    batch = batch_of(data, utterances, list(weights))
    torch.manual_seed(0)
    outputs = {name: torch.randn(batch.frames.count, data.targets[name].size) for name in weights}
    criterion = task_of(config).training().build_criterion(torch.zeros(6))
    cost = criterion(outputs, batch.targets, batch.frames.count)
    losses = {}
    for name, logits in outputs.items():
        shares = torch.softmax(logits.double(), 1)[torch.arange(len(logits)), batch.targets[name]]
        losses[name] = -shares.log().mean()
    wanted = sum(weight * losses[name] for name, weight in weights.items())
    torch.testing.assert_close(cost.objective.double(), wanted, rtol=1e-6, atol=0)
    torch.testing.assert_close(cost.loss.double(), losses["pdfs"], rtol=1e-6, atol=0)


def batch_of(data: LabelledSet, utterances: list[str], targets: list[str]) -> object:
    return Loader(data, {"features": plain_front_end(5)}, targets, seed=0, epoch=0)(utterances)


def test_priors_and_the_decoded_head_are_those_of_the_first_target(
    corpus: Path, tmp_path: Path
) -> None:
    train(config_of(corpus, *LABELS, "train.monophone_weight=0"), tmp_path / "run")
    network = read_network(tmp_path / "run")
    assert network.model.architecture["heads"] == {"pdfs": 6, "tones": 5, "tree.pdfs": 9}
    counts = np.full(6, 0.5)
    for ids in made_up("train", SETS["train"])[1].values():
        np.add.at(counts, MODEL.pdf[ids], 1)
    np.testing.assert_allclose(network.log_priors, np.log(counts / counts.sum()), rtol=1e-12)


@pytest.mark.slow
def test_a_run_of_several_label_sets_goes_on_bit_for_bit(corpus: Path, tmp_path: Path) -> None:
    config = config_of(corpus, *LABELS, "train.save_minutes=0", "train.tempo=0.1")
    train(config, tmp_path / "whole")
    with at_batch(7, kill), suppress(Killed):
        train(config, tmp_path / "killed")
    train(config, tmp_path / "killed")
    assert_same(states(tmp_path / "killed"), states(tmp_path / "whole"))


def test_labels_in_several_directories_are_those_of_one(corpus: Path, tmp_path: Path) -> None:
    train(config_of(corpus, *LABELS), tmp_path / "whole")
    for kind, labels in (("tones", tones("train")), ("tree", tree_ids("train"))):
        for part in (0, 1):
            folder = corpus / f"exp/{kind}{part}"
            folder.mkdir()
            write_int_vectors([*labels.items()][part::2], folder / "ali.1.gz")
            if kind == "tree":
                write_transition_model(TREE, folder / "final.mdl")
    divided = [
        "data.train.labels={tones: null, tree: null}",
        "data.train.labels_all_of={tones: [exp/tones0, exp/tones1], tree: [exp/tree1, exp/tree0]}",
    ]
    train(config_of(corpus, *LABELS, *divided), tmp_path / "divided")
    assert_same(states(tmp_path / "divided"), states(tmp_path / "whole"))


def test_held_out_speakers_keep_their_labels(corpus: Path, tmp_path: Path) -> None:
    held = ("data.dev.alignments=[]", "data.held_out=0.25", "data.dev.labels={tree: null}")
    train(config_of(corpus, *LABELS, *held, "train.epochs=1"), tmp_path / "run")
    assert checkpoint.read(tmp_path / "run/best.pt")["architecture"]["heads"]["tree.pdfs"] == 9


def test_changed_labels_are_noticed(corpus: Path, tmp_path: Path) -> None:
    train(config_of(corpus, *LABELS, "train.epochs=1"), tmp_path / "run")
    changed = tones("train")
    changed["train1-3"][0] = (changed["train1-3"][0] + 1) % 4
    write_int_vectors([*changed.items()][::2], corpus / "exp/tones/ali.1.gz")
    write_int_vectors([*changed.items()][1::2], corpus / "exp/tones/ali.2.gz")
    with pytest.raises(InputError, match=r"exp/tones: has changed since this run was started"):
        train(config_of(corpus, *LABELS), tmp_path / "run")


# --- labels that do not go together


def negative(root: Path) -> None:
    write_text(root / "exp/tones_dev/labels.txt", {**tones("dev"), "dev0-1": np.array([1, -2])})


def unknown(root: Path) -> None:
    many = tones("dev")
    many["dev0-2"][1] = 5
    write_text(root / "exp/tones_dev/labels.txt", many)


def longer(root: Path) -> None:
    more = tones("dev")
    more["dev0-1"] = np.append(more["dev0-1"], 1)
    write_text(root / "exp/tones_dev/labels.txt", more)


def repeated(root: Path) -> None:
    write_int_vectors(tones("train").items(), root / "exp/tones/ali.2.gz")


def lacking(root: Path) -> None:
    fewer = {utt: labels for utt, labels in tones("dev").items() if utt != "dev1-3"}
    write_text(root / "exp/tones_dev/labels.txt", fewer)


def words(root: Path) -> None:
    (root / "exp/tones_dev/labels.txt").write_text("dev0-0 a b c\n")


def other_model(root: Path) -> None:
    write_transition_model(build_monophone_model((2, 3), 3), root / "exp/tree_dev/final.mdl")
    ids = {utt: np.ones(len(x), np.int32) for utt, x in tree_ids("dev").items()}
    write_int_vectors(ids.items(), root / "exp/tree_dev/ali.1.gz")


def other_kind(root: Path) -> None:
    (root / "exp/tree_dev/final.mdl").unlink()


def outside(root: Path) -> None:
    ids = {utt: np.full(len(x), 99, np.int32) for utt, x in tree_ids("dev").items()}
    write_int_vectors(ids.items(), root / "exp/tree_dev/ali.1.gz")


WAYS: list[tuple[Callable[[Path], None], str]] = [
    (negative, r"labels.txt: dev0-1, frame 1 has the label -2; labels are whole numbers from 0"),
    (unknown, r"labels.txt: dev0-2 has the label 5, but those of .*exp/tones are from 0 to 4"),
    (
        longer,
        r"labels.txt: dev0-1 has \d+ labels, but \d+ in .*exp/ali_dev; mak",
    ),
    (repeated, r"tones/ali.2.gz: train0-0 is labelled a second time; keep one of them"),
    (lacking, r"dev: no labels of tones in .*labels.txt for 1 of 4 utterances: dev1-3; more than"),
    (words, r"labels.txt: dev0-0 is no line of integers"),
    (other_model, r"exp/tree_dev/final.mdl \(6 pdfs\) has other transitions than .*exp/tree/final"),
    (other_kind, r"exp/tree_dev has whole numbers, but .*exp/tree alignments by its final.mdl; ta"),
    (outside, r"ali.1.gz: dev0-0, frame 0 has transition-id 99, but .*tree_dev/final.mdl has 1 to"),
]


@pytest.mark.parametrize(("change", "message"), WAYS)
@pytest.mark.parametrize("indexed", [True, False])
def test_labels_that_do_not_fit_are_refused_by_name(
    change: Callable[[Path], None], message: str, indexed: bool, corpus: Path, tmp_path: Path
) -> None:
    change(corpus)
    index = Index(tmp_path / "index") if indexed else None
    with pytest.raises(InputError, match=message):
        open_sets(config_of(corpus, *LABELS), None, index)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["train.target_weights.tree.pdf=1"],
            r"tree.pdf is of no target; .*mean tree.pdfs",
        ),
        (["data.dev.labels.tones=null"], r"data.dev.labels has no tones, but data.train.labels"),
        (["train.target_weights.tones=null"], r"labels.tones is learnt by no output: give train"),
    ],
)
def test_names_of_targets_that_do_not_go_together_are_refused(
    settings: list[str], message: str, corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        train(config_of(corpus, *LABELS, *settings), tmp_path / "run")


def test_gzipped_archives_of_whole_numbers_are_read(corpus: Path) -> None:
    text = (corpus / "exp/tones_dev/labels.txt").read_bytes()
    packed = corpus / "exp/tones_dev/labels.gz"
    packed.write_bytes(gzip.compress(text))
    config = load([], [f"data.dir={corpus}", *LABELS, f"data.dev.labels.tones={packed}"])
    _, dev = training_and_dev(config)
    for utt, labels in tones("dev").items():
        np.testing.assert_array_equal(dev.targets["tones"].labels(utt), labels)


def test_the_first_label_set_is_read_as_ever(corpus: Path) -> None:
    data, _ = training_and_dev(config_of(corpus))
    assert list(data.targets) == ["pdfs", "monophones"]
    assert data.further_labels == {}
    assert isinstance(data.first_labels, Alignments)
