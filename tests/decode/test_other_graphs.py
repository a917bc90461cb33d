"""A run with another graph than its own: which weight it takes, and what is said of it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.cli import main
from tests.support.tones import command

pytest.importorskip("kaldi_native_fbank")
pytest.importorskip("kaldifst")
pytestmark = pytest.mark.slow


def test_weight_of_another_graph_is_not_used_unsaid(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the graph of dev the chosen weight; with another that of the search, with a word."""
    root, file = run.parent, run.parent / "data" / "dev" / "s0-0.wav"
    copied = shutil.copytree(root / "exp" / "graph", tmp_path / "copied")
    words = ("--lexicon", root / "dict" / "lexicon.txt", "--model", root / "exp/ali/final.mdl")
    other, text = tmp_path / "other", tmp_path / "text"
    text.write_text("u one two\n")
    command("graph", *words, "--text", text, "--out", other)
    record = json.loads((run / "decode_dev" / "decode.json").read_text())
    score = json.loads((run / "score_dev.json").read_text())[0]
    assert score["decoded"] == record
    assert record["graph"] == str(root / "exp" / "graph")
    assert record["acoustic_scale"] == 0.3
    capsys.readouterr()
    command("transcribe", run, file, "--graph", copied)
    assert "dev chose" not in capsys.readouterr().err
    command("transcribe", run, file, "--graph", other)
    said = capsys.readouterr().err
    assert "LM weight 3.33333 (1 / decode.acoustic_scale) and penalty 0 with" in said
    assert f"dev chose {score['lm_weight']:g} with another graph, {root}/exp/graph" in said
    command("transcribe", run, file, "--graph", other, "--lmwt", "2")
    assert "dev chose" not in capsys.readouterr().err

    again = shutil.copytree(run, tmp_path / "run")
    config = (again / "config.yaml").read_text()
    assert "- exp/graph" in config
    (again / "config.yaml").write_text(config.replace("- exp/graph", f"- {other}"))
    command("transcribe", again, file)
    assert "with another graph" in capsys.readouterr().err
    command("score", again)
    said = capsys.readouterr().err
    assert f"dev was decoded with other settings than the run's (graph {root}/exp/graph" in said
    command("decode", again, "--on", "test", "--beam", "12")
    said = capsys.readouterr().err
    apart = f"graph {root}/exp/graph and {other}, beam 13.0 and 12.0"
    assert f"dev was decoded with other settings than test ({apart})" in said
    command("score", again)
    said = capsys.readouterr().err
    assert f"dev and test were decoded with different settings ({apart})" in said
    (again / "score_dev.json").unlink()
    assert main(["transcribe", str(again), str(file)]) == 1
    assert "no LM weight is chosen on dev yet" in capsys.readouterr().err


def test_lattices_are_searched_at_the_weight_of_their_own_graph(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a set has another graph than dev, dev has chosen nothing for it."""
    root, again = run.parent, shutil.copytree(run, tmp_path / "run")
    words = ("--lexicon", root / "dict" / "lexicon.txt", "--model", root / "exp/ali/final.mdl")
    other, text = tmp_path / "other", tmp_path / "text"
    text.write_text("u one two\n")
    command("graph", *words, "--text", text, "--out", other)
    command("decode", again, "--on", "test", "--graph", other)

    def weights(name: str) -> tuple[str, str]:
        command("find", again, "one", "--on", name)
        with np.load(again / f"decode_{name}" / "keywords.npz") as file:
            return json.loads(str(file["made_from"]))["weights"], capsys.readouterr().err

    score = json.loads((run / "score_dev.json").read_text())[0]
    chosen = str((score["lm_weight"], score["insertion_penalty"]))
    used, said = weights("dev")
    assert (used, "dev chose" in said) == (chosen, False)
    used, said = weights("test")
    assert used == str((1 / 0.3, 0.0)) != chosen
    assert f"penalty 0 with {other}: dev chose {score['lm_weight']:g} with another graph" in said
    command("decode", again, "--on", "dev", "--graph", other)
    command("score", again)
    score = json.loads((again / "score_dev.json").read_text())[0]
    for name in ("dev", "test"):
        used, said = weights(name)
        assert used == str((score["lm_weight"], score["insertion_penalty"]))
        assert "with another graph" not in said


def test_second_graph_is_decoded_and_scored_at_once(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder is a run: with a copy of the graph its scores, with other references others."""
    copied = shutil.copytree(run.parent / "exp" / "graph", tmp_path / "graph")
    graph = ("--graph", copied, "--out", tmp_path / "out")
    command("score", run, *graph)
    for name in ("score_dev.json", "score_test.json"):
        (score,), (own,) = (json.loads((f / name).read_text()) for f in (tmp_path / "out", run))
        assert score.pop("decoded")["graph"] == str(copied)
        own.pop("decoded")
        assert score == own
    capsys.readouterr()
    sound = run.parent / "data/dev/s0-0.wav"
    for verb in (["forward", "--on=dev"], ["decode", "--on=dev"], ["transcribe", sound]):
        assert main([verb[0], str(tmp_path / "out"), *map(str, verb[1:])]) == 1
        assert "no network: give the run of the network, and --graph" in capsys.readouterr().err
    command("score", run, *graph, "--set=score.metric=per", "--set=decode.lm_weights=[2]")
    (strict, _) = json.loads((tmp_path / "out" / "score_dev.json").read_text())
    assert (strict["metric"], strict["lm_weight"]) == ("per", 2.0)
    capsys.readouterr()
    another, data = tmp_path / "another", tmp_path / "data"
    data.mkdir()
    (data / "utt2spk").touch()
    another.mkdir()
    (another / "best.pt").touch()
    for wrong, message in (
        (["--graph", copied, "--out", another], f"{another / 'best.pt'}: of a network"),
        (["--graph", copied, "--out", data], f"{data}: is a data directory"),
        (["--graph", copied], "--graph goes with --out, and --set with both"),
        (["--set", "score.text=said"], "--graph goes with --out, and --set with both"),
        (["--graph", copied, "--out", run], "is the run; --out names another folder"),
        ([*graph, "--cmd", "run.pl"], "--graph decodes here: give --nj"),
    ):
        assert main(["score", str(run), *map(str, wrong)]) == 1
        assert message in capsys.readouterr().err


def test_another_graph_needs_none_of_the_run(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = shutil.copytree(run.parent / "exp" / "graph", tmp_path / "another")
    capsys.readouterr()
    command("decode", run, "--on", "dev", "--graph", graph, "--out", tmp_path / "decoded")
    assert str(run.parent / "exp" / "graph") not in capsys.readouterr().err
