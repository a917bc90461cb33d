"""docs/reliability.md: the tests that it names exist."""

import re

from tests.support.places import ROOT

PAGE = ROOT / "docs" / "reliability.md"


def test_every_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE.read_text(encoding="utf-8"))
    assert named
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not re.search(rf"^def {name}\(", (ROOT / "tests" / file).read_text(), re.M)
    ]
    assert not missing
