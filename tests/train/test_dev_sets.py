"""Several validation sets are told apart, and drive the learning rate as one."""

from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.data.corpus.sets import open_sets
from bayes_asr.train.start import train
from tests.support.small_corpus import made_up, write_alignments, write_corpus, write_data_dir
from tests.support.training_runs import config_of, history_of, states
from tests.support.two_streams import BOTH, OTHER, other_features, write_both

FEATURES, ALIGNED = made_up("dev", 4)
FIRST = ("dev0-0", "dev0-1", "dev0-2")
SECOND = ("dev1-3",)
SEVERAL = (
    "data.dev.features_all_of=[data/clean, data/noisy]",
    "data.dev.alignments_all_of=[exp/clean, exp/noisy]",
)


def divide(root: Path) -> Path:
    """Give dev as two sets, by speakers."""
    for name, utterances in (("clean", FIRST), ("noisy", SECOND)):
        write_data_dir(root / "data" / name, {utt: FEATURES[utt] for utt in utterances})
        write_alignments(root / "exp" / name, [(utt, ALIGNED[utt]) for utt in utterances])
    return root


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return divide(write_corpus(tmp_path / "corpus"))


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["newbob", "cosine"])
def test_a_run_is_that_of_both_sets_as_one(schedule: str, corpus: Path, tmp_path: Path) -> None:
    options = (f"train.schedule={schedule}", "train.epochs=4")
    train(config_of(corpus, *options), tmp_path / "one")
    train(config_of(corpus, *SEVERAL, *options), tmp_path / "several")
    one, several = (states(tmp_path / name) for name in ("one", "several"))
    losses = {key for key in one if key.endswith(" dev_loss")}
    assert one.keys() == several.keys()
    assert not [k for k in one.keys() - losses if not np.array_equal(one[k], several[k])]
    for key in losses:  # summed in another order
        np.testing.assert_allclose(one[key], several[key], rtol=1e-6)


def test_each_set_is_told_and_weighs_by_its_frames(
    corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LOGGER, "propagate", True)
    caplog.set_level("INFO", "bayes_asr")
    train(config_of(corpus, *SEVERAL), tmp_path / "several")
    for name, utterances in (("clean", FIRST), ("noisy", SECOND)):
        alone = (f"data.dev.features=data/{name}", f"data.dev.alignments=exp/{name}")
        train(config_of(corpus, *alone, "train.schedule=newbob"), tmp_path / name)
        frames = sum(len(FEATURES[utt]) for utt in utterances)
        # The rate of the first two epochs does not depend on dev: the networks are the same.
        for entry, of_one in zip(
            history_of(tmp_path / "several"), history_of(tmp_path / name), strict=True
        ):
            found = entry["dev_sets"][name]
            assert found["frames"] == frames
            assert found["error"] == of_one["dev_error"]
            np.testing.assert_allclose(found["loss"], of_one["dev_loss"], rtol=1e-6)
            assert f"{name}: loss {found['loss']:.3f}, error {found['error']:.4f}" in caplog.text
    for entry in history_of(tmp_path / "several"):
        parts = entry["dev_sets"].values()
        total = sum(part["frames"] for part in parts)
        for key in ("loss", "error"):
            mean = sum(part["frames"] * part[key] for part in parts) / total
            np.testing.assert_allclose(entry[f"dev_{key}"], mean, rtol=1e-12)
    assert "dev_sets" not in history_of(tmp_path / "clean")[0]


def test_each_set_has_streams_of_its_own(tmp_path: Path) -> None:
    root = divide(write_both(tmp_path))
    for name, utterances in (("clean", FIRST), ("noisy", SECOND)):
        other = other_features("dev")
        write_data_dir(root / "other" / name, {utt: other[utt] for utt in utterances})
    several = [
        f"data.dev.streams.{OTHER}=null",
        f"data.dev.streams_all_of.{OTHER}=[other/noisy, other/clean]",
    ]
    _, dev = open_sets(config_of(root, *BOTH, *SEVERAL, *several))
    assert {name: list(lengths) for name, lengths in dev.parts.items()} == {
        "clean": [*FIRST],
        "noisy": [*SECOND],
    }
    for utt, x in other_features("dev").items():
        np.testing.assert_array_equal(dev.prepare(utt)[OTHER], x)


def test_sets_of_one_name_are_called_by_their_paths(corpus: Path) -> None:
    write_data_dir(corpus / "b/clean", {utt: FEATURES[utt] for utt in SECOND})
    more = ("data.dev.features_all_of=[data/clean, b/clean]",)
    _, dev = open_sets(config_of(corpus, *SEVERAL, *more))
    assert list(dev.parts) == [str(corpus / "data/clean"), str(corpus / "b/clean")]


def test_an_utterance_of_two_sets_is_refused(corpus: Path) -> None:
    write_data_dir(corpus / "data/noisy", FEATURES)
    with pytest.raises(InputError, match=r"noisy/feats.scp: dev0-0 has features in .*clean/feats"):
        open_sets(config_of(corpus, *SEVERAL))
