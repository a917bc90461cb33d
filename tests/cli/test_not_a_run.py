"""What verbs that take a run say of what is none."""

from pathlib import Path

import pytest

from bayes_asr.cli import VERBS, main

OF_ONE_RUN = {
    "adapt": ["--ali=dev=ali", "--out=out"],
    "align": ["--data=data", "--out=out"],
    "classify": ["--on=dev"],
    "combine": ["--out=out"],
    "decode": ["--on=dev"],
    "denlats": ["--on=train", "--lang=lang", "--out=out"],
    "export": ["--onnx=out"],
    "find": ["word"],
    "fold": ["--out=out"],
    "forward": ["--data=data", "--out=out"],
    "generate": ["--on=dev"],
    "gradients": ["--out=out.svg"],
    "pronunciation": ["--data=data", "--out=out"],
    "score": [],
    "train": ["--out=out"],
    "transcribe": ["a.wav"],
}
OF_SCORED_RUNS = {"compare": ["absent"], "report": []}
WITHOUT = {
    "status",
    "wer",
    "graph",
    "gmm",
    "config",
    "doctor",
    "search",
    "run",
    "features",
    "speed",
    "g2p",
}
WITHOUT |= {"rescore", "lmrescore", "lattice-posteriors", "import-cfg", "import-weights"}
"""Verbs that take no run, or whose run need not be one yet."""
KINDS = {"absent": "there is no such folder", "empty": "it has no config.yaml"}
KINDS["file"] = "it is a file, and no whole one of export --archive"
CASES = [
    (verb, kind)
    for verb in OF_ONE_RUN
    for kind in KINDS
    if verb != "train" or kind == "empty"  # which takes files too, as configurations
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("file").write_text("a\n")


def test_each_verb_is_here_or_takes_no_run() -> None:
    assert {*OF_ONE_RUN, *OF_SCORED_RUNS, *WITHOUT} == set(VERBS)


@pytest.mark.parametrize(("verb", "kind"), CASES)
def test_no_run_is_said_in_one_line(
    verb: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, kind, *OF_ONE_RUN[verb]]) == 1
    said = f"{kind}: not a run directory, {KINDS[kind]}; name one that bayes-asr train wrote"
    assert capsys.readouterr().err == f"bayes-asr {verb}: error: {said}\n"
    assert not Path("out", "config.yaml").exists()


def test_runs_below_a_folder_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [f"exp/mini/mini/seed{seed}" for seed in (1, 2)]
    for run in runs:
        Path(run).mkdir(parents=True)
        Path(run, "config.yaml").touch()
    for folder in ("exp", "exp/mini", "exp/mini/mini"):
        assert main(["forward", folder, "--on=dev"]) == 1
        error = capsys.readouterr().err
        assert all(run in error for run in runs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", OF_SCORED_RUNS)
def test_no_scored_run_is_said_in_one_line(
    verb: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, kind, *OF_SCORED_RUNS[verb]]) == 1
    said = capsys.readouterr().err
    why, remedy = "no scored run here (score_", "run bayes-asr score first"
    if kind == "absent":
        why, remedy = "there is no such folder", "name a scored run, or one above runs"
    assert said.startswith(f"bayes-asr {verb}: error: {kind}: {why}")
    assert said.endswith(f"; {remedy}\n")


@pytest.mark.parametrize(
    ("key", "verb"), [("classes: utt2word", "classify"), ("sequences: text", "generate")]
)
def test_what_no_graph_decodes_is_said(
    key: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty/config.yaml").write_text(f"data: {{{key}}}\n")
    assert main(["decode", "empty", "--on=dev"]) == 1
    assert f"run bayes-asr {verb} empty --on dev" in capsys.readouterr().err
    assert main(["score", "empty"]) == 1
    said = capsys.readouterr().err
    assert ("no decode_dev" in said) == (verb == "generate"), said
