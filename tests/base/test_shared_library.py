"""What a compiled library says of its structs and functions, against what Python knows of them."""

import ctypes as c
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bayes_asr.base.shared_library import INTS, SharedLibrary, view_of
from tests.support.places import ROOT

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
SOURCE = f"""
#include "{ROOT}/bayes_asr/base/csrc/interface.h"
#include <cstdint>
struct Inner {{ int32_t first; float second; }};
DESCRIBE(Inner, first, second);
struct Outer {{ int32_t count; Inner inner; const float *rows[2]; double scale; }};
DESCRIBE(Outer, scale, count, inner, rows);
extern "C" {{
double made_sum(const Outer *outer, int64_t, int32_t) {{ return outer->scale + outer->rows[1][0]; }}
void made_rest() {{}}
const char *made_description() {{
  static const std::string text = Interface()
      .Struct<InnerFields>().Struct<OuterFields>()
      .Function("made_sum", made_sum).Function("made_rest", made_rest).text();
  return text.c_str();
}}
}}
"""
FUNCTIONS = {"sum": (c.c_double, [c.c_void_p, c.c_int64, c.c_int32]), "rest": (None, [])}


class Inner(c.Structure):
    _fields_ = (("first", c.c_int32), ("second", c.c_float))


MEMBERS = (
    ("count", c.c_int32),
    ("inner", Inner),
    ("rows", c.POINTER(c.c_float) * 2),
    ("scale", c.c_double),
)


def outer(*members: Any) -> type[c.Structure]:
    return type("Outer", (c.Structure,), {"_fields_": members})


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of two structs and two functions."""
    return compiled(tmp_path_factory.mktemp("made"), SOURCE)


def compiled(folder: Path, source: str) -> Path:
    (folder / "made.cpp").write_text(source)
    command = ["c++", "-std=c++17", "-shared", "-fPIC", "made.cpp", "-o", "made.so"]
    subprocess.run(command, check=True, cwd=folder, capture_output=True)
    return folder / "made.so"


@pytest.mark.slow
def test_what_fits_is_loaded_and_called(library: Path) -> None:
    Outer = outer(*MEMBERS)
    made = SharedLibrary(library, "made", (Inner, Outer), FUNCTIONS)
    assert made.usable
    told = Outer(scale=1.5)
    told.rows[1] = c.pointer(c.c_float(2))
    assert made.call("sum", c.byref(told), 0, 0) == 3.5


@pytest.mark.parametrize(
    ("members", "says"),
    [
        (MEMBERS[:3], "Outer.scale is 8 bytes at 32, not known"),
        (
            (MEMBERS[0], MEMBERS[2], MEMBERS[1], MEMBERS[3]),
            "Outer.inner is 8 bytes at 4, not 8 bytes at 24",
        ),
        ((("number", c.c_int32), *MEMBERS[1:]), "Outer.count is 4 bytes at 0, not known"),
        ((("count", c.c_int64), *MEMBERS[1:]), "Outer.count is 4 bytes at 0, not 8 bytes at 0"),
        ((*MEMBERS, ("more", c.c_int32)), "Outer is 40 bytes, not 48 bytes"),
        ((*MEMBERS[:3], ("scale", c.c_float)), "Outer.scale is 8 bytes at 32, not 4 bytes at 32"),
    ],
    ids=["fewer", "order", "name", "width", "more", "size"],
)
def test_another_struct_is_refused_by_the_name_of_the_field(
    members: Any, says: str, library: Path
) -> None:
    made = SharedLibrary(library, "made", (Inner, outer(*members)), FUNCTIONS)
    with pytest.raises(OSError, match="another version") as refused:
        made.call("rest")
    assert str(refused.value) == f"{library} was built for another version: {says}"


@pytest.mark.parametrize(
    ("functions", "says"),
    [
        (
            {"sum": (c.c_double, [c.c_void_p, c.c_int64])},
            "made_sum is float64 of pointer int64 int32, not float64 of pointer int64",
        ),
        ({"more": (None, [])}, "made_more is not there, not nothing of"),
        ({}, "made_rest is nothing of, not known"),
    ],
)
def test_other_functions_are_refused(functions: Any, says: str, library: Path) -> None:
    known = FUNCTIONS | functions if functions else {"sum": FUNCTIONS["sum"]}
    made = SharedLibrary(library, "made", (Inner, outer(*MEMBERS)), known)
    assert made.fault == f"{library} was built for another version: {says}"


@pytest.mark.parametrize(
    ("fields", "complete"), [("first, second", True), ("first", False), ("first, third", False)]
)
def test_a_description_that_lacks_a_field_is_not_compiled(
    fields: str, complete: bool, tmp_path: Path
) -> None:
    source = SOURCE.replace("DESCRIBE(Inner, first, second)", f"DESCRIBE(Inner, {fields})")
    if complete:
        compiled(tmp_path, source)
    else:
        with pytest.raises(subprocess.CalledProcessError):
            compiled(tmp_path, source)


def test_what_is_no_library_is_named(tmp_path: Path) -> None:
    file = tmp_path / "made.so"
    assert SharedLibrary(file, "made", (), {}).fault == f"{file} is not built"
    file.touch()
    assert SharedLibrary(file, "made", (), {}).fault.startswith(f"{file} does not load: ")
    compiled(tmp_path, 'extern "C" int made_interface() { return 1; }\n')  # as it was once
    fault = SharedLibrary(file, "made", (), {}).fault
    assert fault == f"{file} was built for another version: it has no made_description"


def test_a_view_points_to_columns_and_keeps_what_it_copies() -> None:
    class Sizes(c.Structure):
        _fields_ = (("count", c.c_int64),)

    class Table(c.Structure):
        _fields_ = (("sizes", Sizes), ("even", INTS))

    columns = SimpleNamespace(even=np.arange(8)[::2], other=None)
    view = view_of(Table, columns, sizes=Sizes(4))
    assert (view.sizes.count, view.even[: view.sizes.count]) == (4, [0, 2, 4, 6])
