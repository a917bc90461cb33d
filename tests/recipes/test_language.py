"""The language recipe in miniature: disjoint voices, every language, exact cuts, its network."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bayes_asr.cli import main
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.text import read_mapping
from tests.support.places import RECIPES
from tests.support.recipe_modules import loaded

pytest.importorskip("espeakng_loader")
pytest.importorskip("kaldi_native_fbank")
TINY = ("model.units=4", "model.kinds.pool.units=3", "train.epochs=1", "train.device=cpu")


@pytest.fixture(scope="module")
def recipe() -> Iterator[Callable[[str], ModuleType]]:
    """The files of the recipe, and those of mini that it takes, as its script sees them."""
    path = list(sys.path)
    with (
        loaded(RECIPES / "mini", "espeak", "corpus"),
        loaded(RECIPES / "language", "with_mini", "languages", "prepare") as modules,
    ):
        yield modules
    sys.path[:] = path


@pytest.fixture(scope="module")
def synthesiser(recipe: Callable[[str], ModuleType]) -> Any:
    """The one of this process: eSpeak NG is not made to begin twice."""
    return recipe("prepare").Synthesiser(1)


@pytest.fixture(scope="module")
def corpus(
    recipe: Callable[[str], ModuleType], synthesiser: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Two languages, of one voice a set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe("prepare"), "Synthesiser", lambda seed: synthesiser)
        patch.setattr(recipe("languages"), "LANGUAGES", {"fi": "fi", "pt-br": "pt-br"})
        sets = recipe("languages").SETS
        patch.setitem(sets, "train", replace(sets["train"], seconds=(1.0, 2.0)))
        folder = tmp_path_factory.mktemp("language")
        recipe("prepare").prepare(folder, seed=1, voices=1)
    return folder


def test_no_voice_is_in_two_sets_and_languages_have_clusters(
    recipe: Callable[[str], ModuleType],
) -> None:
    languages = recipe("languages")
    voices = [set(named.split()) for named in languages.VARIANTS.values()]
    assert not any(one & other for one, other in combinations(voices, 2))
    assert sum(map(len, voices)) == len(" ".join(languages.VARIANTS.values()).split())
    assert len(languages.CLUSTERS) >= 4
    assert len(languages.LANGUAGES) >= 10
    assert len(languages.LANGUAGES) == sum(map(len, languages.CLUSTERS.values()))


def test_every_voice_speaks_every_language(
    recipe: Callable[[str], ModuleType], synthesiser: Any
) -> None:
    """One that eSpeak NG does not know is an error; phonemes tell the languages apart."""
    languages, said = recipe("languages"), {}
    for name, called in languages.LANGUAGES.items():
        speaker = languages.Speaker("x", "m3", language=called)
        said[name] = tuple(synthesiser.speak("27, 846", speaker).phonemes)
    assert len(set(said.values())) == len(said)
    for variant in " ".join(languages.VARIANTS.values()).split():
        synthesiser.speak("1", languages.Speaker("x", variant, language="fi"))


@pytest.mark.slow
def test_cuts_have_their_lengths_and_do_not_overlap(corpus: Path) -> None:
    data = read_data_dir(corpus / "data/test")
    seconds = read_mapping(corpus / "data/test/utt2dur")
    frames = {utt: len(x) for utt, x in iter_matrices(corpus / "data/test/feats.ark")}
    assert list(frames) == sorted(data.utt2spk)
    spans: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for line in (corpus / "data/test/segments").read_text().splitlines():
        utt, recording, start, end = line.split()
        assert abs(frames[utt] - 100 * float(seconds[utt])) <= 3
        assert float(end) - float(start) == pytest.approx(float(seconds[utt]))
        spans.setdefault((recording, seconds[utt]), []).append((float(start), float(end)))
    assert sorted(length for _, length in spans) == sorted(["3.00", "10.00", "30.00"] * 2)
    for parts in spans.values():
        for (_, end), (start, _) in zip(sorted(parts), sorted(parts)[1:], strict=False):
            assert end <= start


def test_several_voices_take_turns(corpus: Path) -> None:
    data = read_data_dir(corpus / "data/test_several")
    assert set(data.utt2spk.values()) == {"test00"}
    assert set(read_mapping(corpus / "data/test_several/utt2dur").values()) == {"30.00"}


def test_those_who_take_turns_are_of_one_set(
    recipe: Callable[[str], ModuleType], synthesiser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    languages = recipe("languages")
    heard: list[str] = []

    def speak(text: str, speaker: Any) -> Any:
        heard.append(speaker.name)
        return synthesiser.speak(text, speaker)

    monkeypatch.setattr(languages, "LANGUAGES", {"fi": "fi"})
    said = list(
        languages.recordings("test_several", SimpleNamespace(speak=speak), seed=1, voices=4)
    )
    assert [one.speaker for one in said][1:3] == ["test01+test02+test03", "test02+test03+test00"]
    assert heard[:5] == ["test00", "test01", "test02", "test00", "test01"]


def test_the_same_seed_draws_the_same_numbers(recipe: Callable[[str], ModuleType]) -> None:
    languages = recipe("languages")
    drawn = [languages.numbers(np.random.default_rng(7), 8) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert all(part.isdigit() for part in drawn[0].split(", "))


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["attention", "last", "mean"])
def test_each_pooling_of_the_experiment_classifies(
    pooling: str, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(RECIPES / "language/config.yaml")]
    files.append(str(RECIPES.parent / f"conf/experiments/pooling.yaml#{pooling}"))
    given = [f"--set={one}" for one in (f"data.dir={corpus}", *TINY)]
    assert main(["train", *files, *given, "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert main(["classify", str(tmp_path / "run"), "--on", "test"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["test", "3 s", "10 s", "30 s"]
