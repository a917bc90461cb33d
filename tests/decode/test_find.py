"""Words of a run that are found in its lattices."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.cli import main
from bayes_asr.decode.align.transcripts import _read_timer, read_timer
from bayes_asr.decode.keywords import open_index
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_text
from tests.support.tones import PHONES, WORDS, command, speak

pytest.importorskip("kaldi_native_fbank")
pytest.importorskip("kaldifst")
pytestmark = pytest.mark.slow


def number_of(run: Path, word: str) -> int:
    return read_symbols(run.parent / "exp/graph/words.txt")[word]


def speak_set(count: int, seed: int) -> dict[str, list[tuple[str, float, float]]]:
    """The words of the utterances of a set, as `write_set` has them, with begins and ends."""
    rng = np.random.default_rng(seed)
    spoken = [speak(rng.choice([*WORDS], 4).tolist(), rng).words for _ in range(count)]
    return {f"s{number // 4}-{number}": words for number, words in enumerate(spoken)}


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


@pytest.mark.parametrize("nj", ["1", "2"])
def test_times_are_those_of_the_sound(
    run: Path, nj: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also those of an index that an earlier version made, with the times of lattices."""
    found = shutil.copytree(run, tmp_path / "run")
    decoded = found / "decode_dev"
    index = open_index(decoded, [decoded / "lat.1.gz"], (2.0, 0.0))
    rough = [place for word in WORDS for place in index.find([number_of(run, word)])]
    command(
        "find", found, *WORDS, "--on", "dev", "--lmwt", "2", "--least", "0.5", "--json", "--nj", nj
    )
    places = json.loads(capsys.readouterr().out)
    spoken = speak_set(8, seed=1)
    distances = []
    for place in places:
        begins = [begin for word, begin, _ in spoken[place["utterance"]] if word == place["phrase"]]
        distances.append(min((abs(begin - place["begin"]) for begin in begins), default=9.0))
    assert np.mean(np.array(distances) <= 0.03) > 0.9
    assert {(p.utterance, p.begin) for p in rough} != {
        (place["utterance"], round(100 * place["begin"])) for place in places
    }


def test_an_index_without_times_is_made_anew_when_they_can_be_told(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each call says that times are early, until what the lexicon needs is there again."""
    root = shutil.copytree(run.parent, tmp_path / "root")
    config = root / "run/config.yaml"
    config.write_text(config.read_text().replace(str(run.parent), str(root)))
    tree = root / "exp/ali/tree"
    find = ("find", root / "run", "one", "--on", "dev", "--lmwt", "2", "--json")

    def places() -> tuple[list[object], str]:
        read_timer.cache_clear()
        _read_timer.cache_clear()
        command(*find)
        captured = capsys.readouterr()
        return json.loads(captured.out), captured.err

    right, said = places()
    assert "early" not in said
    (root / "run/decode_dev/keywords.npz").unlink()
    tree.rename(root / "aside")
    early = []
    for _ in range(2):
        found, said = places()
        assert "tree" in said
        assert said.count("early") == 1
        early.append(found)
    assert early[0] == early[1] != right
    (root / "aside").rename(tree)
    assert places()[0] == right


@pytest.mark.parametrize("nj", ["1", "2"])
def test_times_of_rescored_words_are_those_of_the_sound_with_a_model(
    run: Path, nj: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, model = run.parent / "exp/graph", run.parent / "exp/ali/final.mdl"
    lattices, spoken = run / "decode_dev/lat.1.gz", speak_set(8, seed=1)
    given = ("rescore", "--lattices", lattices, "--lmwt", "2", "--out", tmp_path, "--nj", nj)

    def near(*further: str | Path) -> float:
        command(*given, "--graph", graph, "--mbr", *further)
        rows = [line.split() for line in (tmp_path / "ctm.lmwt2.wip0.0").read_text().splitlines()]
        distances = [
            min((abs(b - float(row[2])) for w, b, _ in spoken[row[0]] if w == row[4]), default=9.0)
            for row in rows
        ]
        return float(np.mean(np.array(distances) <= 0.03))

    assert near() < 0.5
    assert near("--model", model) > 0.9
    given = (*given, "--model", model)
    assert main([*map(str, given), "--graph", str(graph)]) == 1
    assert "--model goes with --mbr" in capsys.readouterr().err
    small = shutil.copytree(model.parent, tmp_path / "small")
    write_transition_model(build_monophone_model([*PHONES.values()], 1), small / "final.mdl")
    another = (*given[:-1], small / "final.mdl", "--graph", graph, "--mbr")
    assert main([*map(str, another)]) == 1
    assert "s0-0: its lattice has transition-id" in capsys.readouterr().err
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(graph / "words.txt", bare)
    assert main([*map(str, given), "--graph", str(bare), "--mbr"]) == 1
    assert f"{bare}: has no lexicon" in capsys.readouterr().err


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
