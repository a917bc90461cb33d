"""The floors of the house: imports go down, rooms of one floor are strangers, files are short.

Each failing check says what to do.
"""

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

from tests.support.places import ROOT

PACKAGE = "bayes_asr"
MAP = ROOT / "docs" / "architecture.md"
ROWS = re.findall(r"^\| (\d+) \| `([\w.]+)` \|", MAP.read_text(), flags=re.M)
FLOOR_OF = {room: int(floor) for floor, room in ROWS}
"""The table of rooms of the map."""
LONGEST_CHAIN = 8  # imports from one module to the next
ONLY_HERE = {"kaldiio": {"kaldi_io.ark"}, "subprocess": {"base.programs"}}
NN_KNOWS = {"nn", "base.errors", "config.catalogue", "base.shared_library"}
WORDS_WITHOUT_MEANING = {"util", "utils", "misc", "manager", "helper", "helpers"}


@cache
def files() -> dict[str, Path]:
    """Every module by its dotted name below the package (`tables.ark`, `nn`, `__init__`)."""
    found = {}
    for file in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = file.relative_to(ROOT / PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)
        found[name] = file
    return found


def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


@cache
def modules() -> dict[str, ast.Module]:
    """What is in every module, by the names of `files`."""
    return {name: parse(file) for name, file in files().items()}


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
    """The longest name of the map that a module begins with; of another module, itself."""
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in names if name in FLOOR_OF), module)


@cache
def longest_chain(module: str) -> tuple[str, ...]:
    """A module, what it imports, and so on: the longest of all such ways down."""
    ways = (longest_chain(other) for other in sorted(own_imports(modules()[module])))
    return module, *max(ways, key=len, default=())


def has_code(file: Path) -> bool:
    """Whether a module is more than a docstring, as packages of rooms are not."""
    return file.name != "__init__.py" or len(parse(file).body) > 1


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


def test_every_room_stands_on_the_map_once() -> None:
    assert sorted(room for _, room in ROWS) == sorted(FLOOR_OF)


@pytest.mark.parametrize("name", [name for name, file in files().items() if has_code(file)])
def test_module_stands_on_a_floor_and_imports_only_from_below(name: str) -> None:
    assert room(name) in FLOOR_OF, f"{room(name)} has no floor: give it one in {MAP}"
    wrong = [
        other
        for other in own_imports(modules()[name])
        if room(other) != room(name) and FLOOR_OF[room(other)] >= FLOOR_OF[room(name)]
    ]
    assert not wrong, (
        f"{name} imports {wrong}, which are not below it: move what it needs to a lower room,"
        " or pass it in from above"
    )


def test_map_names_the_rooms_that_are_there() -> None:
    gone = FLOOR_OF.keys() - {room(name) for name in modules()}
    assert not gone, f"{MAP} names {sorted(gone)}, which are gone"


def test_map_names_files_and_names_that_are_there() -> None:
    """A path in the map, and a name behind it, as in `train/runs/record.py: read_history`."""
    named = re.findall(r"`([\w/]+(?:\.py|\.h|/))(?:: (\w+))?`", MAP.read_text())
    assert len(named) > 20
    for path, name in named:
        places = [place for place in (ROOT / PACKAGE / path, ROOT / path) if place.exists()]
        assert places, f"{MAP} names {path}, which is gone"
        assert not name or name in places[0].read_text(), f"{MAP}: {path} has no {name}"


def test_no_import_cycle() -> None:
    try:
        graphlib.TopologicalSorter({n: own_imports(t) for n, t in modules().items()}).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"{' → '.join(error.args[1])}: move what both need into a module below them")


def test_chains_of_imports_are_short() -> None:
    chains = {n: c for n in modules() if len(c := longest_chain(n)) > LONGEST_CHAIN + 1}
    wrong = [" → ".join(chain) for chain in chains.values()]
    longest = max(wrong, key=lambda chain: chain.count("→"), default="")
    assert not wrong, (
        f"{longest}: more than {LONGEST_CHAIN} imports; move down what a module imports"
        f" only for a name or a constant (and so in all of {sorted(chains)})"
    )


def test_nn_knows_nothing_else_of_ours() -> None:
    imports = {n: own_imports(t) for n, t in modules().items() if room(n) == "nn"}
    wrong = {n: o for n, others in imports.items() for o in others if room(o) not in NN_KNOWS}
    assert not wrong, f"{wrong}: hand nn what it needs as arguments"


@pytest.mark.slow
@pytest.mark.parametrize(("library", "allowed"), ONLY_HERE.items())
def test_library_is_used_in_one_module(library: str, allowed: set[str]) -> None:
    users = {
        n for n, t in modules().items() if library in {m.split(".")[0] for m, _ in imported(t)}
    }
    assert users <= allowed, f"{users - allowed} use {library}: call a function of {allowed}"


@pytest.mark.parametrize("name", ["evaluate.score", "evaluate.report", "recipe.stages"])
def test_importing_it_does_not_import_torch(name: str) -> None:
    names = [f"{PACKAGE}.{n}" for n in modules() if room(n) == name]
    script = f"import sys, {', '.join(names)}; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or f"{name} imports torch: do without it there"


@pytest.mark.parametrize("name", ["evaluate.score", "evaluate.report", "recipe.stages"])
def test_nothing_below_it_imports_torch_later(name: str) -> None:
    below = {n for n in modules() if room(n) == name}
    while more := {o for n in below for o in own_imports(modules()[n])} - below:
        below |= more
    wrong = [n for n in below if "torch" in {m.split(".")[0] for m, _ in imported(modules()[n])}]
    assert not wrong, f"{wrong} import torch, and {name} imports them: do without torch or them"


def test_names_have_meaning() -> None:
    classes = {
        n.name for t in modules().values() for n in ast.walk(t) if isinstance(n, ast.ClassDef)
    }
    names = classes | {part for module in modules() for part in module.split(".")}
    words = {n: {w.lower() for w in re.findall(r"[A-Z]?[a-z]+", n)} for n in names}
    wrong = {n for n, w in words.items() if w & WORDS_WITHOUT_MEANING}
    assert not wrong, f"{wrong}: name them by what they do or hold"


@pytest.mark.parametrize("folder", [PACKAGE, "recipes", "benchmarks"])
def test_files_are_short(folder: str) -> None:
    lengths = {str(f): len(f.read_text().splitlines()) for f in (ROOT / folder).rglob("*.py")}
    long = {f: n for f, n in lengths.items() if n > 400}
    assert not long, f"more than 400 lines: {long}; divide them by subject"
    if folder == PACKAGE:
        median = statistics.median(lengths.values())
        assert median <= 150, f"half of the files have {median} lines or more: divide some"


def test_functions_are_short() -> None:
    lengths = [
        ((node.end_lineno or 0) - node.lineno + 1, f"{module}.{node.name}")
        for module, tree in modules().items()
        for node in functions(tree)
    ]
    lines = [number for number, _ in lengths]
    longest = f"take steps out of the longest: {sorted(lengths)[-5:]}"
    assert statistics.median(lines) <= 12, longest
    assert statistics.quantiles(lines, n=10)[-1] <= 40, longest


def test_public_names_are_explained() -> None:
    documented = {
        f"{module}.{name}": ast.get_docstring(node) is not None
        for module, tree in modules().items()
        for name, node in public(tree)
    }
    missing = [name for name, has in documented.items() if not has]
    assert len(missing) <= 0.1 * len(documented), f"say in a docstring what these do: {missing}"
