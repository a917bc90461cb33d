"""No exception of C++ leaves a compiled library: it would end the process."""

import re
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.decode.search import compiled
from bayes_asr.decode.search.graph_dir import load_decoding_graph
from bayes_asr.decode.search.utterance import ENGINES
from tests.support.decode_cases import write_small_graph
from tests.support.places import ROOT

SOURCES = sorted((ROOT / "bayes_asr").rglob("csrc/*.cpp"))
EXPORTED = re.compile(r'extern "C" (?:\{\n(.*?)^\}  // extern "C"|(.*?)^\})', re.M | re.S)
DEFINITION = re.compile(
    r"^[\w ]+[ *](\w+)\([^;{}]*?\)( noexcept)? \{(.*?)(?:^\}| \}$)", re.M | re.S
)


def unguarded(source: str) -> list[str]:
    """The functions for Python that may throw and do not begin with `Guarded`."""
    exported = "".join(a or f"{b}}}" for a, b in EXPORTED.findall(source))
    return [
        name
        for name, noexcept, body in DEFINITION.findall(exported)
        if not noexcept and not re.search(r"return (Guarded<|Run\()", body)
    ]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_for_python_catch_all_or_throw_nothing(source: Path) -> None:
    assert not unguarded(source.read_text())


def test_a_function_without_a_guard_is_seen() -> None:
    bare = "void a_grow(int64_t n) {\n  rows.resize(n);\n}\n"
    shielded = "int a_rest(int n) {\n  return Guarded<int>(1, [&] { return n; });\n}\n"
    assert unguarded(f'extern "C" {{\n{bare}{shielded}}}  // extern "C"\n') == ["a_grow"]


@pytest.mark.skipif(not compiled.LIBRARY.usable, reason=compiled.LIBRARY.fault)
def test_a_size_that_nothing_has_is_a_lack_of_memory(tmp_path: Path) -> None:
    graph = write_small_graph(tmp_path / "graph")
    network = load_decoding_graph(graph, graph / "final.mdl")
    with pytest.raises(MemoryError, match="looking ahead for the labels"):
        compiled.number_labels(network, -1)
    frames = np.zeros((2, network.num_pdfs), np.float32)
    assert ENGINES["native"].search(network, frames, compiled.SearchOptions(1, 9, 9, 0, 9, True))
