"""Two streams side by side are one stream of their features side by side.

No key of the configuration names a second stream yet, so that sets are replaced where a training
opens them; all else is what every training does.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bayes_asr.corpus.labelled import LabelledSet
from bayes_asr.corpus.sets import open_sets, training_and_dev
from bayes_asr.errors import InputError
from bayes_asr.features.front_end import FEATURES, FrontEnd
from bayes_asr.features.stored import Features
from bayes_asr.forward.log_likelihoods import LogLikelihoods
from bayes_asr.nn.frames import pack
from bayes_asr.runs import checkpoint
from bayes_asr.runs.trained_network import TrainedNetwork, read_network
from bayes_asr.tables.text import read_data_dir
from bayes_asr.train import start
from bayes_asr.train.batch import Loader
from tests.support.nn_units import plain_front_end
from tests.support.small_corpus import DIMENSIONS, SETS, made_up, write_corpus, write_data_dir
from tests.support.training_runs import Killed, assert_same, at_batch, config_of, kill, states

OTHER, WIDTH = "pitch", 3


def other_features(name: str) -> dict[str, np.ndarray]:
    """What the second stream has of a set [T, WIDTH]."""
    rng = np.random.default_rng(len(name))
    features, _ = made_up(name, SETS[name])
    return {
        utt: (7 + 2 * rng.standard_normal((len(x), WIDTH))).astype(np.float32)
        for utt, x in features.items()
    }


def with_other(data: LabelledSet, directory: Path) -> LabelledSet:
    """A set and its second stream."""
    other = Features(read_data_dir(directory), FrontEnd())
    return replace(data, streams={**data.streams, OTHER: other}, kept={})


@contextmanager
def two_streams(root: Path) -> Iterator[None]:
    """Trainings open two streams of each set."""

    def open_both(*arguments: Any) -> tuple[LabelledSet, ...]:
        sets = zip(("train", "dev"), open_sets(*arguments), strict=True)
        return tuple(with_other(data, root / "other" / name) for name, data in sets)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "open_sets", open_both)
        yield


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A corpus with `other` beside `data`, and one whose features are both side by side."""
    apart, together = (write_corpus(tmp_path_factory.mktemp(name)) for name in ("two", "one"))
    for name, count in SETS.items():
        features, other = made_up(name, count)[0], other_features(name)
        write_data_dir(apart / "other" / name, other)
        both = {utt: np.hstack([x, other[utt]]) for utt, x in features.items()}
        write_data_dir(together / "data" / name, both)
    return apart, together


@pytest.fixture(scope="module")
def runs(corpora: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run on each of the corpora."""
    root = tmp_path_factory.mktemp("runs")
    with two_streams(corpora[0]):
        start.train(of(corpora[0]), root / "two")
    start.train(of(corpora[1]), root / "one")
    return root / "two", root / "one"


def of(corpus: Path, *more: str) -> Any:
    return config_of(corpus, "train.tempo=0.1", "model.layers=2", *more)


def test_a_batch_has_both_streams_frame_by_frame(corpora: tuple[Path, Path]) -> None:
    train_set, _ = training_and_dev(of(corpora[0]))
    data = with_other(train_set, corpora[0] / "other" / "train")
    data.check()
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


@pytest.mark.parametrize("keep", ["none", "float32"])
def test_a_run_killed_inside_an_epoch_goes_on_with_both(
    keep: str, corpora: tuple[Path, Path], runs: tuple[Path, Path], tmp_path: Path
) -> None:
    config = of(corpora[0], "train.save_minutes=0", f"data.keep={keep}")
    with two_streams(corpora[0]):
        with at_batch(7, kill), suppress(Killed):
            start.train(config, tmp_path)
        assert (tmp_path / "unfinished.pt").exists()
        start.train(config, tmp_path)
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

    _, dev = training_and_dev(of(corpora[0]))
    _, dev_of_one = training_and_dev(of(corpora[1]))
    logits = [
        outputs_of(network, data)
        for network, data in (
            (two, with_other(dev, corpora[0] / "other" / "dev")),
            (one, dev_of_one),
        )
    ]
    assert torch.equal(*logits)


def test_an_utterance_that_a_second_stream_lacks_is_named(
    corpora: tuple[Path, Path], tmp_path: Path
) -> None:
    train_set, _ = training_and_dev(of(corpora[0]))
    fewer = {utt: x for utt, x in other_features("train").items() if utt != "train1-4"}
    write_data_dir(tmp_path / "fewer", fewer)
    with pytest.raises(InputError, match=r"fewer/feats.scp: train1-4 is missing, which is aligned"):
        with_other(train_set, tmp_path / "fewer").check()


def test_log_likelihoods_of_several_streams_are_refused(runs: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match="this network reads features, pitch"):
        LogLikelihoods(read_network(runs[0]))


def outputs_of(network: TrainedNetwork, data: LabelledSet) -> torch.Tensor:
    """Logits of the pdfs of a set [N, P]."""
    batch = Loader(data, network.front_ends, ["pdfs"], seed=0, epoch=0)(list(data.lengths))
    with torch.no_grad():
        return network.model.eval()(batch.streams, batch.frames)["pdfs"]


def test_a_second_stream_of_other_lengths_is_refused_with_its_file(
    corpora: tuple[Path, Path], tmp_path: Path
) -> None:
    train_set, _ = training_and_dev(of(corpora[0]))
    short = {utt: x[1:] if utt == "train1-4" else x for utt, x in other_features("train").items()}
    write_data_dir(tmp_path / "short", short)
    with pytest.raises(InputError, match=r"short/feats.ark.*train1-4 has \d+ frames of features"):
        with_other(train_set, tmp_path / "short").check()
