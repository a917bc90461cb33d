"""The command `score` on a run directory: score files, lines, and the oracle beside them."""

import argparse
import json
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import score
from bayes_asr.config.merge import load
from bayes_asr.evaluate.decoded.run import DecodedRun
from bayes_asr.evaluate.score.glm import find_glm
from bayes_asr.evaluate.score.scores import read_scores
from tests.evaluate.score.test_sweeps import (
    DEV,
    DEV_BY_WEIGHT,
    TEST,
    TEST_BY_WEIGHT,
    write_set,
    write_table,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A decoded run and the data it was decoded from."""
    path = tmp_path / "run"
    load([], [f"data.dir={tmp_path}", "score.metric=per"]).save(path / "config.yaml")
    for name, reference, hypotheses in (
        ("dev", DEV, DEV_BY_WEIGHT),
        ("test", TEST, TEST_BY_WEIGHT),
    ):
        write_set(path / f"decode_{name}", reference, hypotheses)
        write_table(tmp_path / "data" / name / "text", reference)
        speakers = {utterance: utterance[0] for utterance in reference}
        write_table(tmp_path / "data" / name / "utt2spk", speakers)
    return path


def run_score(*argv: str | Path) -> None:
    parser = argparse.ArgumentParser()
    score.add_arguments(parser)
    score.run(parser.parse_args([str(arg) for arg in argv]))


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_score_files_and_lines(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_score(run)
    *lines, strict_end, forgiving_end = capsys.readouterr().out.splitlines()
    ends = "dev picks LM weight 3, the end of those tried (1 to 3); widen decode.lm_weights"
    assert [strict_end, forgiving_end] == [f"strict: {ends}", f"forgiving: {ends}"]
    assert [line.split("] ")[1].split(",")[0] for line in lines] == [
        "dev PER (strict)",
        "dev PER (forgiving)",
        "test PER (strict)",
        "test PER (forgiving)",
    ]
    strict, forgiving = read_scores(run / "score_test.json")
    assert (strict.lm_weight, strict.counts.errors, forgiving.counts.errors) == (3.0, 4, 2)
    assert list(strict.speakers) == ["t"]


def test_several_directories_of_dev_are_scored_as_one(run: Path) -> None:
    run_score(run)
    expected, halves = read_scores(run / "score_dev.json"), []
    for number, utterances in enumerate((list(DEV)[::2], list(DEV)[1::2])):
        halves.append(run.parent / f"half{number}")
        for table in ("text", "utt2spk"):
            lines = (run.parent / "data/dev" / table).read_text().splitlines()
            kept = {line.split()[0]: " ".join(line.split()[1:]) for line in lines}
            write_table(halves[-1] / table, {utt: kept[utt] for utt in utterances})
    both = f"data.dev.features_all_of=[{','.join(map(str, halves))}]"
    load([run / "config.yaml"], [both]).save(run / "config.yaml")
    run_score(run)
    found = read_scores(run / "score_dev.json")
    assert [score.counts for score in found] == [score.counts for score in expected]
    assert [score.speakers for score in found] == [score.speakers for score in expected]
    inputs = DecodedRun(run, load([run / "config.yaml"]), ["dev"]).list_inputs()
    assert {half / "text" for half in halves} <= {*inputs}


def test_words_of_a_decoder_are_inputs(run: Path) -> None:
    """Decoders with attention write one file, without LM weights."""
    folder = run / "decode_dev"
    words = {path for path in folder.iterdir() if path.name.startswith("words.lmwt")}
    decoded = DecodedRun(run, load([run / "config.yaml"]), ["dev"])
    assert {path for path in decoded.list_inputs() if path.parent == folder} == words != set()
    (folder / "words.txt").touch()
    assert folder / "words.txt" in decoded.list_inputs()


def test_score_files_say_what_speakers_are(run: Path) -> None:
    load([], [f"data.dir={run.parent}", "score.metric=per", "score.cluster=session"]).save(
        run / "config.yaml"
    )
    run_score(run)
    assert {score.cluster for score in read_scores(run / "score_test.json")} == {"session"}


def test_oracle_is_printed_and_never_written(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_score(run, "--oracle-lmwt")
    oracle = [line for line in capsys.readouterr().out.splitlines() if "oracle" in line]
    assert len(oracle) == 4
    assert oracle[2].startswith("%PER 0.00 [ 0 / 6")
    assert oracle[2].endswith(
        "LM weight 1, penalty 0.0, oracle: picked on test itself, not a result"
    )
    assert [s.lm_weight for s in read_scores(run / "score_test.json")] == [3.0, 3.0]


def test_json_is_the_entries_of_the_files(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_score(run, "--json", "--oracle-lmwt")
    entries = json.loads(capsys.readouterr().out)
    assert [entry.pop("oracle") for entry in entries] == [False] * 4 + [True] * 4
    assert entries[2:4] == json.loads((run / "score_test.json").read_text())


@pytest.mark.slow
def test_set_that_is_not_decoded_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "decode_test").rename(run / "elsewhere")
    run_score(run)
    assert "test: not decoded" in capsys.readouterr().out.splitlines()
    (run / "decode_dev").rename(run / "elsewhere2")
    with pytest.raises(InputError, match="no decode_dev; run bayes-asr decode first"):
        run_score(run)


@pytest.mark.parametrize(("said", "known"), [("AA", "aa"), ("s\u00edl", "si\u0301l")])
def test_words_that_the_graph_spells_otherwise_are_announced(
    run: Path, said: str, known: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They are never right, and the rate alone would blame the network."""
    write_table(run.parent / "data/dev/text", {"d1": f"sil {said} b sil", "d2": "sil k sil"})
    load([run / "config.yaml"], ["data.graph=graph"]).save(run / "config.yaml")
    run_score(run)
    words = ["<eps>", "sil", "b", "k", "t", "aa", known]
    for vocabulary in (words, [*words, said]):
        write_table(
            run.parent / "graph/words.txt",
            {w: str(i) for i, w in enumerate(dict.fromkeys(vocabulary))},
        )
        caplog.clear()
        run_score(run)
        remarks = warnings_of(caplog)
        assert [known in remark for remark in remarks] == [True] * (said not in vocabulary)
        assert all(remark.startswith("dev: references and graph: 1 word") for remark in remarks)


def test_alternatives_of_sclite_in_references_are_announced(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_table(run.parent / "data/dev/text", {"d1": "sil { aa / b } sil", "d2": "sil k sil"})
    run_score(run)
    (remark,) = warnings_of(caplog)
    assert "dev/text, line 1: {, / and } are words here" in remark


def test_failure_leaves_earlier_scores(run: Path) -> None:
    run_score(run)
    before = (run / "score_dev.json").read_bytes()
    write_table(run / "decode_dev" / "words.lmwt1.wip0.0.txt", {"d1": "sil"})
    with pytest.raises(InputError, match=r"words\.lmwt1\.wip0\.0\.txt: 1 of 2 .* d2"):
        run_score(run)
    assert (run / "score_dev.json").read_bytes() == before


def test_scores_depend_on_rules(run: Path) -> None:
    """Shards of other rules are counted anew."""
    folding = run / "fold"
    folding.write_text("a b\n")
    settings = [f"data.dir={run.parent}", "score.metric=per", f"score.conventions=[x={folding}]"]
    folds = DecodedRun(run, load([], settings), ["dev"])
    assert folding in folds.list_inputs()
    # A made-up graph: the file is named before it is read.
    (run.parent / "graph").mkdir()
    write_table(run.parent / "data/dev/stm", {})
    settings = [f"data.dir={run.parent}", "score.metric=wer", "score.glm=english"]
    timed = DecodedRun(run, load([], [*settings, "data.graph=graph"]), ["dev"])
    assert find_glm("english") in timed.list_inputs()
    known = DecodedRun(
        run,
        load([], [*settings[:2], "score.conventions=[known]", "data.graph=graph"]),
        ["dev"],
    )
    assert run.parent / "graph/words.txt" in known.list_inputs()
