"""The recipe of speechocean762: a made-up corpus of its shape, damaged copies, the real one."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.decode.graph.ngram import read_arpa
from bayes_asr.evaluate.score.scores import read_scores
from bayes_asr.kaldi_io.text import read_mapping, read_text
from tests.support.places import RECIPES
from tests.support.recipe_modules import loaded
from tests.support.script_stubs import Checkout
from tests.support.speechocean_corpus import LEXICON, TONES, write_speechocean762

SETS = ("train", "dev", "test")
RUNS = ("speechocean762", "speechocean762_phones")


@pytest.fixture(scope="module", autouse=True)
def _modules() -> Iterator[None]:
    names = (
        "corpus",
        "notation",
        "experts",
        "regressions",
        "goodness",
        "prepare",
        "against_experts",
    )
    with loaded(RECIPES / "speechocean762", *names):
        yield


def prepare(corpus: Path, out: Path, *options: str) -> int:
    """Run the recipe's script in this process; its status."""
    return sys.modules["prepare"].main(["--corpus", str(corpus), "--out", str(out), *options])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up corpus."""
    return write_speechocean762(tmp_path_factory.mktemp("clone"))


@pytest.fixture
def damaged(corpus: Path, tmp_path: Path) -> Path:
    """A copy of the corpus."""
    return Path(shutil.copytree(corpus, tmp_path / "damaged"))


def test_sets_speakers_and_both_transcripts(corpus: Path, tmp_path: Path) -> None:
    assert prepare(corpus, tmp_path, "--unchecked") == 0
    texts = {name: read_text(tmp_path / "data" / name / "text") for name in SETS}
    assert [len(text) for text in texts.values()] == [27, 3, 12]
    # Adults first, women first: 0002 0006 0003 0007, then the children.
    assert {*read_mapping(tmp_path / "data/dev/utt2spk").values()} == {"0000"}
    for name in SETS:
        data = tmp_path / "data" / name
        assert {*read_mapping(data / "utt2age").values()} <= {"adult", "child"}
        assert {*read_mapping(data / "utt2gender").values()} <= {"f", "m"}
        for utt, words in read_text(data / "text_words").items():
            spelled = product(*(LEXICON[word] for word in words))
            plain = {re.sub(r"\d", "", " ".join(phones)) for phones in spelled}
            assert " ".join(texts[name][utt]) in plain
        for file in read_mapping(data / "wav.scp").values():
            assert Path(file).is_relative_to(corpus)
    assert set(read_mapping(tmp_path / "data/test/utt2age").values()) == {"adult", "child"}


def test_words_of_test_alone_cannot_be_recognised(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither dictionary nor language model of the search has them; transcripts are aligned."""
    assert prepare(corpus, tmp_path, "--unchecked") == 0
    unseen = sum(words.count("ODD") for words in read_text(corpus / "test/text").values())
    said = capsys.readouterr().out.splitlines()
    assert f"48 words, {unseen} ({unseen / 48:.1%}) of them not in train" in said[2]
    local = tmp_path / "data/local"
    words = {
        name: {line.split()[0] for line in (local / name / "lexicon.txt").read_text().splitlines()}
        for name in ("dict", "dict_words", "dict_align")
    }
    assert words["dict_words"] == {"<UNK>", "BAD", "A", "DAB"}
    assert words["dict_align"] == {"<UNK>", *LEXICON}
    assert words["dict"] == {"<UNK>", *TONES}
    for name, known in (("lm", TONES.keys()), ("lm_words", {"BAD", "A", "DAB"})):
        model = read_arpa(local / f"{name}.arpa")
        assert model.order == 3
        assert {word for ngram in model.log_prob for word in ngram} == {"<s>", "</s>", *known}


@pytest.mark.slow
def test_the_way_to_all_tables(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From sound without GMMs: words by a network, phones by a copy, and wrong phones by it."""
    assert prepare(corpus, tmp_path, "--unchecked") == 0
    data, local, exp = tmp_path / "data", tmp_path / "data/local", tmp_path / "exp"
    bayes_asr("features", *(data / name for name in SETS))
    model: list[str | Path] = []
    for name, ali in (("train", "realigned_ali"), ("dev", "realigned_ali_dev")):
        text = ("--data", data / name, "--text", data / name / "text_words", *model)
        lang = ("--lang", local / "dict_align", "--oov", "<UNK>")
        bayes_asr("align", "--flat", *text, *lang, "--out", exp / ali)
        model = ["--model", exp / "realigned_ali/final.mdl"]
    for task in ("", "_words"):
        lexicon, lm = local / f"dict{task}/lexicon.txt", local / f"lm{task}.arpa"
        options = ("--lexicon", lexicon, "--lm", lm, "--silence-prob", "0.5", *model)
        bayes_asr("graph", *options, "--out", exp / f"mono/graph{task}")
    small = ["model.layers=1", "model.units=32", "train.epochs=20", "decode.beam=8"]
    settings = [f"--set={setting}" for setting in (f"data.dir={tmp_path}", *small)]
    words, phones = (tmp_path / name / "seed1" for name in RUNS)
    for run, conventions in ((words, ["plain", "known"]), (phones, ["strict"])):
        recipe = RECIPES / run.parent.name
        files = [recipe / f"{name}.yaml" for name in ("config", "without_kaldi")]
        if run == phones:
            shutil.copytree(words, run)
        bayes_asr("train", *files, *settings, "--out", run)
        for name in ("dev", "test"):
            bayes_asr("forward", run, "--on", name)
            bayes_asr("decode", run, "--on", name)
        bayes_asr("score", run)
        for name in ("dev", "test"):
            scores = read_scores(run / f"score_{name}.json")
            assert [score.convention for score in scores] == conventions
            assert len(scores[0].utterances) == len(read_text(data / name / "text"))
    for name in SETS:
        text = ("--text", data / name / "text_words", "--lang", local / "dict_align")
        bayes_asr("pronunciation", words, "--on", name, *text)
    capsys.readouterr()
    folders = ["--data", str(data), "--corpus", str(corpus)]
    assert sys.modules["against_experts"].main([str(words), *folders]) == 0
    first, _, _, _, goodness, *rows = capsys.readouterr().out.splitlines()
    assert " phones of test; " in first
    assert float(goodness.split("|")[2].split("[")[0]) > 0.1
    assert len(rows) == 4


def bayes_asr(*words: str | Path) -> None:
    assert main([*map(str, words)]) == 0


def test_another_corpus_is_refused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare(corpus, tmp_path) == 1
    assert "train: 10 speakers, but 125 in the published corpus" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "added", "message"),
    [
        (
            "train/text",
            "000000009 BAD",
            "train/utt2spk: 30 lines for 31; not in both are 000000009",
        ),
        ("train/wav.scp", "0 0.WAV", "train/wav.scp: 31 lines for 30; not in both are 0;"),
        ("train/spk2age", "0099 7", "train/spk2age: 11 lines for 10; not in both are 0099;"),
    ],
)
def test_tables_that_disagree_are_named(
    damaged: Path, capsys: pytest.CaptureFixture[str], file: str, added: str, message: str
) -> None:
    with (damaged / file).open("a") as table:
        print(added, file=table)
    check_refused(damaged, message, capsys)


@pytest.mark.parametrize(
    ("file", "lost", "message"),
    [
        ("test/spk2gender", "0100", "test/spk2gender: 3 lines for 4; not in both are 0100;"),
        ("resource/lexicon.txt", "ODD", "lexicon.txt: lacks 1 of 4 words of the transcripts, ODD;"),
        (
            "resource/text-phone",
            "000000000.1",
            "text-phone: has phones of 3 of the 4 words of 000000000;",
        ),
    ],
)
def test_lost_lines_are_named(
    damaged: Path, capsys: pytest.CaptureFixture[str], file: str, lost: str, message: str
) -> None:
    lines = (damaged / file).read_text().splitlines()
    (damaged / file).write_text("".join(f"{line}\n" for line in lines if lost not in line))
    check_refused(damaged, message, capsys)


@pytest.mark.parametrize(
    ("size", "message"), [(1000, "1000 bytes for"), (0, "not a RIFF file of sound")]
)
def test_sound_that_is_cut_off_is_refused(damaged: Path, size: int, message: str) -> None:
    sound = damaged / "WAVE/SPEAKER0000/000000000.WAV"
    os.truncate(sound, size)
    with pytest.raises(InputError, match=f"000000000.WAV: {message}"):
        sys.modules["corpus"].count_samples(sound)


def check_refused(corpus: Path, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare(corpus, corpus / "out", "--unchecked") == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_the_published_corpus(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = shared_data / "speechocean762"
    if not clone.exists():
        pytest.skip(f"a clone of speechocean762 is absent: {clone}")
    assert prepare(clone, tmp_path) == 0
    said = capsys.readouterr().out
    assert "dev: 13 speakers, 6 of them children, 260 utterances" in said
    assert "15967 words, 1011 (6.3%) of them not in train" in said


@pytest.mark.slow
def test_the_experts_are_asked_behind_the_errors(checkout: Checkout) -> None:
    """The steps of further.sh, where the clone has scores and the recipe is that of words."""
    recipe, out = checkout.folder / "recipes/gmm", checkout.folder / "exp/gmm"
    shutil.copy(RECIPES / "speechocean762/further.sh", recipe)
    (out / "data/local/dict_align").mkdir(parents=True)
    clone = checkout.folder / "clone"
    (clone / "resource").mkdir(parents=True)
    command = ["./run.sh", "--recipe", "gmm", "--corpus", "clone", "--nj", "2", "--stage", "3"]
    assert checkout.run(*command, KALDI_ROOT="").returncode == 0
    assert "pronunciation" not in [call[0] for call in checkout.calls("bayes-asr")]
    (clone / "resource/scores.json").touch()
    done = checkout.run(*command, KALDI_ROOT="")
    assert done.returncode == 0, done.stderr
    run = out / "gmm/seed1"
    scored = [call[:4] for call in checkout.calls("bayes-asr") if call[0] == "pronunciation"]
    assert scored == [["pronunciation", str(run), "--on", name] for name in SETS]
    script = [str(recipe / "against_experts.py"), str(run), "--data", f"{out}/data"]
    assert [*script, "--corpus", "clone"] in checkout.calls("python")
