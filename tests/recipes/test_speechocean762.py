"""The recipe of speechocean762: a made-up corpus of its shape, damaged copies, the real one."""

import os
import re
import runpy
import shutil
import wave
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.decode.graph.ngram import read_arpa
from bayes_asr.evaluate.score.scores import read_scores
from bayes_asr.kaldi_io.text import read_mapping, read_text, write_mapping, write_text
from tests.support.places import RECIPES

CLONE = Path(os.environ.get("BAYES_ASR_SPEECHOCEAN762", "/work/so762"))
SETS = ("train", "dev", "test")
LEXICON = {"BAD": ["B AE1 D"], "A": ["AH0", "EY1"], "DAB": ["D AE1 B"], "ODD": ["AA1 D"]}
TONES = {"B": 400, "AE": 900, "D": 1400, "AH": 1900, "EY": 2400, "AA": 2900}  # Hz
RATE = 16000
SPEAKERS = {"train": 10, "test": 4}
SPOKEN = 3  # utterances of a speaker


def prepare(corpus: Path, out: Path, *options: str) -> int:
    """Run the recipe's script in this process; its status."""
    recipe = runpy.run_path(str(RECIPES / "speechocean762/prepare.py"))
    return recipe["main"](["--corpus", str(corpus), "--out", str(out), *options])


def write_sound(path: Path, phones: list[str], rng: np.random.Generator) -> None:
    """A tone for each phone, in pauses."""
    tones = [0, *(TONES[phone.rstrip("012")] for phone in phones), 0]
    pitch = np.repeat(tones, rng.integers(1500, 2500, len(tones)))
    sound = 3000 * np.sin(2 * np.pi * np.cumsum(pitch) / RATE) + rng.normal(0, 100, len(pitch))
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(sound.astype("<i2").tobytes())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Women and men, children and adults in turn; ODD is spoken in test alone."""
    rng = np.random.default_rng(1)
    root = tmp_path_factory.mktemp("clone")
    text_phone = {}
    for name, people in SPEAKERS.items():
        texts, speakers, sounds = {}, {}, {}
        known = [*LEXICON][: 4 if name == "test" else 3]
        names = [f"{100 * (name == 'test') + number:04d}" for number in range(people)]
        for who in names:
            for number in range(SPOKEN):
                utt = f"0{who}{number:04d}"
                words = [*rng.choice(known, 3), known[-1]]
                spelled = [rng.choice(LEXICON[word]).split() for word in words]
                sound = f"WAVE/SPEAKER{who}/{utt}.WAV"
                write_sound(root / sound, [p for phones in spelled for p in phones], rng)
                texts[utt], speakers[utt], sounds[utt] = words, who, sound
                for place, phones in enumerate(spelled):
                    text_phone[f"{utt}.{place}"] = [f"{phones[0]}_B", *phones[1:]]
        folder = root / name
        folder.mkdir()
        write_text(texts.items(), folder / "text")
        write_mapping(speakers.items(), folder / "utt2spk")
        write_mapping(sounds.items(), folder / "wav.scp")
        ages = (7, 23)
        write_mapping([(who, ages[n // 2 % 2]) for n, who in enumerate(names)], folder / "spk2age")
        write_mapping([(who, "fm"[n % 2]) for n, who in enumerate(names)], folder / "spk2gender")
    (root / "resource").mkdir()
    write_text(text_phone.items(), root / "resource/text-phone")
    entries = [(word, spelled.split()) for word, all_of in LEXICON.items() for spelled in all_of]
    write_text(entries, root / "resource/lexicon.txt")
    return root


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
    for name, known in (("lm", TONES.keys() - {"AA"}), ("lm_words", {"BAD", "A", "DAB"})):
        model = read_arpa(local / f"{name}.arpa")
        assert model.order == 3
        assert {word for ngram in model.log_prob for word in ngram} == {"<s>", "</s>", *known}


def test_the_way_to_both_tables(corpus: Path, tmp_path: Path) -> None:
    """From sound to rates without GMMs: one network, decoded as words, and a copy as phones."""
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
    small = ["model.layers=1", "model.units=16", "train.epochs=4", "decode.beam=8"]
    settings = [f"--set={setting}" for setting in (f"data.dir={tmp_path}", *small)]
    conventions = {
        "speechocean762": ["plain", "known"],
        "speechocean762_phones": ["strict"],
    }
    for recipe, named in conventions.items():
        run = tmp_path / recipe / "seed1"
        files = [RECIPES / recipe / f"{name}.yaml" for name in ("config", "without_kaldi")]
        if recipe == "speechocean762_phones":
            shutil.copytree(tmp_path / "speechocean762/seed1", run)
        bayes_asr("train", *files, *settings, "--out", run)
        for name in ("dev", "test"):
            bayes_asr("forward", run, "--on", name)
            bayes_asr("decode", run, "--on", name)
        bayes_asr("score", run)
        for name in ("dev", "test"):
            scores = read_scores(run / f"score_{name}.json")
            assert [score.convention for score in scores] == named
            assert len(scores[0].utterances) == len(read_text(data / name / "text"))


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
    recipe = runpy.run_path(str(RECIPES / "speechocean762/prepare.py"))
    with pytest.raises(InputError, match=f"000000000.WAV: {message}"):
        recipe["count_samples"](sound)


def check_refused(corpus: Path, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare(corpus, corpus / "out", "--unchecked") == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_the_published_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not CLONE.is_dir():
        pytest.skip(f"a clone of speechocean762 is absent: {CLONE} (BAYES_ASR_SPEECHOCEAN762)")
    assert prepare(CLONE, tmp_path) == 0
    said = capsys.readouterr().out
    assert "dev: 13 speakers, 6 of them children, 260 utterances" in said
    assert "15967 words, 1011 (6.3%) of them not in train" in said
