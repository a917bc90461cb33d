"""The mini recipe: exact times, whole phones, disjoint sets, files that other rooms read."""

import ctypes
import itertools
import os
import signal
import subprocess
import sys
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from bayes_asr.base import installed
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.kaldi_io.ark import iter_int_vectors, read_matrix
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_mapping, read_text
from bayes_asr.kaldi_io.tree import read_tree
from tests.support.places import RECIPES
from tests.support.recipe_modules import loaded

pytest.importorskip("espeakng_loader")
pytest.importorskip("kaldi_native_fbank")
pytest.importorskip("kaldifst")
RECIPE = RECIPES / "mini"
SETS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def recipe() -> Iterator[Callable[[str], ModuleType]]:
    """The recipe's files, loaded as its script sees them."""
    with loaded(RECIPE, "espeak", "corpus", "prepare") as modules:
        yield modules


@pytest.fixture(scope="module")
def synthesiser(recipe: Callable[[str], ModuleType]) -> Any:
    return recipe("espeak").Synthesiser(1)


def test_phonemes_come_with_their_samples(
    recipe: Callable[[str], ModuleType], synthesiser: Any
) -> None:
    speaker = recipe("espeak").Speaker("x", "m3")
    speech = synthesiser.speak("Seven ships.", speaker)
    phones, starts = recipe("corpus").map_phonemes(speech)
    assert phones[:9] == ["s", "eh", "v", "ax", "n", "sh", "ih", "p", "s"]
    assert (np.diff(starts) > 0).all()
    assert starts[-1] < len(speech.samples)
    # A hiss crosses zero more often than a vowel: the times are those of the sound.
    cuts = np.append(starts, len(speech.samples))
    crossings = [
        np.mean(np.diff(np.sign(speech.samples[a:b])) != 0) for a, b in itertools.pairwise(cuts)
    ]
    hiss = [crossings[i] for i, phone in enumerate(phones) if phone in ("s", "sh")]
    vowel = [crossings[i] for i, phone in enumerate(phones) if phone in ("eh", "ih", "ax")]
    assert min(hiss) > 2 * max(vowel)


@pytest.mark.slow
def test_every_sentence_of_every_set_has_known_phones(
    recipe: Callable[[str], ModuleType], synthesiser: Any
) -> None:
    corpus = recipe("corpus")
    speaker = recipe("espeak").Speaker("x", "m3")
    said = {name: corpus.sentences(name, 60, seed=1) for name in SETS}
    for sentence in {s for sentences in said.values() for s in sentences}:
        corpus.map_phonemes(synthesiser.speak(sentence, speaker))
    assert not set(said["train"]) & {*said["dev"], *said["test"]}
    assert not set(said["dev"]) & set(said["test"])
    variants = " ".join(corpus.VARIANTS.values()).split()
    assert len(variants) == len(set(variants))


def test_a_phoneme_that_nobody_foresaw_is_named(recipe: Callable[[str], ModuleType]) -> None:
    speech = recipe("espeak").Speech(np.zeros(9, np.int16), 22050, ["'X9"], np.array([0]))
    with pytest.raises(InputError, match='phoneme "\'X9" has no phone'):
        recipe("corpus").map_phonemes(speech)


def test_unknown_voices_are_named(recipe: Callable[[str], ModuleType], synthesiser: Any) -> None:
    with pytest.raises(InputError, match=r"no voice 'en-us\+nobody' \(speaker x\)"):
        synthesiser.speak("Hello.", recipe("espeak").Speaker("x", "nobody"))


def test_what_happens_in_a_callback_is_not_swallowed(
    recipe: Callable[[str], ModuleType], synthesiser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ctypes prints an exception of a callback and goes on, Ctrl-C included."""
    espeak = recipe("espeak")
    as_array = np.ctypeslib.as_array

    def interrupted(*given: Any) -> np.ndarray:
        signal.raise_signal(signal.SIGINT)
        return as_array(*given)

    def failing(*_: Any) -> np.ndarray:
        raise MemoryError("no room")

    for function, error in ((interrupted, KeyboardInterrupt), (failing, MemoryError)):
        with monkeypatch.context() as patch:
            patch.setattr(np.ctypeslib, "as_array", function)
            with pytest.raises(error):
                synthesiser.speak("one two", espeak.Speaker("a", "f1"))
    assert len(synthesiser.speak("one two", espeak.Speaker("a", "f1")).samples)


def test_a_missing_library_says_what_to_install(
    recipe: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(InputError, match=r"pip install espeakng-loader"):
        recipe("espeak").Synthesiser(1)


def test_all_missing_packages_are_named_before_the_synthesis(
    recipe: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    assert recipe("prepare").main(["--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert "needs espeakng-loader, kaldi-native-fbank, soundfile, kaldifst: pip install" in error
    assert not (tmp_path / "out").exists()


def test_a_library_of_another_machine_says_what_to_do(
    recipe: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise OSError(f"{path}: wrong ELF class")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    with pytest.raises(InputError, match=r"does not load on this machine .*wrong ELF class"):
        recipe("espeak").Synthesiser(1)


def test_resampling_keeps_a_tone_and_the_times(recipe: Callable[[str], ModuleType]) -> None:
    time = np.arange(22050) / 22050
    marks = np.array([0, 11025])
    out, moved = recipe("corpus").resample(np.sin(2 * np.pi * 440 * time), marks, 22050)
    assert len(out) == 16000
    assert moved.tolist() == [0, 8000]
    assert out == pytest.approx(np.sin(2 * np.pi * 440 * np.arange(16000) / 16000), abs=1e-6)


def test_resampling_removes_what_16_khz_cannot_hold(recipe: Callable[[str], ModuleType]) -> None:
    tone = np.sin(2 * np.pi * 9000 * np.arange(22050) / 22050)
    out, _ = recipe("corpus").resample(tone, np.array([0]), 22050)
    assert np.abs(out).max() < 1e-6


def prepare_in(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, RECIPE / "prepare.py", "--out", folder, "--seed", "3"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(RECIPE.parents[1])},
    )
    return done.stdout


def test_words_are_pronounced_in_the_phones_of_the_corpus(
    recipe: Callable[[str], ModuleType], synthesiser: Any
) -> None:
    said = dict(recipe("corpus").pronounce(synthesiser, ["seven", "ships", "the"]))
    assert said["seven"] == ["s", "eh", "v", "ax", "n"]
    assert said["ships"] == ["sh", "ih", "p", "s"]
    assert {phone for phones in said.values() for phone in phones} <= {*recipe("corpus").PHONES}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The whole corpus, and what preparing it printed."""
    folder = tmp_path_factory.mktemp("mini")
    return folder, prepare_in(folder)


@pytest.mark.slow
def test_frames_labels_and_transcripts_agree(prepared: tuple[Path, str]) -> None:
    folder, _ = prepared
    for name, alignment in zip(SETS, ("ali", "ali_dev", "ali_test"), strict=True):
        data = read_data_dir(folder / "data" / name)
        alignments = dict(iter_int_vectors(folder / "exp" / alignment / "ali.1.gz"))
        model = read_transition_model(folder / "exp" / alignment / "final.mdl")
        names = (folder / "exp" / alignment / "phones.txt").read_text().split()[::2]
        assert data.feats is not None
        assert data.text is not None
        assert data.feats.keys() == data.text.keys() == alignments.keys()
        for utt in list(data.feats)[::7]:
            tids = alignments[utt]
            assert len(tids) == len(read_matrix(data.feats[utt], utt))
            begins = (model.hmm_state[tids] == 0) & ~model.self_loop[tids]
            assert [names[model.phone[tid]] for tid in tids[begins]] == data.text[utt]
            assert (np.diff(model.pdf[tids])[~begins[1:]] <= 1).all()


@pytest.mark.slow
def test_features_are_those_of_the_sound(prepared: tuple[Path, str]) -> None:
    folder, _ = prepared
    data = read_data_dir(folder / "data" / "dev")
    for utt, path in list(read_mapping(data.path / "wav.scp").items())[:5]:
        with wave.open(path) as sound:
            assert sound.getframerate() == 16000
            samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2")
        assert data.feats is not None
        stored = read_matrix(data.feats[utt], utt)
        assert stored == pytest.approx(Analysis("fbank", bands=40)(samples))


@pytest.mark.slow
def test_model_tree_and_graph_belong_together(prepared: tuple[Path, str]) -> None:
    folder, _ = prepared
    model = read_transition_model(folder / "exp" / "ali" / "final.mdl")
    tree = read_tree(folder / "exp" / "ali" / "tree")
    for phone, state, pdf, _ in model.tuples.tolist():
        assert tree.pdf([phone], state) == pdf
    leaving = np.bincount(model.pdf[1:], np.exp(model.log_prob[1:]))
    assert leaving == pytest.approx(np.ones(model.num_pdfs), abs=1e-5)
    assert read_fst(folder / "exp" / "graph" / "HCLG.fst").ilabel.max() == len(model.pdf) - 1


@pytest.mark.slow
def test_what_is_moved_is_counted_and_sets_are_disjoint(prepared: tuple[Path, str]) -> None:
    folder, printed = prepared
    speakers = {
        name: set(read_mapping(folder / "data" / name / "utt2spk").values()) for name in SETS
    }
    words = {
        name: {" ".join(w) for w in read_text(folder / "data" / name / "words").values()}
        for name in SETS
    }
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        assert not speakers[one] & speakers[other]
        assert not words[one] & words[other]
    for name in SETS:
        assert f"{name}: {len(speakers[name])} speakers" in printed
    assert printed.count("lasted fewer than 3 frames") == 3


@pytest.mark.slow
def test_the_same_seed_gives_the_same_files(prepared: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = prepared
    assert "is prepared" in prepare_in(folder)
    prepare_in(tmp_path)
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix not in (".scp", ".gz"):  # these hold paths and dates
            assert path.read_bytes() == (tmp_path / path.relative_to(folder)).read_bytes(), path


@pytest.mark.slow
def test_lexicon_has_every_word_for_a_graph_of_words(
    prepared: tuple[Path, str], tmp_path: Path
) -> None:
    folder, _ = prepared
    lexicon = folder / "data" / "words_dict" / "lexicon.txt"
    said = {w for name in SETS for ws in read_text(folder / "data" / name / "words").values()
            for w in ws}  # fmt: skip
    assert {line.split()[0] for line in lexicon.read_text().splitlines()} == said
    given = ("--lexicon", lexicon, "--text", folder / "data/train/words", "--out", tmp_path)
    model = ("--model", folder / "exp/ali/final.mdl", "--tree", folder / "exp/ali/tree")
    assert main(["graph", *map(str, (*given, *model))]) == 0
    assert said <= read_symbols(tmp_path / "words.txt").keys()
