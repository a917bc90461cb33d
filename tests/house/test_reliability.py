"""The pages on reliability: the tests that they name exist."""

import re

import pytest

from tests.support.places import ROOT


@pytest.mark.parametrize(
    "page", ["docs/reliability.md", "docs/folders.md", "tests/attacks/faults.md"]
)
def test_every_test_that_the_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", text)
    assert named
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / "tests" / file).exists()
        or not re.search(rf"^def {name}", (ROOT / "tests" / file).read_text(), re.M)
    ]
    assert not missing
