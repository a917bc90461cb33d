"""Sets of an experiment that was moved, or that lacks something: what is found and said."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.references import data_with_stm
from bayes_asr.data.corpus.sets import is_labelled, open_sets, training_and_dev
from bayes_asr.data.directories import locate_all
from bayes_asr.data.features.skipped import report_skipped
from tests.attacks.breakages import unprivileged
from tests.support.small_corpus import (
    DIMENSIONS,
    made_up,
    write_alignments,
    write_corpus,
    write_data_dir,
)
from tests.support.training_runs import config_of


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus")


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is logged, as one string when asked."""
    monkeypatch.setattr(LOGGER, "propagate", True)
    return lambda: caplog.text


# --- archives that are elsewhere


def rename(root: Path, old: str, new: str) -> None:
    """Let all tables below `root` name other files."""
    for scp in root.rglob("*.scp"):
        scp.write_text(scp.read_text().replace(f" {old}", f" {new}"))


def frames_of(config: Config, index: Index | None = None) -> int:
    train, dev = open_sets(config, None, index)
    return sum(len(data.prepare(utt)["features"]) for data in (train, dev) for utt in data.lengths)


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("above", ["data/", ""], ids=["root", "above the root"])
def test_relative_names_are_of_the_root_of_the_experiment_wherever_one_is(
    above: str, indexed: bool, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = frames_of(config_of(corpus, "features.cmvn=mean"))
    rename(corpus, f"{corpus}/" if above else f"{tmp_path}/", "")
    monkeypatch.chdir("/")
    index = Index(tmp_path / "index") if indexed else None
    for _ in range(2):
        assert frames_of(config_of(corpus, "features.cmvn=mean"), index) == expected


@pytest.mark.parametrize("indexed", [True, False])
def test_experiment_of_another_machine_is_read_by_its_new_place(
    indexed: bool, corpus: Path, tmp_path: Path
) -> None:
    config = config_of(corpus, "features.cmvn=mean")
    expected = frames_of(config)
    rename(corpus, f"{corpus}/data/", "/home/anna/egs/timit/")
    index = Index(tmp_path / "index") if indexed else None
    said = r"feats.scp: cannot open train0-0 in /home/anna/egs/timit/train/feats.ark: No such file;"
    with pytest.raises(InputError, match=f"{said}.* data.moved=OLD=NEW in the"):
        frames_of(config, index)
    for old in ("/home/anna/egs/timit", "/home/anna/egs/timit/", "/"):
        new = corpus / "data" if "anna" in old else tmp_path / "root"
        if old == "/":
            shutil.copytree(corpus / "data", new / "home/anna/egs/timit")
        moved = ("features.cmvn=mean", f"data.moved=[/home/ann=/x, {old}={new}]")
        assert frames_of(config_of(corpus, *moved), index) == expected


def test_absent_statistics_are_named_where_they_are_used(corpus: Path) -> None:
    (corpus / "data/train/cmvn.ark").rename(corpus / "moved.ark")
    assert frames_of(config_of(corpus))
    with pytest.raises(InputError, match=r"cmvn.scp: cannot open train0 in .*/train/cmvn.ark: No"):
        frames_of(config_of(corpus, "features.cmvn=mean"))


def test_relative_name_that_is_nowhere_says_where_it_was_looked_for(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename(corpus, f"{corpus}/data", "exp")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as raised:
        frames_of(config_of(corpus))
    assert str(raised.value) == (
        f"{corpus}/data/train/feats.scp: cannot open train0-0 in exp/train/feats.ark: No such file"
        f" in the working directory {tmp_path} or in a folder above the table; correct the table,"
        " or give the new place of a folder by data.moved=OLD=NEW in the configuration (of a run"
        " config.yaml)"
    )


@pytest.mark.parametrize("wrong", ["/a", "=/b", "=/b=c", "[/a=/b, c]"])
def test_moves_without_two_folders_are_refused(wrong: str) -> None:
    with pytest.raises(InputError, match=r"data.moved has .*; write OLD=NEW"):
        load([], [f"data.moved={wrong}"])


# --- directories by a part of their names


def test_directories_are_found_by_a_part_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "exp/tri3_ali_dev").mkdir(parents=True)
    (tmp_path / "data/dev_clean").mkdir(parents=True)
    (tmp_path / "data/dev_clean/stm").touch()
    aligned, featured = "data.dev.alignments=[exp/tri*_dev]", "data.dev.features=[data/dev_*]"
    config = load([], [f"data.dir={tmp_path}", aligned, featured])
    assert is_labelled(config, config.data.dev)
    assert data_with_stm(config.data, "dev") == tmp_path / "data/dev_clean"


def test_an_stm_is_found_in_a_directory_that_is_to_be_there(tmp_path: Path) -> None:
    for name in ("clean", "noisy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stm").touch()
    one, both = (
        load([], [f"data.dir={tmp_path}", f"data.dev.features_all_of=[{names}]"])
        for names in ("noisy", "clean,noisy")
    )
    assert data_with_stm(one.data, "dev") == tmp_path / "noisy"
    with pytest.raises(InputError, match=r"data.dev.features_all_of has 2: write one directory"):
        data_with_stm(both.data, "dev")


@pytest.mark.parametrize("name", ["dev", "de*"])
def test_a_folder_that_may_not_be_entered_is_not_said_to_be_absent(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "data/dev").mkdir(parents=True)
    config = load([], [f"data.dir={tmp_path}", f"data.dev.features=[data/{name}]"])
    (tmp_path / "data").chmod(0)
    with unprivileged(), pytest.raises(PermissionError):
        locate_all(config.data, "dev", "features")
    (tmp_path / "data").chmod(0o700)


# --- archives of jobs


@pytest.mark.parametrize("indexed", [True, False])
def test_missing_archive_of_alignments_is_named(
    indexed: bool, corpus: Path, tmp_path: Path
) -> None:
    (corpus / "exp/ali/num_jobs").write_text("2\n")
    index = Index(tmp_path / "index") if indexed else None
    assert frames_of(config_of(corpus), index)
    (corpus / "exp/ali/ali.2.gz").unlink()
    with pytest.raises(
        InputError, match=r"exp/ali: ali.2.gz is missing: num_jobs says 2, but only"
    ):
        frames_of(config_of(corpus, "data.max_skipped=1"), index)


# --- what is skipped


@pytest.mark.parametrize(
    ("skipped", "total", "enough"),
    [(6, 80, "0.08"), (29, 100, "0.29"), (7, 100, "0.07"), (1, 3, "0.34"), (5, 5, "1")],
)
def test_remedy_of_skipped_utterances_is_enough(
    skipped: int, total: int, enough: str, messages: Any
) -> None:
    utterances = [str(number) for number in range(skipped)]
    with pytest.raises(InputError, match=rf" --set data.max_skipped={enough}$"):
        report_skipped("why", utterances, total, 0.05)
    with pytest.raises(InputError, match=rf" --max-skipped {enough}$"):
        report_skipped("why", utterances, total, 0.05, "--max-skipped")
    report_skipped("why", utterances, total, float(enough))
    assert f"for {skipped} of {total} utterances" in messages()


def test_set_without_any_alignment_says_what_to_name(corpus: Path) -> None:
    _, alignments = made_up("other", 3)
    write_alignments(corpus / "exp/ali", alignments.items())
    with pytest.raises(
        InputError, match=r"name those of these utterances as data.train.alignments$"
    ):
        open_sets(config_of(corpus, "data.max_skipped=1"))


# --- features that the recipe does not expect


def narrow(size: int) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        for name, count in (("train", 12), ("dev", 4)):
            features, _ = made_up(name, count)
            wide = {utt: matrix.repeat(4, axis=1)[:, :size] for utt, matrix in features.items()}
            write_data_dir(root / "data" / name, wide)

    return write


CMVN, DELTAS = "--set features.cmvn=mean-variance", "--set features.deltas=2"


@pytest.mark.parametrize(
    ("size", "settings", "cure"),
    [
        (13, (), f"{CMVN} {DELTAS}"),
        (13, ("features.cmvn=mean-variance",), DELTAS),
        (13, ("features.deltas=2",), CMVN),
        (13, ("features.cmvn=mean-variance", "features.deltas=2"), ""),
        (16, (), CMVN),
    ],
)
def test_unexpected_features_come_with_what_they_want(
    size: int, settings: tuple[str, ...], cure: str, corpus: Path, messages: Any
) -> None:
    narrow(size)(corpus)
    training_and_dev(config_of(corpus, "data.expected_dims=[40, 50]", *settings))
    said = re.search(r"have (\d+) dimensions .* not comparable(.*)", messages())
    assert said
    assert (int(said[1]), said[2].partition(" want ")[2]) == (size, cure)
    assert size != DIMENSIONS
