"""Recipes by ./run.sh: they end in a real table, are quick to repeat, safe to interrupt."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bayes_asr
from bayes_asr.cli import main
from bayes_asr.kaldi_io.ark import read_scp
from bayes_asr.kaldi_io.text import read_mapping, read_text
from tests.support.librispeech_corpus import write_librispeech
from tests.support.places import ROOT
from tests.support.timit_tree import write_flat

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module", autouse=True)
def _environment_of_the_scripts() -> None:
    """Without it run.sh would install into the environment of whoever calls pytest."""
    if not list(Path(sys.prefix).glob(".bayes_asr-mini,report*")):
        pytest.skip("the environment was not made by ./test.sh")


def start(*options: str | Path) -> subprocess.Popen[str]:
    """Start run.sh in a process group of its own."""
    return subprocess.Popen(
        [ROOT / "run.sh", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def table(*options: str | Path) -> str:
    """The table that a run that succeeds prints."""
    process = start(*options)
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    return printed[printed.rindex("\nsystem ") : printed.rindex("\nTook ")]


SHORT = ("--set", "train.epochs=4")


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The default run, of a third of its epochs: its folder and its table."""
    out = tmp_path_factory.mktemp("a folder") / "mini"
    return out, table("--out", out, *SHORT)


def test_error_rate_is_far_from_both_ends(mini: tuple[Path, str]) -> None:
    out, printed = mini
    for name in ("dev", "test"):
        scores = json.loads((out / f"mini/seed1/score_{name}.json").read_text())
        assert {score["convention"] for score in scores} == {"strict", "forgiving"}
        for score in scores:
            assert 10 < score["rate"] < 60
            assert f"{score['rate']:.2f}" in printed


def test_repeating_it_changes_nothing(mini: tuple[Path, str]) -> None:
    out, printed = mini

    def results() -> list[int]:
        names = ("best.pt", "last.pt", "loglikes.ark", "words.txt", "score_*.json")
        files = [file for name in names for file in sorted((out / "mini").rglob(name))]
        assert len(files) == 8
        return [file.stat().st_mtime_ns for file in files]

    before = results()
    assert table("--out", out, *SHORT) == printed
    assert results() == before


def killed(options: list[str | Path], is_time: Callable[[], bool]) -> None:
    """Start run.sh and kill it and all its children when it is time."""
    process = start(*options)
    while not is_time():
        assert process.poll() is None, f"it ended too early: {process.communicate()[0]}"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_an_interrupted_run_ends_in_the_same_table(mini: tuple[Path, str], tmp_path: Path) -> None:
    data, whole = mini
    again = ["--kaldi-dir", data, *SHORT, "--out", tmp_path]
    run = tmp_path / "mini/seed1"
    killed(again, (run / "history.jsonl").exists)
    killed(again, (run / "forward_dev/loglikes.scp").exists)
    assert table(*again) == whole
    assert re.search(r"resuming after epoch [123] of 4", (run / "log/train.log").read_text())


def test_timit_from_its_marks_is_safe_to_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From sound and marks by way of a realignment to a table, which says what it lacks."""
    monkeypatch.delenv("KALDI_ROOT", raising=False)
    recipe = shutil.copytree(ROOT / "recipes/timit", tmp_path / "timit")
    aligner = (recipe / "aligner.yaml").read_text()
    (recipe / "aligner.yaml").write_text(re.sub(r"(units|epochs): \d+", r"\1: 4", aligner))
    corpus = write_flat(tmp_path / "corpus")
    options = ["--recipe", recipe, "--corpus", corpus, "--features", "mfcc"]
    options += ["--set", "train.epochs=6", "--set", "model.units=16", "--set", "model.layers=1"]
    options += ["--nj", "1"]
    whole = table(*options, "--out", tmp_path / "whole")
    assert "MFCC, no fMLLR" in whole
    again = [*options, "--out", tmp_path / "again"]
    killed(again, (tmp_path / "again/exp/aligner/history.jsonl").exists)
    assert table(*again) == whole


def test_timit_from_our_gmms_is_safe_to_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From sound by way of four GMMs, which stand in the table beside the network."""
    monkeypatch.delenv("KALDI_ROOT", raising=False)
    out = tmp_path / "out"
    options = ["--recipe", "timit", "--corpus", write_flat(tmp_path / "corpus"), "--dim", "10"]
    options += ["--set", "train.epochs=6", "--set", "model.units=16", "--set", "model.layers=1"]
    options += ["--out", out, "--nj", "1"]
    killed(options, (out / "exp/mono/gmm.json").exists)
    killed(options, (out / "exp/tri2/gmm.json").exists)
    printed = table(*options)
    systems = ("mono", "tri1", "tri2", "tri3", "timit")
    assert [line.split()[0] for line in printed.splitlines()[2:]] == [*systems, *systems]
    for name in ("dev", "test"):
        strict, _ = json.loads((out / f"gmm/tri3/score_{name}.json").read_text())
        assert strict["rate"] < 50, "mono, which knows no context, has 30"
    assert table(*options) == printed
    log = (out / "log/gmm.log").read_text()
    assert log.count("gmm_mono: complete") == 2
    check_transcribed(out, out / "timit/seed1")
    moved = out.rename(tmp_path / "moved")
    options[options.index(out)] = moved
    (moved / "timit/seed1/score_dev.json").unlink()
    assert table(*options) == printed
    assert (moved / "log/gmm.log").read_text().count("gmm_mono: complete") == 3
    check_transcribed(moved, moved / "timit/seed1")


def check_transcribed(out: Path, run: Path) -> None:
    """The words of a speaker by his sound alone are those that decoding gave."""
    score = json.loads((run / "score_dev.json").read_text())[0]
    name = f"words.lmwt{score['lm_weight']:g}.wip{score['insertion_penalty']:.1f}.txt"
    decoded = read_text(run / "decode_test" / name)
    speakers, sounds = (read_mapping(out / "data/test" / n) for n in ("utt2spk", "wav.scp"))
    his = [utt for utt in decoded if speakers[utt] == min(speakers.values())]
    heard = bayes_asr.transcribe(run, [sounds[utt] for utt in his], one_speaker=True)
    assert [[word.word for word in one.words] for one in heard] == [decoded[utt] for utt in his]


TINY = """
model: {layers: 1, units: 24}
train: {epochs: 10, optimizer: adam, learning_rate: 1e-2, batch_sequences: 4}
"""


def test_librispeech_from_openslrs_layout_by_kaldis_names_to_words(tmp_path: Path) -> None:
    """Stage 0 of a corpus; what becomes of it, called as in Kaldi's experiment; stages 3 to 7."""
    sets = {"train-clean-100": (6, 5), "dev-clean": (1, 4), "test-clean": (2, 4)}
    corpus, out, kaldi = (tmp_path / name for name in ("corpus", "out", "kaldi"))
    (tmp_path / "tiny.yaml").write_text(TINY)
    recipe = ["--recipe", "librispeech", "--out", out]
    write_librispeech(corpus, sets)
    with start(*recipe, "--corpus", corpus, "--stop-stage", "0") as process:
        said, _ = process.communicate()
    assert "train is train-clean-100, dev dev-clean, test test-clean" in said
    dictionary, lm = (out / "data/local" / name for name in ("dict", "lm.arpa"))
    for part, name in (("train", "train_clean_100"), ("dev", "dev_clean"), ("test", "test_clean")):
        shutil.copytree(out / "data" / part, kaldi / "fmllr" / name)
    assert main(["features", "--kind", "fbank", *map(str, (kaldi / "fmllr").iterdir())]) == 0
    align = ["align", "--flat", f"--lang={dictionary}", "--oov", "<UNK>"]
    ali, dev_ali = (kaldi / "exp" / f"tri4b_ali_{name}" for name in ("clean_100", "dev_clean_100"))
    model = f"--model={ali / 'final.mdl'}"
    assert main([*align, f"--data={kaldi / 'fmllr/train_clean_100'}", f"--out={ali}"]) == 0
    assert main([*align, f"--data={kaldi / 'fmllr/dev_clean'}", f"--out={dev_ali}", model]) == 0
    graph = ["graph", f"--lexicon={dictionary / 'lexicon.txt'}", f"--lm={lm}", model]
    assert main([*graph, f"--out={kaldi / 'exp/tri4b/graph_tgsmall'}"]) == 0
    printed = table(*recipe, "--kaldi-dir", kaldi, "--config", tmp_path / "tiny.yaml", "--nj", "1")
    for name, words in (("dev", 16), ("test", 32)):
        (score,) = json.loads((out / f"tiny/seed1/score_{name}.json").read_text())
        assert (score["convention"], score["costs"]) == ("kaldi", "levenshtein")
        assert score["tokens"] == words
        assert score["rate"] < 60
        assert f"{score['rate']:.2f}" in printed


SMALL = """
data: {max_skipped: 0.2}
model: {layers: 2, units: 64}
train: {epochs: 6, batch_sequences: 4, optimizer: adam, learning_rate: 3e-3, schedule: cosine}
decode: {acoustic_scale: 0.4, lm_weights: [2, 3, 5]}
"""


@pytest.fixture(scope="module")
def ami(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Spoken meetings with what real ones have, and a small configuration beside them."""
    pytest.importorskip("espeakng_loader")
    folder = tmp_path_factory.mktemp("ami")
    make = [sys.executable, "-m", "tests.support.ami_corpus", folder / "corpus"]
    subprocess.run(make, cwd=ROOT, check=True)
    (folder / "small.yaml").write_text(SMALL)
    recipe = shutil.copytree(ROOT / "recipes/ami", folder / "ami")
    settings = (recipe / "kaldi.sh").read_text().replace("(5000 80000)", "(200 1000)")
    (recipe / "kaldi.sh").write_text(settings)
    return folder


def count_unheard(score: dict[str, Any], data: Path) -> int:
    """Check that a score has all segments of a set, and that what has no frame, one word of two by
    the GLM, is deleted; how many there are.
    """
    feats, speakers, unheard = read_scp(data / "feats.scp"), Counter[str](), 0
    entries = {entry["utterance"]: entry for entry in score["utterances"]}
    segments = (data / "stm").read_text().splitlines()
    for utt, segment in zip(read_text(data / "text"), segments, strict=True):
        speaker = segment.split()[2]
        entry = entries.pop(f"{speaker}-{speakers[speaker]:03d}")
        speakers[speaker] += 1
        if utt not in feats:
            assert (entry["reference"], entry["deletions"]) == ("o. k.", 2)
            unheard += 1
    assert not entries
    return unheard


@pytest.mark.parametrize(("features", "mic", "unheard"), [("fmllr", "ihm", 3), ("mfcc", "sdm", 2)])
def test_ami_from_its_xml_to_words(
    features: str,
    mic: str,
    unheard: int,
    ami: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hesitations do not count; what has no frame is deleted; NIST counts the same."""
    monkeypatch.delenv("KALDI_ROOT", raising=False)
    recipe = shutil.copytree(ami / "ami", tmp_path / "ami")
    config = (recipe / "config.yaml").read_text()
    chosen = config.replace("offers: [corpus]", f"offers: [corpus]\n  options: [--mic, {mic}]")
    (recipe / "config.yaml").write_text(chosen)
    out = tmp_path / "out"
    options = ["--recipe", recipe, "--corpus", ami / "corpus", "--features", features]
    options += ["--config", ami / "small.yaml"]
    printed = table(*options, "--out", out, "--nj", "1")
    run = out / "small" / "seed1"
    for name, part in (("dev", "dev"), ("test", "eval")):
        (score,) = json.loads((run / f"score_{name}.json").read_text())
        if mic == "ihm":  # far away all speak at once, all the time, so that nothing is learnt
            assert score["rate"] < 60  # 100 where nothing was learnt
        assert f"{score['rate']:.2f}" in printed
        assert count_unheard(score, out / "data" / part) == unheard
        if features == "fmllr":
            (by_gmm,) = json.loads((out / f"gmm/tri3/score_{name}.json").read_text())
            assert count_unheard(by_gmm, out / "data" / part) == unheard
        assert " UM " in (out / "data" / part / "text").read_text()
        assert not any(" UM " in ctm.read_text() for ctm in (run / f"ctm_{name}").iterdir())
    log = (run / "log" / "score.log").read_text()
    assert "not the same" not in log
    assert log.count(f"for {unheard} of 2") == 2, "26 and 25 utterances, or some less"
    if shutil.which("sctk"):
        assert log.count("by hubscr.pl, the same") == 2
