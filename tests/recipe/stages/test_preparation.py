"""Whether a corpus is another, or has changed, since it was prepared."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bayes_asr.recipe.stages.preparation import forget_changed, has_changed, read_folders
from bayes_asr.recipe.stages.recipe import Recipe
from tests.support.recipe_options import options_of


def test_corpus_has_changed_where_anything_came_or_changed(tmp_path: Path) -> None:
    corpus, out = tmp_path / "corpus", tmp_path / "corpus" / "out"
    (corpus / "below").mkdir(parents=True)
    (corpus / "below" / "round").symlink_to(corpus)
    (corpus / "below" / "nowhere").symlink_to("nowhere")
    (tmp_path / "elsewhere").mkdir()
    (corpus / "linked").symlink_to(tmp_path / "elsewhere")
    out.mkdir()
    latest = 0

    def changed() -> bool:
        nonlocal latest
        found = has_changed(corpus, latest, out)
        latest = max(os.stat(path).st_ctime_ns for path in (corpus, *changing))
        tick()
        return found

    changing = [corpus / "below", tmp_path / "elsewhere"]
    changed()
    assert not changed()
    (out / "result").touch()
    assert not changed()
    for place in changing:
        (place / "new").touch()
        assert changed()
        assert not changed()
    (corpus / "below" / "new").chmod(0o600)
    assert has_changed(corpus, latest, out)


def tick() -> None:
    """Wait until a file that is written next is newer than those before it."""
    time.sleep(0.02)  # the clock of files ticks slowly


def prepare(corpus: Path, out: Path) -> str:
    """As stage 0: ask what is other than before, and leave the stamp of a preparation."""
    tick()
    difference = forget_changed([corpus], out)
    stamp = out / "log/prepare.done"
    if not stamp.exists():
        stamp.touch()
    tick()
    return difference


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of projects A and B, each with a corpus that is there before any preparation."""
    for project in "AB":
        (tmp_path / project / "corpus").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "A")
    return tmp_path


def to_another_project(corpora: Path) -> Path:
    os.chdir(corpora / "B")
    return Path("corpus")


def by_another_link(corpora: Path) -> Path:
    link = corpora / "link"
    link.unlink()
    link.symlink_to("B/corpus")
    return link


@pytest.mark.parametrize("go", [to_another_project, by_another_link])
def test_folder_of_the_same_name_is_another_corpus(
    corpora: Path, go: Callable[[Path], Path]
) -> None:
    out, link = corpora / "out", corpora / "link"
    link.symlink_to("A/corpus")
    corpus = Path("corpus") if go is to_another_project else link
    assert [prepare(corpus, out), prepare(corpus, out)] == ["", ""]
    assert prepare(go(corpora), out) == f"{corpus} is another folder than the one that was prepared"
    assert prepare(go(corpora), out) == ""


def test_another_disk_at_the_same_place_is_another_corpus(corpora: Path) -> None:
    """What it has is as old as the first one's, but did not change in the same instant."""
    corpus, out = Path("corpus"), corpora / "out"
    prepare(corpus, out)
    record = out / "log/prepare.corpus"
    before = str(corpus.stat().st_ctime_ns)
    assert before in record.read_text()
    record.write_text(record.read_text().replace(before, str(int(before) - 10**9)))
    assert "another folder" in prepare(corpus, out)
    assert prepare(corpus, out) == ""


def test_copy_of_prepared_data_knows_when_its_corpus_was_read(corpora: Path) -> None:
    corpus, copied = Path("corpus"), corpora / "copied"
    prepare(corpus, corpora / "out")
    (corpus / "text").touch()
    tick()
    shutil.copytree(corpora / "out", copied, copy_function=shutil.copy)
    assert "has changed" in prepare(corpus, copied)
    assert prepare(corpus, copied) == ""


def test_folders_that_options_name_are_read_too(corpora: Path) -> None:
    """A model of pronunciation that is trained again; what is no folder has stamps of its own."""
    out, model = corpora / "out", corpora / "a model"
    model.mkdir()
    (model / "best.pt").touch()
    recipe = corpora / "recipe"
    recipe.mkdir()
    given = f"recipe: {{options: ['--g2p={model}', --lm=absent, --mic, '{model}']}}"
    (recipe / "config.yaml").write_text(given)
    options = options_of(f"--recipe={recipe}", "--corpus=corpus")
    folders = read_folders(options, Recipe(str(recipe)))
    assert folders == [Path("corpus"), model]
    assert forget_changed(folders, out) == ""
    (out / "log/prepare.done").touch()
    tick()
    assert forget_changed(folders, out) == ""
    (model / "best.pt").write_text("trained again")
    assert forget_changed(folders, out) == f"{model} has changed since data were prepared"


def test_data_of_before_are_those_of_this_corpus(corpora: Path) -> None:
    """Nothing is prepared anew because there was no record; from then on there is."""
    corpus, out = Path("corpus"), corpora / "out"
    prepare(corpus, out)
    (out / "log/prepare.corpus").unlink()
    assert prepare(corpus, out) == ""
    (out / "log/prepare.corpus").write_text("")  # as on a full disk
    assert prepare(corpus, out) == ""
    (corpus / "text").touch()
    assert "has changed" in prepare(corpus, out)
    (out / "log/prepare.corpus").unlink()
    (corpus / "text").unlink()
    assert "has changed" in prepare(corpus, out)


@pytest.mark.parametrize("place", [".", "exp/out"])
def test_results_inside_of_the_corpus_are_no_change(corpora: Path, place: str) -> None:
    corpus = Path("corpus")
    prepare(corpus, corpus / place)
    (corpus / place / "data").mkdir()
    assert prepare(corpus, corpus / place) == ""
