"""From a run to lattices of what might have been said, and to a run that is trained on them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.decode.lattices.aligned import align_lattice
from bayes_asr.decode.search import embedded_decoder
from bayes_asr.kaldi_io.lattice_files import iter_lattices
from bayes_asr.kaldi_io.text import read_text, write_text
from bayes_asr.tasks.lattices.denlats import write_weak_graph
from tests.support.places import CONF, ROOT
from tests.support.small_corpus import settings
from tests.support.spoken_corpus import write_spoken_experiment
from tests.support.training_runs import (
    Killed,
    assert_same,
    at_batch,
    history_of,
    kill,
    states,
)

sys.path.insert(0, str(ROOT / "benchmarks"))
import posteriors

TRAINED = 9  # utterances
EPOCH = 4  # batches, and one of validation


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = write_spoken_experiment(tmp_path_factory.mktemp("spoken"), {"train": TRAINED, "dev": 3})
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


@pytest.mark.slow
def test_lattices_have_the_frames_of_all_utterances(root: Path, denlats: Path) -> None:
    for on, ali in (("train", "ali"), ("dev", "ali_dev")):
        aligned = Alignments(root / "exp" / ali)
        found = {
            utt: align_lattice(lattice, 0.0).num_frames
            for utt, lattice in iter_lattices(denlats / on / "lat.1.gz")
        }
        assert found == dict(aligned.lengths)


@pytest.mark.kaldi
@pytest.mark.skipif("KALDI_ROOT" not in os.environ, reason="KALDI_ROOT is not set")
@pytest.mark.parametrize("one_class", [False, True])
@pytest.mark.parametrize("criterion", posteriors.KALDIS)
def test_their_posteriors_are_kaldis(
    criterion: str, one_class: bool, root: Path, denlats: Path, tmp_path: Path
) -> None:
    ali = root / "exp" / "ali"
    posteriors.lay_out(denlats / "train" / "lat.1.gz", ali, TRAINED, tmp_path)
    found = posteriors.compare(criterion, tmp_path, ali, 0.2, "1", one_class)
    assert found["utterances"] == TRAINED
    assert found["posteriors"] > 200
    assert found["largest_difference"] < 1e-4


def test_a_run_learns_on_them(root: Path, denlats: Path) -> None:
    run = root / "smbr"
    words = ["train", str(root / "run"), "--criterion=smbr", f"--out={run}"]
    values = [f"data.{on}.lattices=[{denlats / on}]" for on in ("train", "dev")]
    values += ["train.epochs=3", "train.learning_rate=0.01", "train.sequence.silence_phones=[1]"]
    assert main([*words, *(f"--set={value}" for value in values)]) == 0
    losses = [entry["train_loss"] for entry in history_of(run)]
    assert losses[-1] < losses[0]
    assert load([run / "config.yaml"]).train.sequence.acoustic_scale == 0.3


@pytest.fixture(scope="module")
def renewing(root: Path, denlats: Path) -> list[str]:
    """A command line for three epochs, each but the first on lattices of the one before."""
    values = [f"data.{on}.lattices=[{denlats / on}]" for on in ("train", "dev")]
    values += ["train.epochs=3", "train.learning_rate=0.03", "train.sequence.silence_phones=[1]"]
    values += ["train.sequence.lattices=each-epoch", "train.schedule=list"]
    values += ["train.learning_rates={1: 0.03, 3: 0.01}"]
    words = ["train", str(root / "run"), "--criterion=smbr"]
    return [*words, *(f"--set={value}" for value in values)]


@pytest.fixture(scope="module")
def renewed(root: Path, renewing: list[str]) -> Path:
    """A run of these that nobody has disturbed."""
    assert main([*renewing, f"--out={root / 'renewed'}"]) == 0
    return root / "renewed"


def read_lattices(folder: Path) -> dict[str, bytes]:
    found = iter_lattices(folder / "lat.1.gz")
    return {utt: align_lattice(lattice, 0.0).pack().tobytes() for utt, lattice in found}


@pytest.mark.slow
def test_lattices_of_an_epoch_are_those_of_its_network(
    root: Path, denlats: Path, renewing: list[str], renewed: Path, tmp_path: Path
) -> None:
    """The last ones stand in the run: what denlats makes of a run of the epochs before."""
    two = tmp_path / "two"
    assert main([*renewing, "--set=train.epochs=2", f"--out={two}"]) == 0
    (two / "best.pt").write_bytes((two / "last.pt").read_bytes())
    words = ["denlats", str(two), f"--graph={root / 'graph'}", "--on", "train"]
    assert main([*words, f"--out={tmp_path / 'made'}"]) == 0
    indexed = {path.parent for path in root.rglob("lattices-*.npz")}
    assert indexed == {root / "index", renewed / "lattices" / "index"}
    assert len(list((root / "index").glob("lattices-*.npz"))) == 2  # of train and dev
    found = read_lattices(renewed / "lattices")
    assert found == read_lattices(tmp_path / "made" / "train")
    assert found != read_lattices(denlats / "train")
    noted, first = (
        json.loads((folder / "decode.json").read_text())
        for folder in (renewed / "lattices", denlats / "train")
    )
    assert noted == {**first, "epoch": 2}


def test_such_a_run_is_not_that_on_the_first_lattices(
    root: Path, renewing: list[str], renewed: Path
) -> None:
    once = root / "once"
    assert main([*renewing, "--set=train.sequence.lattices=once", f"--out={once}"]) == 0
    assert not (once / "lattices").exists()
    losses = [[entry["train_loss"] for entry in history_of(run)] for run in (renewed, once)]
    assert losses[0][0] == losses[1][0]
    assert losses[0][1:] != losses[1][1:]


@contextmanager
def at_decoding(number: int, action: Callable[[], object]) -> Iterator[None]:
    """Do something when an utterance is decoded as the `number`th."""
    decode, numbers = embedded_decoder.decode_one, count(1)

    def counting(*arguments: Any) -> Any:
        if next(numbers) == number:
            action()
        return decode(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded_decoder, "decode_one", counting)
        yield


def test_lattices_of_an_ended_call_are_not_made_again(
    root: Path, denlats: Path, tmp_path: Path
) -> None:
    words = ["denlats", str(root / "run"), f"--graph={root / 'graph'}", f"--out={tmp_path}"]
    with at_decoding(4, kill), suppress(Killed):
        main(words)
    with at_decoding(TRAINED, kill), suppress(Killed):
        main(words)
    assert read_lattices(tmp_path / "train") == read_lattices(denlats / "train")


def end_by_signal() -> None:
    os.kill(os.getpid(), SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("disturbed", "ends"),
    [
        (at_batch(EPOCH + 2, kill), None),
        (at_decoding(TRAINED + 2, kill), None),
        (at_decoding(2, end_by_signal), 128 + SIGTERM),
    ],
    ids=["in the second epoch", "while lattices are made", "by a signal meanwhile"],
)
def test_a_run_that_was_ended_goes_on_with_its_lattices(
    disturbed: AbstractContextManager[None],
    ends: int | None,
    renewing: list[str],
    renewed: Path,
    tmp_path: Path,
) -> None:
    words = [*renewing, "--set=train.save_minutes=0", f"--out={tmp_path / 'run'}"]
    with disturbed, suppress(Killed):
        assert main(words) == ends
    assert main(words) == 0
    assert_same(states(tmp_path / "run"), states(renewed))


@pytest.mark.slow
def test_two_processes_learn_on_the_lattices_that_one_makes(
    renewing: list[str], renewed: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "bayes_asr", *renewing, "--nproc", "2", f"--out={run}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    losses, alone = ([entry["train_loss"] for entry in history_of(of)] for of in (run, renewed))
    assert losses == pytest.approx(alone, rel=1e-4)
    found = read_lattices(run / "lattices")
    assert found.keys() == read_lattices(renewed / "lattices").keys()
    assert json.loads((run / "lattices" / "decode.json").read_text())["epoch"] == 2


@pytest.mark.slow
def test_lattices_that_an_epoch_was_not_begun_with_are_refused(
    denlats: Path,
    renewing: list[str],
    renewed: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = [*renewing, "--set=train.save_minutes=0", f"--out={tmp_path / 'run'}"]
    with at_batch(EPOCH + 2, kill), suppress(Killed):
        main(words)
    folder = tmp_path / "run" / "lattices"
    (folder / "lat.1.gz").write_bytes((denlats / "train" / "lat.1.gz").read_bytes())
    assert main(words) == 1
    assert f"{folder}: has changed since epoch 2 was begun; remove it" in capfd.readouterr().err
    shutil.rmtree(folder)
    assert main(words) == 0
    assert_same(states(tmp_path / "run"), states(renewed))


@pytest.mark.slow
def test_the_network_of_an_epoch_is_wanted_for_its_lattices(
    renewing: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    words = [*renewing, "--set=train.save_minutes=0", f"--out={run}"]
    with at_batch(EPOCH + 2, kill), suppress(Killed):
        main(words)
    shutil.rmtree(run / "lattices")
    (run / "last.pt").write_bytes((run / "last.pt").read_bytes()[:1000])
    assert main(words) == 1
    said = capfd.readouterr().err
    assert f"{run / 'last.pt'}: the network of epoch 1, which makes the lattices of epoch 2" in said


@pytest.mark.slow
def test_lattices_of_an_epoch_that_cannot_be_read_are_to_be_removed(
    renewing: list[str], renewed: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [*renewing, "--set=train.save_minutes=0", f"--out={tmp_path / 'run'}"]
    with at_batch(EPOCH + 2, kill), suppress(Killed):
        main(words)
    folder = tmp_path / "run" / "lattices"
    (folder / "lat.1.gz").write_bytes((folder / "lat.1.gz").read_bytes()[:200])
    assert main(words) == 1
    assert f"(this run made {folder}: remove it, and the same" in capfd.readouterr().err
    shutil.rmtree(folder)
    assert main(words) == 0
    assert_same(states(tmp_path / "run"), states(renewed))


def refused(
    renewing: list[str], lattices: str, run: Path, capfd: pytest.CaptureFixture[str]
) -> str:
    """What is said of other lattices to begin with."""
    assert main([*renewing, f"--set=data.train.lattices=[{lattices}]", f"--out={run}"]) == 1
    return capfd.readouterr().err


@pytest.mark.slow
def test_first_lattices_must_say_how_they_were_made(
    root: Path,
    denlats: Path,
    renewing: list[str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    copy = Path(shutil.copytree(denlats / "train", tmp_path / "copy"))
    graph = Path(shutil.copytree(root / "graph", tmp_path / "graph"))
    record = json.loads((copy / "decode.json").read_text())
    refuse = partial(refused, renewing, run=tmp_path / "run", capfd=capfd)
    said = refuse(f"{copy},{denlats / 'train'}")
    assert "data.train.lattices has 2 folders; give one" in said
    (copy / "decode.json").write_text(json.dumps({**record, "graph": str(graph), "beam": 0}))
    assert "decode.json: does not say how lattices were made" in refuse(str(copy))
    (copy / "decode.json").write_text(json.dumps({**record, "graph": str(graph)}))
    (graph / "HCLG.fst").write_bytes((graph / "HCLG.fst").read_bytes() + b" ")
    assert "HCLG.fst: has changed since the lattices of" in refuse(str(copy))
    (graph / "HCLG.fst").unlink()
    assert "HCLG.fst: gone, but the lattices of" in refuse(str(copy))
    (copy / "decode.json").unlink()
    assert "decode.json: missing, so nothing says how these" in refuse(str(copy))
    assert not (tmp_path / "run" / "last.pt").exists()


@pytest.mark.slow
def test_graph_is_of_the_training_text(kaldi_corpus: Callable[[str], Path], tmp_path: Path) -> None:
    """A unigram of phones: each is said after each."""
    corpus, run = kaldi_corpus("timit_sample"), tmp_path / "run"
    run.mkdir()
    config = {"data": {"dir": str(corpus), "train": {"alignments": ["exp/tri3_ali"]}}}
    (run / "config.yaml").write_text(json.dumps(config))
    write_weak_graph(run, corpus / "data" / "lang", tmp_path / "graph")
    assert (tmp_path / "graph" / "phones" / "silence.csl").read_text() == "1\n"
    assert (tmp_path / "graph" / "HCLG.fst").exists()


def test_a_training_text_in_another_case_is_refused(
    kaldi_corpus: Callable[[str], Path], tmp_path: Path
) -> None:
    corpus, run = kaldi_corpus("timit_sample"), tmp_path / "run"
    data = tmp_path / "data"
    shutil.copytree(corpus / "data" / "train", data)
    text = {utt: [w.upper() for w in words] for utt, words in read_text(data / "text").items()}
    write_text(text.items(), data / "text")
    run.mkdir()
    sets = {"features": [str(data)], "alignments": [str(corpus / "exp/tri3_ali")]}
    (run / "config.yaml").write_text(json.dumps({"data": {"train": sets}}))
    with pytest.raises(InputError, match="has no word of the lexicon"):
        write_weak_graph(run, corpus / "data" / "lang", tmp_path / "graph")


def test_a_lang_folder_that_numbers_phones_differently_is_refused(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "phones.txt").write_text("<eps> 0\nsil 2\n")
    with pytest.raises(InputError, match=r"phones\.txt: the id of sil is 2, but 1 in .*exp/ali/"):
        write_weak_graph(root / "run", tmp_path, tmp_path / "graph")


def test_lattices_need_a_graph(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["denlats", str(root / "run"), f"--out={root / 'none'}"])
    assert "one of the arguments --lang --graph is required" in capfd.readouterr().err
    words = ["denlats", str(root / "run"), f"--graph={root / 'graph'}", f"--out={root / 'none'}"]
    assert main([*words, "--order=2"]) == 1
    assert "--order is of the model that --lang makes; leave it out" in capfd.readouterr().err


def test_graphs_of_another_model_are_refused(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    graph = Path(shutil.copytree(root / "graph", tmp_path / "graph"))
    (graph / "num_pdfs").write_text("99\n")
    assert (
        main(["denlats", str(root / "run"), f"--graph={graph}", f"--out={tmp_path / 'out'}"]) == 1
    )
    assert f"{graph / 'num_pdfs'}: the graph was made with a model of 99 pdfs, but" in (
        capfd.readouterr().err
    )


def test_a_dev_set_that_is_held_out_of_train_has_no_lattices(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(root / "run", tmp_path / "run"))
    said = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(said.replace("exp/ali_dev", "exp/none"))
    words = ["denlats", str(run), f"--graph={root / 'graph'}", f"--out={tmp_path / 'out'}"]
    assert main(words) == 0
    assert "data.dev.lattices" not in capfd.readouterr().out
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["train"]
