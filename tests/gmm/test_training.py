"""Trainings of Gaussian mixtures: as Kaldi's, whatever ends them and whoever shares them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_asr.base import shards
from bayes_asr.base.errors import InputError
from bayes_asr.base.processes.pool import map_serially, open_pool
from bayes_asr.base.shards import Mapper
from bayes_asr.cli import main
from bayes_asr.gmm import clusterable, resumable
from bayes_asr.gmm.alignment import ALIGN_SI
from bayes_asr.gmm.decoding import group_utterances
from bayes_asr.gmm.features import SpeakerFeatures, read_pipeline, read_transforms
from bayes_asr.gmm.fmllr import adapt_speaker
from bayes_asr.gmm.occupation import PdfWeights
from bayes_asr.gmm.progress import PROGRESS_FILE
from bayes_asr.gmm.realignment import Realignment
from bayes_asr.gmm.resumable import PhaseRunner, StepFolders
from bayes_asr.gmm.schedule import DELTAS, LDA_MLLT, MONOPHONES, SAT
from bayes_asr.gmm.trainers import GmmTrainer
from bayes_asr.kaldi_io.data_dir import read_data_dir
from tests.support.golden_data import SILENCE, find_lang, lay_out, write_few, write_golden_data
from tests.support.kaldi_jobs import CMD, Jobs
from tests.support.mixtures import golden_gmms

SCHEDULES = {"mono": MONOPHONES, "tri1": DELTAS, "tri2": LDA_MLLT, "tri3": SAT}
SHORT: dict[str, Any] = {  # phases of every kind, in two passes
    "passes": 2,
    "growing": 1,
    "realign": (1,),
    "adapt": (1,),
    "gaussians": 200,
}


def read_golden(name: str) -> list[float]:
    lines = (golden_gmms().root / name / "loglike_per_frame").read_text().splitlines()
    return [float(line.split()[1]) for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "before"), [("tri1", "mono_ali"), ("tri3", "tri2_ali")])
def test_each_pass_fits_as_kaldis(name: str, before: str, tmp_path: Path) -> None:
    """With tree, transforms, realignment and splitting of our own; the tenth pass aligns anew."""
    data = write_golden_data(golden_gmms(), tmp_path / "data")
    schedule = replace(SCHEDULES[name], leaves=200, gaussians=1000, passes=12)
    out = tmp_path / "out"
    folders = StepFolders(data, find_lang(), lay_out(before, tmp_path), out)
    GmmTrainer(schedule, folders, map_serially).run()
    assert read_likelihoods(out) == pytest.approx(read_golden(name)[:12], abs=2e-3)


@pytest.mark.slow
def test_model_that_was_not_adapted_can_adapt(tmp_path: Path) -> None:
    """As Kaldi's align_fmllr.sh with tri2: its own alignments say what each speaker is like."""
    golden = golden_gmms()
    data, tri2 = write_golden_data(golden, tmp_path / "data"), lay_out("tri2_ali", tmp_path)
    out = tmp_path / "adapted"
    Realignment(StepFolders(data, find_lang(), tri2, out), map_serially, ALIGN_SI, adapt=True).run()
    model, mixtures = golden.model("tri2/final.mdl")
    features = SpeakerFeatures(read_data_dir(data), read_pipeline(tri2))
    aligned = dict(golden.alignments("tri2_ali").items())  # by Kaldi
    found = read_transforms(out)
    for speaker, utts in group_utterances(features.speakers).items():
        spoken = (
            (features[utt], PdfWeights.from_alignment(model, aligned[utt], SILENCE))
            for utt in utts
            if utt in aligned
        )
        expected = adapt_speaker(speaker, spoken, mixtures)
        np.testing.assert_allclose(found[speaker], expected, rtol=0, atol=1e-5)
    assert (out / "ali.1.gz").read_bytes() != (tri2 / "ali.1.gz").read_bytes()


def read_likelihoods(out: Path) -> list[float]:
    return list(json.loads((out / PROGRESS_FILE).read_text())["log_likelihoods"])


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dozen utterances of the golden data, of all its speakers."""
    folder = tmp_path_factory.mktemp("few")
    write_few(folder / "data")
    return folder


def train_few(few: Path, name: str, out: Path, way: Mapper = map_serially) -> dict[str, bytes]:
    """Train three passes; what the folder then holds."""
    before = {"mono": None, "tri1": "mono_ali", "tri2": "tri1_ali", "tri3": "tri2_ali"}[name]
    alignments = None
    if before:
        alignments = few / before
        if not alignments.exists():
            lay_out(before, few)
    folders = StepFolders(few / "data", find_lang(), alignments, out)
    GmmTrainer(replace(SCHEDULES[name], **SHORT), folders, way).run()
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


@pytest.fixture
def hasty_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cluster phones from one start instead of ten."""
    monkeypatch.setattr(clusterable, "TRIES", 1)


class EndedError(Exception):
    """Stands for a kill."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.usefixtures("hasty_clusters")
def test_training_that_ends_anywhere_goes_on_to_the_same_files(
    name: str, few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = train_few(few, name, tmp_path / "undisturbed")
    assert {"final.mdl", "tree", "ali.1.gz", "final.occs", "phones.txt", "num_jobs"} <= due.keys()
    assert "pass.mdl" not in due
    commit_phase = PhaseRunner.commit_phase
    ends = 0

    @contextmanager
    def complete_and_end(runner: PhaseRunner) -> Iterator[None]:
        """End after each phase, and within it when all its files are written."""
        nonlocal ends
        done = runner.progress.completed
        with commit_phase(runner):
            yield
            ends += 1
            if ends % 2:
                raise EndedError
        assert runner.progress.completed == done + 1
        raise EndedError

    monkeypatch.setattr(PhaseRunner, "commit_phase", complete_and_end)
    phases = len(list(replace(SCHEDULES[name], **SHORT).phases()))
    for _ in range(2 * phases):
        with pytest.raises(EndedError):
            train_few(few, name, tmp_path / "ended")
        assert not (tmp_path / "ended" / "final.mdl").exists() or ends == 2 * phases
    assert train_few(few, name, tmp_path / "ended") == due


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mono", "tri3"])
@pytest.mark.usefixtures("hasty_clusters")
def test_processes_leave_the_same_files(
    name: str, few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable, "SHARE_FRAMES", 900)
    monkeypatch.setattr(resumable, "SHARE_ITEMS", 5)
    due = train_few(few, name, tmp_path / "one")
    with open_pool(2) as way:
        assert train_few(few, name, tmp_path / "two", way) == due


@pytest.mark.slow
@pytest.mark.usefixtures("hasty_clusters")
def test_jobs_leave_the_same_files(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable, "SHARE_FRAMES", 900)
    monkeypatch.setattr(resumable, "SHARE_ITEMS", 5)
    jobs = Jobs()
    monkeypatch.setattr(shards, "run_array", jobs)
    lay_out("tri2_ali", tmp_path)
    words = ["gmm", "sat", few / "data", find_lang(), tmp_path / "tri2_ali"]
    options = ["--leaves=60", "--gaussians=100", "--passes=2"]
    one, two = tmp_path / "one", tmp_path / "two"
    assert main([*map(str, [*words, one]), *options]) == 0
    assert main([*map(str, [*words, two]), *options, f"--cmd={CMD}", "--nj=3"]) == 0
    assert len(jobs.calls) == 7  # adapt, tree, compile, adapt, two estimations, unadapt
    assert not (two / "shards").exists()
    assert {p.name: p.read_bytes() for p in one.iterdir() if p.is_file()} == {
        p.name: p.read_bytes() for p in two.iterdir() if p.is_file()
    }


@pytest.mark.slow
def test_other_options_and_inputs_begin_anew(few: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    train_few(few, "mono", out)
    model = (out / "final.mdl").read_bytes()
    fewer = replace(SCHEDULES["mono"], **{**SHORT, "gaussians": 150})
    GmmTrainer(fewer, StepFolders(few / "data", find_lang(), None, out), map_serially).run()
    assert (out / "final.mdl").read_bytes() != model
    train_few(few, "mono", out)
    assert (out / "final.mdl").read_bytes() == model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "results"),
    [("tri2", ["final.mat"]), ("tri3", ["final.mat", "trans.1", "final.alimdl"])],
)
@pytest.mark.usefixtures("hasty_clusters")
def test_every_result_that_is_lost_is_made_anew(
    name: str, results: list[str], few: Path, tmp_path: Path
) -> None:
    due = train_few(few, name, tmp_path / "out")
    for lost in results:
        (tmp_path / "out" / lost).unlink()
        assert train_few(few, name, tmp_path / "out") == due


@pytest.mark.parametrize("name", ["final.mdl", "ali.3.gz", "cmvn_opts"])
def test_files_of_others_stay(name: str, few: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"of Kaldi")
    with pytest.raises(InputError, match=f"holds {name}, which bayes-asr gmm did not write"):
        train_few(few, "mono", tmp_path)
    assert (tmp_path / name).read_bytes() == b"of Kaldi"


def test_what_is_missing_is_named(few: Path, tmp_path: Path) -> None:
    (tmp_path / "ali").mkdir()
    (tmp_path / "ali" / "ali.1.gz").write_bytes(b"")
    folders = StepFolders(few / "data", find_lang(), tmp_path / "ali", tmp_path)
    with pytest.raises(InputError, match=r"ali/final\.mdl: is not there; an earlier step makes it"):
        GmmTrainer(SCHEDULES["tri1"], folders, map_serially).run()
    (few / "empty").mkdir(exist_ok=True)
    folders = StepFolders(few / "empty", find_lang(), None, tmp_path / "out")
    with pytest.raises(InputError, match=r"empty/feats\.scp: is not there"):
        GmmTrainer(SCHEDULES["mono"], folders, map_serially).run()
