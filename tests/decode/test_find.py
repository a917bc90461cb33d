"""Words of a run that are found in its lattices."""

import json
import shutil
from pathlib import Path

import pytest

from bayes_asr.cli import main
from bayes_asr.kaldi_io.text import read_symbols, read_text
from tests.support.tones import command

pytest.importorskip("kaldi_native_fbank")
pytest.importorskip("kaldifst")
pytestmark = pytest.mark.slow


def test_words_are_found_in_lattices(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every word of the best paths is found in its utterance; the index stays until they change."""
    score = json.loads((run / "score_dev.json").read_text())[0]
    name = f"words.lmwt{score['lm_weight']:g}.wip{score['insertion_penalty']:.1f}.txt"
    said = read_text(run / "decode_dev" / name)
    arguments = ("find", run, "one", "one one", "--on", "dev", "--least", "0")
    command(*arguments, "--json")
    sightings = json.loads(capsys.readouterr().out)
    for phrase in ("one", "one one"):
        places = [s for s in sightings if s["phrase"] == phrase]
        best = {utt for utt, words in said.items() if f" {phrase} " in f" {' '.join(words)} "}
        assert best <= {s["utterance"] for s in places}
        assert all(0 <= s["begin"] < s["end"] and 0 <= s["posterior"] <= 1 for s in places)
        assert [s["posterior"] for s in places] == sorted(s["posterior"] for s in places)[::-1]
    index = run / "decode_dev" / "keywords.npz"
    made = index.stat().st_mtime_ns
    command(*arguments)
    printed = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(" ") for line in printed) == len(sightings)
    assert index.stat().st_mtime_ns == made
    command(*arguments, "--lmwt", "2.5")
    assert index.stat().st_mtime_ns != made
    assert main(["find", str(run), "onne"]) == 1
    assert "lacks 'onne', so no lattice has it; did you mean one?" in capsys.readouterr().err


def test_words_are_found_by_the_numbers_of_the_graph_that_wrote_them(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, again, graph = run.parent, shutil.copytree(run, tmp_path / "run"), tmp_path / "graph"
    lexicon, text, hotwords = root / "dict/lexicon.txt", tmp_path / "text", tmp_path / "hotwords"
    text.write_text("u one two\nv six\n")
    hotwords.write_text("aaa /" + lexicon.read_text().splitlines()[-1].split(None, 1)[1] + "/\n")
    sources = ("--lexicon", lexicon, "--text", text, "--model", root / "exp/ali/final.mdl")
    command("graph", *sources, "--hotwords", hotwords, "--out", graph)
    command("decode", again, "--on", "dev", "--graph", graph)
    numbers = [read_symbols(folder / "words.txt")["one"] for folder in (graph, root / "exp/graph")]
    assert numbers[0] != numbers[1]
    capsys.readouterr()
    command("find", again, "one", "aaa", "--on", "dev", "--lmwt", "2", "--json")
    phrases = {sighting["phrase"] for sighting in json.loads(capsys.readouterr().out)}
    assert "one" in phrases
    (graph / "HCLG.fst").unlink()
    assert main(["find", str(again), "one", "--on", "dev", "--lmwt", "2"]) == 1
    assert f"{graph}: gone or changed, but the lattices of" in capsys.readouterr().err
