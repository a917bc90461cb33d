"""The pages on reliability: the tests that they name exist."""

import re

import pytest
from conftest import ROOT

TESTS = {file.name: file for file in (ROOT / "tests").rglob("test_*.py")}


@pytest.mark.parametrize("page", ["reliability.md", "reliability-tables.md"])
def test_every_test_that_the_page_names_is_there(page: str) -> None:
    named = re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", (ROOT / "docs" / page).read_text())
    assert named
    missing = [
        f"{file}::{name}"
        for file, name in named
        if file not in TESTS
        or (name and not re.search(rf"^def {name}\(", TESTS[file].read_text(), re.M))
    ]
    assert not missing
