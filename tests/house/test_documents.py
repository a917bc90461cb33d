"""The documents: what they link to exists, the index names every guide, and each keeps its form."""

import re
import runpy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.places import ROOT

DOCUMENTS = sorted(
    file
    for pattern in ("*.md", "docs/**/*.md", "recipes/**/*.md", "benchmarks/**/*.md")
    for file in ROOT.glob(pattern)
)


def links(document: Path) -> list[str]:
    """The relative links of a Markdown file, without their anchors."""
    found = re.findall(r"\]\(([^)\s#]+)[^)]*\)", document.read_text(encoding="utf-8"))
    return [link for link in found if "://" not in link]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    assert not [link for link in links(document) if not (document.parent / link).exists()]


def test_index_names_every_guide() -> None:
    docs = ROOT / "docs"
    guides = {str(file.relative_to(docs)) for file in docs.rglob("*.md")} - {"README.md"}
    assert set(links(docs / "README.md")) == guides


def test_readme_begins_with_the_two_commands() -> None:
    first = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert first
    assert [line.split()[0] for line in first[1].splitlines()] == ["./run.sh", "./test.sh"]


def test_stages_are_those_of_run_sh() -> None:
    """Each verb that run.sh runs has a row, of the same stage; as `features`, local/ may run it."""
    script = (ROOT / "run.sh").read_text().replace("\\\n", " ")
    called = set(re.findall(r"run_stage (\S+) .* -- +bayes-asr (\S+)", script))
    table = (ROOT / "docs/stages.md").read_text()
    told = set(re.findall(r"^\| (\S+).*? \| `bayes-asr (\S+)", table, re.M))
    assert ("3", "train") in called
    assert called == told - {("1", "features")}


def anchors(document: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a Markdown file."""
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_anchors_lead_to_headings(document: Path) -> None:
    found = re.findall(r"\]\(([^)\s#:]*)#([^)\s]+)\)", document.read_text(encoding="utf-8"))
    targets = [(document.parent / name if name else document, anchor) for name, anchor in found]
    assert not [anchor for target, anchor in targets if anchor not in anchors(target)]


@pytest.mark.parametrize(
    "document",
    [file for file in DOCUMENTS if "benchmarks" not in file.parts],
    ids=lambda d: str(d.relative_to(ROOT)),
)
def test_commits_stand_in_dated_pages_only(document: Path) -> None:
    words = re.findall(r"\b[0-9a-f]{7,8}\b", document.read_text(encoding="utf-8"))
    assert not [word for word in words if re.search("[0-9]", word) and re.search("[a-f]", word)]


def test_results_are_dated() -> None:
    pages = [file.name for file in (ROOT / "benchmarks/results").iterdir()]
    assert pages
    assert not [name for name in pages if not re.fullmatch(r"\d{4}-\d\d-\d\d-[a-z0-9-]+\.md", name)]


@pytest.mark.parametrize(
    ("page", "most"), [("docs/performance.md", 1000), ("docs/reliability.md", 900)]
)
def test_pages_are_short(page: str, most: int) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").split()) < most


def test_changelog_keeps_its_form() -> None:
    """Versions with dates, newest first, each with known groups that hold bullets."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    _, *versions = re.split(r"^## ", text, flags=re.M)
    assert versions[0].startswith("[Unreleased]\n")
    heads = [version.partition("\n")[0] for version in versions[1:]]
    assert heads
    dates = [re.fullmatch(r"\[\d+\.\d+\.\d+\] - (\d{4}-\d\d-\d\d)", head) for head in heads]
    assert all(dates)
    assert [date[1] for date in dates if date] == sorted((d[1] for d in dates if d), reverse=True)
    for version in versions:
        _, *groups = re.split(r"^### ", version, flags=re.M)
        names = [group.partition("\n")[0] for group in groups]
        assert set(names) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
        assert len(set(names)) == len(names)
        assert all("\n- " in group for group in groups)


@pytest.mark.parametrize("picture", ["unit", "rooms", "activations", "poster"])
def test_picture_is_what_its_script_draws(picture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = ROOT / f"docs/pictures/{picture}.py"
    monkeypatch.syspath_prepend(script.parent)
    drawn = runpy.run_path(str(script))["draw"]()
    assert script.with_suffix(".svg").read_text(encoding="utf-8") == drawn


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_modules_that_are_named_exist(document: Path) -> None:
    if "results" in document.parts:
        return  # measured on the code of its day
    text = document.read_text(encoding="utf-8")
    modules = set(re.findall(r"\bbayes_asr(?:\.[a-z_]+)+", text))
    modules -= {f"bayes_asr.{name}" for name in ("features", "json", "load", "transcribe")}
    assert not [module for module in modules if find_spec(module) is None]
    for module, names in re.findall(r"^from (bayes_asr[\w.]*) import ([\w, ]+)$", text, re.M):
        known = dir(import_module(module))
        assert not [name for name in re.findall(r"\w+", names) if name not in known], module
    files = set(re.findall(r"\bbayes_asr/[\w/]+(?:\.\w+)?", text))
    assert not [file for file in files if not (ROOT / file).exists()]
