"""The runs of a study in one file: alignments stay without the words, and the study goes on."""

import json
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.evaluate.score.counts import Costs, count_errors
from bayes_asr.evaluate.score.scores import Score, UtteranceScore
from tests.support.places import ROOT
from tests.support.report_runs import make_score

sys.path.insert(0, str(ROOT / "benchmarks"))
import archive
import study

TEXTS = st.lists(st.sampled_from("abcd"), max_size=9).map(tuple)
MIDDLE = study.MIDDLE


@given(TEXTS, TEXTS, st.sampled_from(["sclite", "levenshtein"]), st.sets(st.sampled_from("abz")))
def test_alignments_stay_without_the_words(
    ref: tuple[str, ...], hyp: tuple[str, ...], costs: Costs, optional: set[str]
) -> None:
    may_miss = frozenset(optional)
    said = UtteranceScore("u", "s", count_errors(ref, hyp, costs, may_miss), ref, hyp)
    score = Score("test", "per", "strict", may_miss, costs, 1.0, 0.0, [said])
    numbered = archive.number_words(score)
    assert numbered.marks == score.marks
    (utterance,) = numbered.utterances
    kinds = [[edit.kind for edit in s.alignment(s.utterances[0])] for s in (score, numbered)]
    assert kinds[0] == kinds[1]
    assert count_errors(utterance.reference, utterance.hypothesis, costs, may_miss) == said.counts
    assert not {*utterance.reference, *utterance.hypothesis} & ({*"abcd"} - may_miss)


def complete(run: study.Run, out: Path, error: float, frames: str = "11") -> None:
    """Write what a complete run has."""
    path = run.path(out)
    path.mkdir(parents=True)
    load([], [f"data.dir={out / 'data'}", f"seed={run.seed}"]).save(path / "config.yaml")
    inputs = {f"{out / 'data'}/train (frames of train)": frames, f"{out / 'data'}/exp/ali": "22"}
    (path / "env.json").write_text(json.dumps({"parameters": 7, "inputs": inputs}))
    entry = {"epoch": 1, "dev_error": error, "frames_per_second": 1.0, "seconds": 1.0}
    (path / "history.jsonl").write_text(json.dumps(entry) + "\n")
    measured = {"run": str(path), "calibration error": 3.0}
    (path / "calibration.json").write_text(json.dumps(measured))
    (path / "best.pt").write_bytes(b"weights")
    (path / "state.json").write_text('{"state": "finished", "host": "here"}')
    for part in ("dev", "test"):
        made = make_score(len(run.system) + run.seed, error, part, "strict")
        made = replace(made, decoded={"graph": f"{out / 'data'}/graph"})
        archive.write_scores([made], path / f"score_{part}.json")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Two systems with two seeds each; c diverged, d is not complete."""
    folder = tmp_path / "out 'ä' \U0001f600"
    for system, best in (("a", 0.2), ("bb", 0.3)):
        for rate in (MIDDLE - 1, MIDDLE + 1):
            complete(study.Run(system, rate, 1), folder, 0.5)
        for seed in (1, 2):
            complete(study.Run(system, MIDDLE, seed), folder, best)
    complete(study.Run("c", MIDDLE, 1), folder, 0.4)
    diverged = study.Run("c", MIDDLE, 1).path(folder)
    (diverged / "state.json").write_text('{"why": "loss nan (train.max_returns)", "host": "h"}')
    complete(study.Run("d", MIDDLE, 1), folder, 0.4)
    (study.Run("d", MIDDLE, 1).path(folder) / "calibration.json").unlink()
    return folder


def test_a_study_goes_on_from_its_file(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "REPLICATES", 100)
    file, copy, data = tmp_path / "runs.tar.xz", tmp_path / "copy", tmp_path / "dàta"
    archive.main(["pack", str(out), str(file)])
    archive.main(["unpack", str(file), str(copy), "--data", str(data)])
    assert capsys.readouterr().out.splitlines() == [f"{file}: 9 runs", f"{copy}: 9 runs added"]
    for system in ("a", "bb", "c"):
        assert study.describe_system(copy, system, 2) == study.describe_system(out, system, 2)
    assert study.list_missing(copy, ["a", "bb", "c"], 2) == study.list_missing(
        out, ["a", "bb", "c"], 2
    )
    pair = [["a", "bb"]]
    assert [*study.compare_systems(copy, pair, 2)] == [*study.compare_systems(out, pair, 2)]
    assert {path.name for path in copy.iterdir()} == {"a", "bb", "c"}
    run = study.Run("a", MIDDLE, 2).path(copy)
    assert load([run / "config.yaml"]).data.dir == str(data)
    assert study.hash_frames(run) == {"train (frames of train)": "11"}
    (score,) = study.read_scores(run / "score_test.json")
    assert score.decoded == {"graph": f"{data}/graph"}
    assert not (run / "best.pt").exists()
    with tarfile.open(file) as packed:
        files = [packed.extractfile(member) for member in packed if member.isfile()]
        told = b"".join(file.read() for file in files if file)
    for private in (str(out), json.dumps(str(out)), "host", " eh "):
        assert private.strip('"').encode() not in told
    # The own runs of a study stay.
    (run / "history.jsonl").write_text("")
    archive.main(["unpack", str(file), str(copy), "--data", str(data)])
    assert (run / "history.jsonl").read_text() == ""


def test_a_file_depends_on_the_runs_alone(out: Path, tmp_path: Path) -> None:
    files = [tmp_path / "first.tar.xz", tmp_path / "second.tar.xz"]
    for file in files:
        archive.pack(out, file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_other_frames_are_refused(out: Path, tmp_path: Path) -> None:
    study.check_frames(out, "a")
    complete(study.Run("a", MIDDLE, 3), out, 0.2, frames="33")
    with pytest.raises(InputError, match=r"seed3: trained on other train \(frames of train\) than"):
        study.check_frames(out, ["a", "bb"])
    # Where the data lie does not matter.
    archive.pack(out, tmp_path / "runs.tar.xz")
    archive.unpack(tmp_path / "runs.tar.xz", tmp_path / "copy", tmp_path / "elsewhere")
    complete(study.Run("bb", MIDDLE, 3), tmp_path / "copy", 0.2)
    study.check_frames(tmp_path / "copy", ["bb"])


def test_a_folder_without_a_complete_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no run of a study is complete"):
        archive.main(["pack", str(tmp_path), str(tmp_path / "runs.tar.xz")])
    assert not [*tmp_path.iterdir()]


def test_another_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("# Results\n")
    with pytest.raises(SystemExit, match=r"page\.md: not what `pack` writes"):
        archive.main(["unpack", str(file), str(tmp_path / "out"), "--data", "data"])
