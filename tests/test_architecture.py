"""The floors of the house: imports go down, rooms of one floor are strangers, files are short."""

import ast
import graphlib
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "bayes_asr"
FLOORS = [
    {"errors"},
    {"files", "lock", "interface"},
    {"config", "tables", "programs", "log"},
    {"features", "nn", "score", "targets"},
    {"sound", "processes"},
    {"corpus", "graph", "lattices", "report"},
    {"decode", "runs"},
    {"train", "forward"},
    {"align"},
    {"__init__"},
    {"doctor", "transcribe", "recordings"},
    {"cli"},
    {"__main__"},
]
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
ONLY_HERE = {"kaldiio": {"tables.ark"}, "subprocess": {"programs"}}
WORDS_WITHOUT_MEANING = {"util", "utils", "misc", "base", "manager", "helper", "helpers"}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module by its dotted name below the package (`tables.ark`, `nn`, `__init__`)."""
    found = {}
    for file in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = file.relative_to(ROOT / PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)
        found[name] = ast.parse(file.read_text(encoding="utf-8"), str(file))
    return found


def imported(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """What a module imports, inside functions too: (module, name taken from it or None)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            yield from ((node.module or "", alias.name) for alias in node.names)


def own_imports(tree: ast.AST) -> set[str]:
    """The modules of this package that a module imports, by their names below the package."""
    found = set()
    for module, name in imported(tree):
        if module.split(".")[0] == PACKAGE:
            below = module.removeprefix(PACKAGE).lstrip(".")
            inner = f"{below}.{name}".lstrip(".")
            found.add(inner if inner in modules() else below or "__init__")
    return found


def room(module: str) -> str:
    return module.split(".")[0]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def public(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Public functions, classes, and the public methods of public classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, node
            for inner in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                    yield f"{node.name}.{inner.name}", inner


@pytest.mark.parametrize("name", modules())
def test_module_stands_on_a_floor_and_imports_only_from_below(name: str) -> None:
    assert room(name) in FLOOR_OF, f"{room(name)} has no floor: give it one in FLOORS"
    wrong = [
        other
        for other in own_imports(modules()[name])
        if room(other) != room(name) and FLOOR_OF[room(other)] >= FLOOR_OF[room(name)]
    ]
    assert not wrong, f"{name} imports {wrong}, which are not below it"


def test_no_import_cycle() -> None:
    graphlib.TopologicalSorter({n: own_imports(t) for n, t in modules().items()}).prepare()


def test_nn_knows_nothing_else_of_ours() -> None:
    wrong = {n: own_imports(t) for n, t in modules().items() if room(n) == "nn"}
    assert {o for others in wrong.values() for o in others if room(o) != "nn"} <= {
        "errors",
        "interface",
    }


@pytest.mark.parametrize(("library", "allowed"), ONLY_HERE.items())
def test_library_is_used_in_one_module(library: str, allowed: set[str]) -> None:
    users = {
        n for n, t in modules().items() if library in {m.split(".")[0] for m, _ in imported(t)}
    }
    assert users <= allowed


@pytest.mark.parametrize("name", ["score", "report"])
def test_importing_scores_and_reports_does_not_import_torch(name: str) -> None:
    names = [f"{PACKAGE}.{n}" for n in modules() if room(n) == name]
    script = f"import sys, {', '.join(names)}; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or f"{name} imports torch"


@pytest.mark.parametrize("name", ["score", "report"])
def test_nothing_below_scores_and_reports_imports_torch_later(name: str) -> None:
    below = {n for n in modules() if room(n) == name}
    while more := {o for n in below for o in own_imports(modules()[n])} - below:
        below |= more
    assert not [n for n in below if "torch" in {m.split(".")[0] for m, _ in imported(modules()[n])}]


def test_names_have_meaning() -> None:
    classes = {
        n.name for t in modules().values() for n in ast.walk(t) if isinstance(n, ast.ClassDef)
    }
    names = classes | {part for module in modules() for part in module.split(".")}
    words = {n: {w.lower() for w in re.findall(r"[A-Z]?[a-z]+", n)} for n in names}
    assert not {n for n, w in words.items() if w & WORDS_WITHOUT_MEANING}


@pytest.mark.parametrize("folder", [PACKAGE, "recipes", "benchmarks"])
def test_files_are_short(folder: str) -> None:
    lengths = {str(f): len(f.read_text().splitlines()) for f in (ROOT / folder).rglob("*.py")}
    assert not {f: n for f, n in lengths.items() if n > 400}
    if folder == PACKAGE:
        assert statistics.median(lengths.values()) <= 150


def test_functions_are_short() -> None:
    lengths = [
        (node.end_lineno or 0) - node.lineno + 1
        for tree in modules().values()
        for node in functions(tree)
    ]
    assert statistics.median(lengths) <= 12
    assert statistics.quantiles(lengths, n=10)[-1] <= 40


def test_public_names_are_explained() -> None:
    documented = {
        f"{module}.{name}": ast.get_docstring(node) is not None
        for module, tree in modules().items()
        for name, node in public(tree)
    }
    missing = [name for name, has in documented.items() if not has]
    assert len(missing) <= 0.1 * len(documented), f"without a docstring: {missing}"
