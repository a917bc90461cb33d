"""The documents: what they link to exists, and the index names every guide."""

import re
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
    guides = {file.name for file in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert set(links(ROOT / "docs/README.md")) == guides


def test_readme_begins_with_the_two_commands() -> None:
    first = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert first
    assert [line.split()[0] for line in first[1].splitlines()] == ["./run.sh", "./test.sh"]
