"""Two streams side by side are one stream of their features side by side."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.sets import open_sets, training_and_dev
from bayes_asr.data.features.front_end import FEATURES, append_context
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.nn.frames import pack
from bayes_asr.train.loader import Loader
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.trained_network import TrainedNetwork, read_network
from bayes_asr.train.start import train
from tests.support.nn_units import plain_front_end
from tests.support.small_corpus import DIMENSIONS, SETS, made_up, write_corpus, write_data_dir
from tests.support.training_runs import Killed, assert_same, at_batch, config_of, kill, states
from tests.support.two_streams import (
    BOTH,
    OTHER,
    WIDTH,
    at_frames,
    other_features,
    write_both,
    write_side_by_side,
)

PERTURBED = ("train.tempo=0.1", "model.layers=2")  # noise is drawn stream by stream


def of(corpus: Path, *more: str) -> Any:
    """The configuration of both streams."""
    return config_of(corpus, *PERTURBED, *BOTH, *more)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A corpus with `other` beside `data`, and one whose features are both side by side."""
    root = tmp_path_factory.mktemp("corpora")
    return write_both(root / "two"), write_side_by_side(root / "one")


@pytest.fixture(scope="module")
def runs(corpora: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run on each of the corpora."""
    root = tmp_path_factory.mktemp("runs")
    train(of(corpora[0]), root / "two")
    train(config_of(corpora[1], *PERTURBED), root / "one")
    return root / "two", root / "one"


def test_the_front_end_of_each_stream_is_recorded(runs: tuple[Path, Path]) -> None:
    two, one = (json.loads((run / "env.json").read_text()) for run in runs)
    assert two["frontends"] == {FEATURES: None, OTHER: None}
    assert "frontends" not in one


def test_online_i_vectors_of_kaldi_are_a_stream(tmp_path: Path) -> None:
    """ivector-extract-online2 writes one of each ten frames, begun ones too; its folder has neither
    utt2spk nor feats.scp.
    """
    root = write_corpus(tmp_path / "ivectors")
    for name in SETS:
        folder = root / "other" / name
        ivectors = other_features(name, 10)
        folder.mkdir(parents=True)
        write_matrices(
            ivectors.items(), folder / "ivector_online.ark", folder / "ivector_online.scp"
        )
        (folder / "utt2spk").symlink_to(root / "data" / name / "utt2spk")
        (folder / "feats.scp").symlink_to("ivector_online.scp")
    period = (f"streams.{OTHER}.subsampling=10", "train.epochs=1")
    train(of(root, *period), tmp_path / "of-kaldi")
    train(of(write_both(tmp_path / "corpus", 10), *period), tmp_path / "plain")
    assert_same(states(tmp_path / "of-kaldi"), states(tmp_path / "plain"))


def test_a_batch_has_both_streams_frame_by_frame(corpora: tuple[Path, Path]) -> None:
    data, _ = training_and_dev(of(corpora[0]))
    front_ends = {name: plain_front_end(width) for name, width in ((FEATURES, 5), (OTHER, WIDTH))}
    utterances = list(data.lengths)[:4]
    batch = Loader(data, front_ends, data.targets, seed=0, epoch=0)(utterances)
    stored = {FEATURES: made_up("train", SETS["train"])[0], OTHER: other_features("train")}
    for name, features in stored.items():
        wanted, frames, _ = pack([torch.from_numpy(features[utt]) for utt in utterances])
        assert torch.equal(batch.streams[name], wanted)
        assert batch.frames.lengths == frames.lengths


def test_a_run_learns_bit_for_bit_what_one_stream_of_both_gives(runs: tuple[Path, Path]) -> None:
    assert_same(*(states(run) for run in runs))


@pytest.mark.parametrize("rate", [2, 3, -2, -3, "utterance"])
def test_streams_of_other_rates_go_with_the_frames_of_the_first(
    rate: int | str, tmp_path: Path
) -> None:
    corpus = write_both(tmp_path, rate)
    own = other_features("train", rate)
    around = () if rate == "utterance" else (f"streams.{OTHER}.deltas=1",)
    data, _ = training_and_dev(of(corpus, f"streams.{OTHER}.subsampling={rate}", *around))
    front_ends = {
        FEATURES: plain_front_end(5),
        OTHER: replace(plain_front_end(WIDTH * (1 + len(around))), subsampling=rate),
    }
    loader = Loader(data, front_ends, data.targets, seed=0, epoch=0, keep="float32")
    for _ in range(2):  # read, then from memory
        for utt, frames in data.lengths.items():
            prepared = append_context(own[utt], order=len(around), left=0, right=0)
            found = loader([utt]).streams[OTHER].numpy()
            np.testing.assert_array_equal(found, at_frames(rate, prepared, frames))


@pytest.mark.slow
@pytest.mark.parametrize("rate", [3, -2, "utterance"])
def test_a_run_at_another_rate_goes_on_bit_for_bit(rate: int | str, tmp_path: Path) -> None:
    corpus = write_both(tmp_path / "corpus", rate)
    config = of(corpus, f"streams.{OTHER}.subsampling={rate}", "train.save_minutes=0")
    train(config, tmp_path / "whole")
    with at_batch(7, kill), suppress(Killed):
        train(config, tmp_path / "killed")
    train(config, tmp_path / "killed")
    assert_same(states(tmp_path / "killed"), states(tmp_path / "whole"))
    front_end = read_network(tmp_path / "whole").front_ends[OTHER]
    assert front_end.subsampling == rate
    values = np.concatenate(list(other_features("train", rate).values()))
    np.testing.assert_allclose(front_end.content()["mean"], values.mean(0), rtol=1e-4)


@pytest.mark.parametrize("keep", ["none", "float32"])
def test_a_run_killed_inside_an_epoch_goes_on_with_both(
    keep: str, corpora: tuple[Path, Path], runs: tuple[Path, Path], tmp_path: Path
) -> None:
    config = of(corpora[0], "train.save_minutes=0", f"data.keep={keep}")
    with at_batch(7, kill), suppress(Killed):
        train(config, tmp_path)
    assert (tmp_path / "unfinished.pt").exists()
    train(config, tmp_path)
    assert_same(states(tmp_path), states(runs[0]))


def test_the_checkpoint_has_both_streams_and_reads_back(
    corpora: tuple[Path, Path], runs: tuple[Path, Path]
) -> None:
    two, one = (read_network(run) for run in runs)
    assert two.model.architecture["streams"] == {FEATURES: DIMENSIONS, OTHER: WIDTH}
    assert {name: end.size for name, end in two.front_ends.items()} == {FEATURES: 5, OTHER: WIDTH}
    other = np.concatenate(list(other_features("train").values()))
    found = checkpoint.read(runs[0] / "last.pt")["front_ends"][OTHER]
    np.testing.assert_allclose(found["mean"], other.mean(0), rtol=1e-4)
    np.testing.assert_allclose(found["deviation"], other.std(0), rtol=1e-4)
    (_, dev), (_, dev_of_one) = (
        training_and_dev(config) for config in (of(corpora[0]), config_of(corpora[1]))
    )
    assert torch.equal(outputs_of(two, dev), outputs_of(one, dev_of_one))


def outputs_of(network: TrainedNetwork, data: LabelledSet) -> torch.Tensor:
    """Logits of the pdfs of a set [N, P]."""
    batch = Loader(data, network.front_ends, ["pdfs"], seed=0, epoch=0)(list(data.lengths))
    with torch.no_grad():
        return network.model.eval()(batch.streams, batch.frames)["pdfs"]


# --- each stream has an index of its own


def test_a_stream_that_is_added_leaves_the_index_of_the_others(
    corpora: tuple[Path, Path], tmp_path: Path
) -> None:
    index = tmp_path / "index"
    where = f"data.index={index}"
    train(config_of(corpora[0], where), tmp_path / "one")
    made = {path: path.stat().st_mtime_ns for path in index.glob("*.npz")}
    train(of(corpora[0], where), tmp_path / "two")
    train(config_of(corpora[0], where, "seed=2"), tmp_path / "again")
    assert made == {path: path.stat().st_mtime_ns for path in made}
    assert len(list(index.glob("train-*.npz"))) == len(list(index.glob("dev-*.npz"))) == 2


@pytest.mark.parametrize("indexed", [True, False])
def test_streams_of_an_index_are_those_of_the_tables(
    indexed: bool, corpora: tuple[Path, Path], tmp_path: Path
) -> None:
    index = Index(tmp_path / "index") if indexed else None
    for _ in range(2):
        data, _ = open_sets(of(corpora[0]), None, index)
        for utt, x in other_features("train").items():
            np.testing.assert_array_equal(data.prepare(utt)[OTHER], x)


def frames(root: Path) -> None:
    """One value of one frame, in place."""
    changed = other_features("dev")
    changed["dev0-1"][2, 1] += 1e-3
    write_matrices(changed.items(), root / "other/dev/feats.ark", root / "other/dev/feats.scp")


def speakers(root: Path) -> None:
    for folder in ("other", "data"):
        path = root / folder / "train/utt2spk"
        path.write_text(path.read_text().replace(" train3\n", " train1\n"))


def statistics(root: Path) -> None:
    (root / "other/train/cmvn.scp").unlink()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (frames, r"other/dev/feats.ark|other/dev \(frames of dev\)"),
        (speakers, r"(other|data)/train/utt2spk"),
        (statistics, r"other/train/cmvn.ark"),
    ],
)
def test_a_run_refuses_to_go_on_with_another_stream(
    change: Callable[[Path], None], what: str, tmp_path: Path
) -> None:
    corpus = write_both(tmp_path / "corpus")
    config = of(corpus, f"streams.{OTHER}.cmvn=mean")
    train(replace(config, train=replace(config.train, epochs=1)), tmp_path / "run")
    change(corpus)
    with pytest.raises(InputError, match=rf"({what}): (has changed|is not read any more) since"):
        train(config, tmp_path / "run")
    for key, value in (("deltas", 1), ("subsampling", 2)):
        other = of(corpus, f"streams.{OTHER}.cmvn=mean", f"streams.{OTHER}.{key}={value}")
        with pytest.raises(InputError, match=rf"streams.{OTHER}.{key} is .* in this run, but"):
            train(other, tmp_path / "run")


# --- streams that do not go together


def lacking(root: Path) -> None:
    fewer = {utt: x for utt, x in other_features("train").items() if utt != "train1-4"}
    write_data_dir(root / "other/train", fewer)


def short(root: Path) -> None:
    cut = {u: x[1:] if u == "train1-4" else x for u, x in other_features("train").items()}
    write_data_dir(root / "other/train", cut)


def wide(root: Path) -> None:
    write_data_dir(root / "other/dev", made_up("dev", SETS["dev"])[0])


def uneven(root: Path) -> None:
    features = other_features("train")
    features["train1-4"] = np.hstack([features["train1-4"]] * 2)
    write_data_dir(root / "other/train", features, cmvn=False)


def other_speaker(root: Path) -> None:
    path = root / "other/train/utt2spk"
    path.write_text(path.read_text().replace("train1-4 train1", "train1-4 train2"))


def nothing(root: Path) -> None:
    """No directory of dev."""
    (root / "other/dev").rename(root / "other/gone")


WAYS: list[tuple[Callable[[Path], None], str]] = [
    (
        lacking,
        r"train: no features of pitch in .*other/train for 1 of 12 utterances: train1-4",
    ),
    (
        short,
        r"other/train/feats.ark:\d+: train1-4 has \d+ frames in the stream pitch \(.*/other/train\)"
        r", but \d+ in .*/data/train; make both of the same sound, or correct streams.pitch",
    ),
    (wide, r"other/dev/.*: dev0-0 has 5 dimensions, but the training features of pitch have 3"),
    (uneven, r"other/train/.*: train1-4 has \d+ frames of 6 values, but train0-0 .* has 3 values"),
    (
        other_speaker,
        r"other/train/utt2spk: train1-4 is spoken by train2, but by train1 in .*data/train/utt2spk",
    ),
    (nothing, r"dev pitch: none of these exists: .*other/dev; set data.dir or name the"),
]


@pytest.mark.parametrize(("change", "message"), WAYS)
@pytest.mark.parametrize("indexed", [True, False])
def test_streams_that_disagree_are_refused_by_name(
    change: Callable[[Path], None], message: str, indexed: bool, tmp_path: Path
) -> None:
    corpus = write_both(tmp_path / "corpus")
    change(corpus)
    with pytest.raises(InputError, match=message):
        train(of(corpus), tmp_path / "run") if indexed else training_and_dev(of(corpus))


def test_utterances_that_a_stream_lacks_are_skipped_within_the_limit(tmp_path: Path) -> None:
    corpus = write_both(tmp_path / "corpus")
    lacking(corpus)
    data, _ = training_and_dev(of(corpus, "data.max_skipped=0.1"))
    assert sorted(data.lengths) == sorted(set(made_up("train", 12)[0]) - {"train1-4"})


def test_a_stream_of_other_utterances_leaves_nothing_to_train_on(tmp_path: Path) -> None:
    corpus = write_both(tmp_path / "corpus")
    config = of(corpus, f"data.train.streams.{OTHER}=other/test", "data.max_skipped=1")
    with pytest.raises(InputError, match=r"train0-0 and all other utterances are skipped, so that"):
        training_and_dev(config)


def test_a_set_without_a_stream_of_train_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data.dev.streams has no pitch, but data.train.streams"):
        training_and_dev(of(write_both(tmp_path), f"data.dev.streams.{OTHER}=null"))


@pytest.mark.parametrize("rate", [2, -2, "utterance"])
def test_a_rate_that_is_not_that_of_the_frames_is_refused(rate: int | str, tmp_path: Path) -> None:
    config = of(write_both(tmp_path), f"streams.{OTHER}.subsampling={rate}")
    with pytest.raises(InputError, match=rf"frames in the stream pitch at subsampling {rate} \("):
        training_and_dev(config)


@pytest.mark.parametrize("wrong", [0, -1, 2.0, "frame", None, True])
def test_a_checkpoint_with_another_rate_is_none(wrong: object, runs: tuple[Path, Path]) -> None:
    content = checkpoint.read(runs[0] / "best.pt")
    content["front_ends"][OTHER]["subsampling"] = wrong
    with pytest.raises(ValueError, match=f"front_ends: {OTHER}: "):
        checkpoint.check_network(content)
