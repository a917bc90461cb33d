"""The versions of Python that setup.py, run.sh and CI name, and what newer ones have taken away."""

import ast
import re

import pytest

from tests.support.places import ROOT

# of the standard library, taken away in 3.12 and 3.13 (PEP 594, PEP 632)
REMOVED = {
    *("aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt", "distutils"),
    *("imghdr", "imp", "lib2to3", "mailcap", "msilib", "nis", "nntplib", "ossaudiodev", "pipes"),
    *("smtpd", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib"),
}
SOURCES = [
    path
    for folder in ("bayes_asr", "recipes", "local", "benchmarks", "tests")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def imported(tree: ast.AST) -> set[str]:
    modules = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    modules += [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    return {module.split(".")[0] for module in modules}


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["bayes_asr", "recipes", "local", "benchmarks", "tests"])
def test_sources_are_of_the_oldest_grammar_and_the_newest_library(folder: str) -> None:
    for path in SOURCES:
        if path.is_relative_to(ROOT / folder):
            tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 11))
            assert not imported(tree) & REMOVED, path


def test_all_files_name_the_same_pythons() -> None:
    named = re.findall(r":: (3\.\d+)", (ROOT / "setup.py").read_text(encoding="utf-8"))
    setup = (ROOT / "local" / "setup.sh").read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"python: \[(.*)\]", workflow)
    tested = re.findall(r"3\.\d+", matrix)
    assert (tested[0], tested[-1]) == (named[0], named[-1])
    assert f"oldest_python='{named[0]}'" in setup
