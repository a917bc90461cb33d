"""The glossary and the names of the code: what it lists is there, and a class name is one thing."""

import ast
import re
from collections import defaultdict

import pytest

from tests.house.test_architecture import files, modules
from tests.support.places import ROOT

PAGE = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
NAMES_NOTHING = {"way", "told", "said", "found", "given", "brought", "own", "thing", "theirs"}


def listed_names() -> list[tuple[str, str]]:
    """Names of the second table, each with its file."""
    rows = re.findall(r"^\| (`.+`) \| .* \| `([\w/]+\.py)` \|$", PAGE, re.M)
    return [(name, file) for names, file in rows for name in re.findall(r"`([\w.]+)`", names)]


@pytest.mark.parametrize(("name", "file"), listed_names())
def test_names_of_the_glossary_are_there(name: str, file: str) -> None:
    path = ROOT / "bayes_asr" / file
    assert path.exists(), f"docs/glossary.md names {file}, which is gone"
    last = name.rpartition(".")[2]
    assert last == path.stem or re.search(rf"\b{last}\b", path.read_text(encoding="utf-8"))


def test_a_class_name_is_one_thing() -> None:
    places = defaultdict(list)
    for module, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    twice = {name: files for name, files in places.items() if len(files) > 1}
    assert len(twice) <= 3, f"{twice}: give each a name of its own"


@pytest.mark.parametrize("module", files())
def test_names_name_something(module: str) -> None:
    bindings = {
        node.id if isinstance(node, ast.Name) else node.arg
        for node in ast.walk(modules()[module])
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    }
    wrong = bindings & NAMES_NOTHING
    assert not wrong, f"{wrong} name nothing: say what they are (docs/glossary.md)"
