"""The commands recipe on a made-up corpus: its split, what it refuses, and its network."""

import csv
import os
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.text import read_mapping
from tests.support.experiments import list_systems, name_of
from tests.support.places import RECIPES
from tests.support.recipe_modules import loaded

pytest.importorskip("kaldi_native_fbank")
SPEAKERS = {"train": ("00000003", "00000030"), "val": ("00000002",), "test": ("00000014",)}
WORDS = ("start", "zoom in")


def write_table(path: Path, rows: list[tuple[str, str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("file", "class"), *rows])


def write_corpus(corpus: Path) -> Path:
    """Words that are hisses: one that swells, and one that fades."""
    rng = np.random.default_rng(1)
    for name, speakers in SPEAKERS.items():
        rows = []
        for speaker in speakers:
            for word in WORDS:
                for number in (1, 2):
                    file = f"dataset/{word}/{speaker}_NO_{number:02d}.wav"
                    (corpus / file).parent.mkdir(parents=True, exist_ok=True)
                    x = np.geomspace(3000, 3, 8000) * rng.standard_normal(8000)
                    x = x if word == "start" else x[::-1]
                    with wave.open(str(corpus / file), "wb") as out:
                        out.setparams((1, 2, 16000, 0, "NONE", ""))
                        out.writeframes(x.astype("<i2").tobytes())
                    rows.append((file, word))
        write_table(corpus / f"{name}.csv", rows)
    return corpus


@pytest.fixture(scope="module")
def recipe() -> Iterator[Callable[[str], ModuleType]]:
    with loaded(RECIPES / "commands", "prepare") as modules:
        yield modules


@pytest.mark.slow
def test_words_of_new_speakers_are_told_apart(
    recipe: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, out = write_corpus(tmp_path / "corpus"), tmp_path / "out"
    assert recipe("prepare").main(["--corpus", str(corpus), "--out", str(out)]) == 0
    assert "test: 1 speakers, 2 words, 4 utterances" in capsys.readouterr().out
    for name, table in (("train", "train"), ("dev", "val"), ("test", "test")):
        data = read_data_dir(out / "data" / name)
        assert set(data.utt2spk.values()) == set(SPEAKERS[table])
        words = read_mapping(out / "data" / name / "utt2word")
        assert set(words.values()) == {"start", "zoom_in"}
        assert list(words) == list(data.feats or {})
    given = (f"data.dir={out}", "model.units=4", "train.epochs=8", "train.batch_sequences=2")
    files = [str(RECIPES / "commands/config.yaml")]
    files.append(str(RECIPES.parent / "conf/experiments/encoders.yaml#li-gru"))
    run = str(tmp_path / "run")
    assert main(["train", *files, *(f"--set={one}" for one in given), "--out", run]) == 0
    capsys.readouterr()
    assert main(["classify", run, "--on", "test"]) == 0
    assert capsys.readouterr().out.startswith("test: 0 of 4 wrong, 0.00 %")


@pytest.mark.slow
def test_features_are_made_once(
    recipe: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Again where the corpus is another or has changed: classification waits for new features."""
    corpus, out = write_corpus(tmp_path / "corpus"), tmp_path / "out"

    def prepares(corpus: Path, *more: str) -> bool:
        assert recipe("prepare").main(["--corpus", str(corpus), "--out", str(out), *more]) == 0
        return "is prepared" not in capsys.readouterr().out

    assert [prepares(corpus), prepares(corpus), prepares(corpus, "--force")] == [True, False, True]
    sound = next(corpus.glob("dataset/*/*.wav"))
    os.utime(sound, ns=(1, 1))
    assert [prepares(corpus), prepares(corpus)] == [True, False]
    (out / "data/test/feats.scp").unlink()
    assert [prepares(corpus), prepares(corpus)] == [True, False]
    (out / "prepared.json").write_text("")  # as on a full disk
    assert [prepares(corpus), prepares(corpus)] == [True, False]
    assert prepares(write_corpus(tmp_path / "another"))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("dataset/start/00000003_NO_01.wav", "start"), "test.csv: speaker 00000003 is in train"),
        (("dataset/start/00000014_NO_01.wav", "stop"), "test.csv, line 2: not dataset/WORD/SPEAK"),
        (("start/14.wav", "start"), r"test.csv, line 2: not dataset/WORD/SPEAKER_NO_ROUND.wav and"),
    ],
)
def test_tables_of_another_kind_are_refused(
    row: tuple[str, str], said: str, recipe: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    write_table(corpus / "test.csv", [row])
    with pytest.raises(InputError, match=said):
        recipe("prepare").prepare(corpus, tmp_path / "out")


def test_an_empty_table_is_refused(recipe: Callable[[str], ModuleType], tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    write_table(corpus / "val.csv", [])
    with pytest.raises(InputError, match=r"val.csv: names no files"):
        recipe("prepare").prepare(corpus, tmp_path / "out")


def test_every_encoder_of_the_experiment_is_a_unit_with_one_configuration() -> None:
    units = {file.stem: file for file in (RECIPES.parent / "conf/units").glob("*.yaml")}
    systems = {name_of(system): system for system in list_systems("encoders")}
    assert systems.keys() == {name for name in units if not name.startswith(("mlp", "torch-"))}
    for name, system in systems.items():
        assert load([system]) == load([units[name]])
