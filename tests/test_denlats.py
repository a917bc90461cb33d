"""From a run to lattices of what might have been said, and to a run that is trained on them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bayes_asr.cli import main
from bayes_asr.config import load
from bayes_asr.denlats import write_weak_graph
from bayes_asr.lattices.aligned import align_lattice
from bayes_asr.tables.lattice import iter_lattices
from bayes_asr.targets.alignments import Alignments
from tests.support.places import CONF
from tests.support.small_corpus import settings
from tests.support.spoken_corpus import write_spoken_experiment
from tests.support.training_runs import history_of


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = write_spoken_experiment(tmp_path_factory.mktemp("spoken"), {"train": 9, "dev": 3})
    more = ("data.graph=[graph]", "decode.acoustic_scale=0.3")
    out = f"--out={made / 'run'}"
    assert main(["train", str(CONF / "base.yaml"), *settings(made, *more), out]) == 0
    return made


@pytest.fixture(scope="module")
def denlats(root: Path) -> Path:
    out = root / "denlats"
    words = ["denlats", str(root / "run"), f"--graph={root / 'graph'}", f"--out={out}"]
    assert main(words) == 0
    return out


def test_lattices_have_the_frames_of_all_utterances(root: Path, denlats: Path) -> None:
    for on, ali in (("train", "ali"), ("dev", "ali_dev")):
        aligned = Alignments(root / "exp" / ali)
        found = {
            utt: align_lattice(lattice, 0.0).num_frames
            for utt, lattice in iter_lattices(denlats / on / "lat.1.gz")
        }
        assert found == dict(aligned.lengths)


def test_a_run_learns_on_them(root: Path, denlats: Path) -> None:
    run = root / "smbr"
    words = ["train", str(root / "run"), "--criterion=smbr", f"--out={run}"]
    values = [f"data.{on}.lattices=[{denlats / on}]" for on in ("train", "dev")]
    values += ["train.epochs=3", "train.learning_rate=0.01", "train.sequence.silence_phones=[1]"]
    assert main([*words, *(f"--set={value}" for value in values)]) == 0
    losses = [entry["train_loss"] for entry in history_of(run)]
    assert losses[-1] < losses[0]
    assert load([run / "config.yaml"]).train.sequence.acoustic_scale == 0.3


def test_graph_is_of_the_training_text(kaldi_corpus: Callable[[str], Path], tmp_path: Path) -> None:
    """A unigram of phones: each is said after each."""
    corpus, run = kaldi_corpus("timit_sample"), tmp_path / "run"
    run.mkdir()
    config = {"data": {"dir": str(corpus), "train": {"alignments": ["exp/tri3_ali"]}}}
    (run / "config.yaml").write_text(json.dumps(config))
    write_weak_graph(run, corpus / "data" / "lang", tmp_path / "graph")
    assert (tmp_path / "graph" / "phones" / "silence.csl").read_text() == "1\n"
    assert (tmp_path / "graph" / "HCLG.fst").exists()


def test_lattices_need_a_graph(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["denlats", str(root / "run"), f"--out={root / 'none'}"])
    assert "one of the arguments --lang --graph is required" in capfd.readouterr().err
