"""Words of least expected error, by `decode.mbr`: decoded, scored, transcribed."""

import json
import math
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import kaldialign
import numpy as np
import pytest

from bayes_asr.config.decoding_keys import UNLIMITED, SearchOptions
from bayes_asr.decode.lattices.rescore import iter_word_lattices
from bayes_asr.decode.search.archive import decode_archive
from bayes_asr.decode.search.job import DecodeJob
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.symbols import WordSymbols
from bayes_asr.kaldi_io.text import read_text, write_mapping, write_text
from bayes_asr.kaldi_io.tree import write_tree
from tests.support.decode_cases import word_paths
from tests.support.tiny_task import PHONES, SENTENCES, run_verb, tiny_model, tiny_tree
from tests.support.tones import command

pytest.importorskip("kaldifst")
LMWT, WIP, POINT = 3.0, -2.0, "words.lmwt3.wip-2.0.txt"


def test_decoded_words_have_less_expected_error_than_the_best_path(tmp_path: Path) -> None:
    """Over all paths of lattices of noise."""
    model, graph, rng = tiny_model(), tmp_path / "graph", np.random.default_rng(0)
    write_transition_model(model, tmp_path / "final.mdl")
    write_tree(tiny_tree(model), tmp_path / "tree")
    write_mapping(PHONES.items(), tmp_path / "phones.txt")
    (tmp_path / "lexicon.txt").write_text("ab a b\nbee b\na a\n")
    write_text([(str(i), words) for i, words in enumerate(SENTENCES)], tmp_path / "text")
    given = ("--lexicon", tmp_path / "lexicon.txt", "--text", tmp_path / "text")
    run_verb(*given, "--model", tmp_path / "final.mdl", "--out", graph)
    loglikes = {f"u{i}": rng.normal(size=(20, 6)).astype(np.float32) for i in range(12)}
    write_matrices(loglikes.items(), tmp_path / "ark")
    options = SearchOptions(1.0, 20.0, UNLIMITED, lattice_beam=6.0)
    job = DecodeJob(str(tmp_path / "ark"), graph, tmp_path / "final.mdl", options, ((LMWT, WIP),))
    errors = []
    for name in ("best", "least"):
        decode_archive(replace(job, mbr=name == "least"), tmp_path / name)
        said = read_text(tmp_path / name / POINT)
        errors.append([expect_errors(said[utt], shares) for utt, shares in read_shares(tmp_path)])
    best, least = np.array(errors)
    assert (least <= best + 1e-6).all()
    assert (least < best - 0.01).any()


def read_shares(folder: Path) -> Iterator[tuple[str, dict[tuple[str, ...], float]]]:
    """The posterior of each sequence of words in the lattices of each utterance."""
    symbols = WordSymbols(folder / "graph" / "words.txt")
    for utt, lattice in iter_word_lattices([folder / "best" / "lat.1.gz"]):
        shares: dict[tuple[str, ...], float] = defaultdict(float)
        for words, _, graph, acoustic in word_paths(lattice):
            cost = graph + WIP * len(words) + acoustic / LMWT
            shares[tuple(symbols[word] for word in words)] += math.exp(-cost)
        total = sum(shares.values())
        yield utt, {words: share / total for words, share in shares.items()}


def expect_errors(words: Sequence[str], shares: Mapping[tuple[str, ...], float]) -> float:
    return sum(
        share * kaldialign.edit_distance([*other], [*words])["total"]
        for other, share in shares.items()
    )


@pytest.mark.slow
def test_words_of_least_error_are_those_of_rescore(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At every weight; `score` chooses among them, and sound files get the same words."""
    pytest.importorskip("kaldi_native_fbank")
    root, again = run.parent, shutil.copytree(run, tmp_path / "run")
    config = (again / "config.yaml").read_text()
    assert "  mbr: false\n" in config
    (again / "config.yaml").write_text(config.replace("  mbr: false\n", "  mbr: true\n"))
    for part in ("dev", "test"):
        command("decode", again, "--on", part)
    decoded, rescored = again / "decode_dev", tmp_path / "rescored"
    assert json.loads((decoded / "decode.json").read_text())["mbr"] is True
    names = [path.name for path in sorted(decoded.glob("words.lmwt*"))]
    weights = [name.split("lmwt")[1].partition(".wip")[0] for name in names]
    given = ("--lattices", decoded / "lat.1.gz", "--graph", root / "exp" / "graph", "--mbr")
    command("rescore", *given, "--lmwt", *weights, "--out", rescored)
    for name in names:
        least = rescored / name.replace("words", "mbr")
        assert (decoded / name).read_bytes() == least.read_bytes()

    capsys.readouterr()
    command("score", again)
    assert "other settings" not in capsys.readouterr().err
    score = json.loads((again / "score_dev.json").read_text())[0]
    files = [root / "data" / "dev" / f"s0-{number}.wav" for number in range(4)]
    command("transcribe", again, *files, "--one-speaker")
    printed = capsys.readouterr()
    assert "other settings" not in printed.err
    chosen = decoded / f"words.lmwt{score['lm_weight']:g}.wip{score['insertion_penalty']:.1f}.txt"
    heard = [line.split(": ")[1] for line in printed.out.splitlines() if line.startswith(str(root))]
    assert heard == [line.split(None, 1)[1] for line in chosen.read_text().splitlines()[:4]]
    # A run that was decoded otherwise is named.
    command("decode", run, "--on", "test", "--mbr", "--out", tmp_path / "other")
    shutil.copytree(tmp_path / "other", again / "decode_test", dirs_exist_ok=True)
    (again / "config.yaml").write_text(config)
    command("score", again)
    said = capsys.readouterr().err
    assert "dev was decoded with other settings than the run's (mbr True and False)" in said
