"""Rooms whose results are the same on every processor leave nothing to a library that chooses.

A BLAS, LAPACK, NumPy's exponentials and the C library's take another code on another processor, and
round otherwise. `base/elementary.py` and `gmm/linear_algebra.py` stand for them.
"""

import ast
import re

import pytest

from tests.house.test_architecture import files, modules, room
from tests.support.places import ROOT

ROOMS = {"base.elementary", "kaldi_io", "data.sound", "data.features", "decode.graph", "gmm"}
MODULES = {  # of other rooms
    *("decode.lattices.expectation", "decode.lattices.posteriors", "decode.search.on_the_fly"),
    *("decode.align.pronouncer", "data.targets.marks"),
    *("tasks.chain.phone_lm", "tasks.chain.pushing", "tasks.chain.denominator_graph"),
}
COMPILED = ["gmm", "decode/lattices", "decode/search"]
CHOOSING = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "power", "pow"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan2", "atan2", "hypot", "cbrt"),
    *("dot", "vdot", "inner", "matmul", "tensordot", "einsum", "convolve", "corrcoef", "cov"),
}
PRODUCTS = {  # by what else than a BLAS
    "gmm.randomness": "of whole numbers",
    "gmm.fmllr": "of a sparse matrix, row by row",
    "gmm.lda": "of a sparse matrix, row by row",
}
ALLOWED = {("data.features.front_end", "np.convolve")}  # of weights so short that no BLAS adds them


@pytest.mark.parametrize(
    "name", sorted(name for name in files() if room(name) in ROOMS or name in MODULES)
)
def test_arithmetic_is_that_of_every_processor(name: str) -> None:
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.ImportFrom) and node.module in {"math", "numpy", "scipy"}:
            named = {alias.name for alias in node.names} & (CHOOSING | {"linalg", "fft"})
            assert not named, f"line {node.lineno}: {named} knows the processor"
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            assert name in PRODUCTS, f"line {node.lineno}: take gmm.linear_algebra.multiply"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            called = ast.unparse(node)
            library = called.split(".")[0] in {"np", "math", "scipy"}
            if library and node.attr in CHOOSING and (name, called) not in ALLOWED:
                pytest.fail(
                    f"line {node.lineno}: {called} depends on the processor; see elementary"
                )
            assert not called.startswith(("scipy.linalg.", "np.fft.")), f"line {node.lineno}"
            if called.startswith("np.linalg."):
                assert node.attr == "LinAlgError", f"line {node.lineno}: see gmm.linear_algebra"


def test_modules_are_there() -> None:
    assert modules().keys() >= MODULES


def test_every_exception_is_needed() -> None:
    for name in PRODUCTS:
        nodes = ast.walk(modules()[name])
        assert any(
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) for node in nodes
        )
    for name, called in ALLOWED:
        assert called in ast.unparse(modules()[name])


@pytest.mark.parametrize("folder", COMPILED)
def test_compiled_arithmetic_is_that_of_every_processor(folder: str) -> None:
    files = [*(ROOT / "bayes_asr" / folder / "csrc").iterdir()]
    assert files
    for file in files:
        found = re.findall(r"std::(?:exp|log|pow|fma)\w*\(", file.read_text(encoding="utf-8"))
        assert not found, f"{file}: {found}; take base/csrc/elementary.h"
