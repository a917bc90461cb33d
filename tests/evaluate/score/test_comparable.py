"""Runs that may be compared: on the same references, counted alike, each training once."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.evaluate.score.comparison import compare
from bayes_asr.evaluate.score.counts import tally
from bayes_asr.evaluate.score.scores import Score, UtteranceScore, write_scores
from bayes_asr.evaluate.score.unlike_runs import describe_unlike_seeds
from tests.support.report_runs import make_score

NAMES = ("A", "B")


def made(seed: int, convention: str = "strict") -> Score:
    return make_score(seed, 0.3, "test", convention, utterances=12, speakers=3)


def write(run: Path, *scores: Score) -> str:
    write_scores(scores, run / "score_test.json")
    return str(run)


def with_reference(score: Score, place: int, words: str) -> Score:
    """A score of another transcript of one utterance."""
    utterances: list[UtteranceScore] = [*score.utterances]
    changed = replace(utterances[place], reference=tuple(words.split()))
    utterances[place] = replace(changed, counts=tally(score.alignment(changed)))
    return replace(score, utterances=utterances)


def with_unknown(score: Score, *words: str) -> Score:
    """A score of the convention `known`, without the errors at these words."""
    known = replace(score, convention="known", unknown=frozenset(words))
    return replace(
        known,
        utterances=[replace(u, counts=tally(known.alignment(u))) for u in known.utterances],
    )


def test_other_unknown_words_leave_the_other_conventions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (
        write(tmp_path / name, made(i), with_unknown(made(i), *unknown))
        for i, (name, unknown) in enumerate({"a": ("aa", "ih", "sil"), "b": ("aa", "z")}.items())
    )
    assert main(["compare", a, b, "--json", "--replicates=100"]) == 0
    printed = capsys.readouterr()
    (entry,) = json.loads(printed.out)
    expected = compare(made(0), made(1), (a, b), 100)
    assert (entry["convention"], entry["difference"]) == ("strict", expected.points)
    assert f"known: not compared: {a} and {b} differ in unknown: 3 and 2, such as ih" in printed.err


def test_what_has_no_convention_in_common_that_is_counted_alike_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path / "a", with_unknown(made(0), "aa"))
    b = write(tmp_path / "b", with_unknown(made(1), "ih", "z"))
    assert main(["compare", a, b]) == 1
    assert "differ in unknown: 1 and 2, such as aa" in capsys.readouterr().err


def test_the_run_that_is_scored_on_other_references_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With both numbers, and both texts of the first utterance that differs."""
    other = with_reference(with_reference(made(2), 4, "aa b"), 7, "d")
    short = replace(made(3), utterances=made(3).utterances[:-1])
    for name, score in (("a/seed1", made(0)), ("a/seed2", other), ("b", made(1)), ("c", short)):
        write(tmp_path / name, score)
    a, b, c = (str(tmp_path / name) for name in "abc")
    fourth, last = (made(0).utterances[i] for i in (4, -1))
    assert main(["compare", b, a]) == 1
    message = capsys.readouterr().err
    assert f"{b} and {a}/seed2 do not score the same test references" in message
    assert f"of 12 and 12 utterances 2 utterances differ, such as {fourth.utterance}: " in message
    assert f"'{' '.join(fourth.reference)}' and 'aa b'" in message
    assert main(["compare", b, c]) == 1
    message = capsys.readouterr().err
    assert f"of 12 and 11 utterances 1 utterance differs, such as {last.utterance}: " in message
    assert message.rstrip().endswith("and nothing")


@pytest.mark.parametrize("clusters", [("speaker", "session"), ("session", "speaker")])
def test_speakers_and_sessions_are_not_compared(clusters: tuple[str, str]) -> None:
    a, b = (replace(made(i), cluster=cluster) for i, cluster in enumerate(clusters))
    with pytest.raises(InputError, match=f"differ in cluster: {' and '.join(clusters)}"):
        compare(a, b, NAMES, 100)


def write_seed(run: Path, number: int, *settings: str) -> Path:
    """A scored run of this seed, with its configuration."""
    write(run, made(number))
    load([], [f"seed={number}", *settings]).save(run / "config.yaml")
    return run


@pytest.mark.parametrize("as_group", [False, True])
def test_seeds_of_several_systems_are_refused(
    as_group: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `benchmarks/study.py` leaves them: OUT/SYSTEM/RATE/seedN."""
    for rate in ("0.001", "0.0025"):
        for seed in (1, 2):
            write(tmp_path / "gru" / rate / f"seed{seed}", made(seed))
    b = write(tmp_path / "b", made(7))
    sides = ["--group", str(tmp_path / "gru"), "--against", b]
    assert main(["compare", *(sides if as_group else sides[1::2])]) == 1
    message = capsys.readouterr().err
    assert f"{tmp_path}/gru: holds seeds of 2 systems, " in message
    assert f"{tmp_path}/gru/0.001, {tmp_path}/gru/0.0025; " in message
    sides[1:2] = [str(tmp_path / "gru" / rate) for rate in ("0.001", "0.0025")]
    assert main(["compare", *sides, "--replicates=100", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["a"]["runs"] == 4
    assert main(["compare", sides[1], b, "--replicates=100"]) == 0


@pytest.mark.slow
def test_runs_of_a_system_that_are_no_seeds_of_it_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of another configuration, and a copy; systems of a group may differ."""
    a, b = tmp_path / "a", tmp_path / "b"
    for seed in (1, 2):
        write_seed(a / f"seed{seed}", seed)
        write_seed(b / f"seed{seed}", seed, "model.unit=gru")
    words = ["compare", "--group", f"x={a}", str(b), "--against", write(tmp_path / "c", made(9))]
    assert main([*words, "--replicates=100"]) == 0
    assert capsys.readouterr().err == ""
    write_seed(a / "seed3", 3, "decode.beam=3")
    shutil.copytree(b / "seed2", b / "seed12")
    beam = load([]).decode.beam
    assert main(["compare", str(a), str(b), "--replicates=100"]) == 0
    told = capsys.readouterr().err
    assert f"{a}: seed1 and seed3 are averaged, but decode.beam is {beam} and 3.0" in told
    assert f"{b}: seed12 and seed2 both have the seed 2" in told
    assert len(told.splitlines()) == 2
    assert main(["report", str(b), "--out", str(tmp_path / "report")]) == 0
    assert "b: seed2 and seed12 both have the seed 2" in capsys.readouterr().err


def test_seeds_of_other_settings_are_named(tmp_path: Path) -> None:
    settings = {
        "seed1": ["seed=1", "train.device=cpu"],
        "seed2": ["seed=2", "data.index=elsewhere"],
        "seed3": ["seed=3", "decode.beam=3"],
    }
    runs = [tmp_path / name for name in settings]
    for run, changes in zip(runs, settings.values(), strict=True):  # each goes on from its own
        begun = f"train.init_from=[{{run: /x/ce/{run.name}, normalisation: run}}]"
        run.mkdir()
        load([], [*changes, begun]).save(run / "config.yaml")
    assert [*describe_unlike_seeds("gru", runs)] == [
        f"gru: seed1 and seed3 are averaged, but decode.beam is {load([]).decode.beam} and 3.0"
    ]


def test_seeds_of_other_data_are_named(tmp_path: Path) -> None:
    """Not those of the same data elsewhere, of alignments by seed, or of version 0.1."""
    data = {
        "/a/data/train/feats.scp": "1",
        "/a/data/train/raw.1.ark": "2",
        "/a/data/train (frames of train)": "3",
        "/a/exp/ali": "4",
        "/a/gru/seed1/ali": "5",
    }
    moved = {path.replace("/a/", "/b/"): value for path, value in data.items()}
    moved |= {"/b/data/train/feats.scp": "6", "/b/data/train/raw.1.ark": "7"}
    by_seed = {**data, "/a/gru/seed1/ali": "8"}
    corrected = {**data, "/a/exp/ali": "9"}
    for seed, inputs in enumerate((data, moved, by_seed, {}, corrected), start=1):
        run = tmp_path / f"seed{seed}"
        write_seed(run, seed)
        record = {"parameters": 7 if inputs else 8, "inputs": inputs}
        (run / "env.json").write_text(json.dumps(record))
    write_seed(tmp_path / "seed6", 6)
    (tmp_path / "seed6/env.json").write_text(json.dumps({"parameters": 7, "inputs": None}))
    runs = [tmp_path / f"seed{seed}" for seed in range(1, 7)]
    # The first may be of a version that kept no inputs.
    assert [*describe_unlike_seeds("gru", [runs[5], runs[0], runs[4]])] == [
        "gru: seed6 and seed5 are averaged, but the data differ: /a/exp/ali"
    ]
    assert [*describe_unlike_seeds("gru", runs)] == [
        "gru: seed1 and seed4 are averaged, but parameters are 7 and 8",
        "gru: seed1 and seed5 are averaged, but the data differ: /a/exp/ali",
    ]


@pytest.mark.parametrize("shared", ["b", "b/seed1", "link"])
def test_a_run_on_both_sides_of_groups_is_refused(
    shared: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i, name in enumerate("abc"):
        write(tmp_path / name / "seed1", made(i))
    (tmp_path / "link").symlink_to(tmp_path / "b")
    a, b, c = (str(tmp_path / name) for name in "abc")
    groups = ["--group", a, b, "--against", c, str(tmp_path / shared)]
    for words in (["compare", *groups], ["report", a, b, c, f"--out={tmp_path}/out", *groups]):
        assert main(words) == 1
        assert "/seed1: is in both groups, or twice in one" in capsys.readouterr().err
