"""setup.py: native code with a plain C interface, left out where it cannot be compiled."""

import ctypes
import os
import pty
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.shared_library import SharedLibrary
from tests.support.libraries import LIBRARIES
from tests.support.places import ROOT

WORKING = 'extern "C" double half(double x) { return x / 2; }\n'
BROKEN = 'extern "C" double half(double x) { return x / ; }\n'
ROUNDING = """extern "C" double rounded(double x) {
  return x == x ? x + 6755399441055744.0 - 6755399441055744.0 : 0;  // 1.5 * 2^52
}
"""
needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


def build(folder: Path, source: str, compiler: str) -> subprocess.CompletedProcess[str]:
    """Build a package of one C++ file in `folder` by the project's setup.py."""
    for name in ("setup.py", "README.md"):
        shutil.copy(ROOT / name, folder)
    (folder / "bayes_asr/decode/search/csrc").mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "bayes_asr/__init__.py", folder / "bayes_asr")
    (folder / "bayes_asr/decode/search/csrc/half.cpp").write_text(source)
    return subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=folder,
        env=os.environ | {"CXX": compiler},
        capture_output=True,
        text=True,
    )


@pytest.fixture(autouse=True)
def _needs_setuptools() -> None:
    pytest.importorskip("setuptools")


@needs_compiler
def test_native_code_is_a_library_without_python(tmp_path: Path) -> None:
    done = build(tmp_path, WORKING, "c++")
    assert done.returncode == 0, done.stderr
    half = ctypes.CDLL(str(tmp_path / "bayes_asr/decode/search/_decoder.so")).half
    half.restype, half.argtypes = ctypes.c_double, [ctypes.c_double]
    assert half(3.0) == 1.5


@needs_compiler
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.prefix)
def test_native_library_is_there_where_it_can_be_compiled(library: SharedLibrary) -> None:
    assert library.usable, f"{library.fault}; install anew"


@pytest.mark.parametrize(
    ("source", "compiler", "reason"),
    [
        (WORKING, "no-such-compiler", "no C++ compiler 'no-such-compiler'"),
        (BROKEN, "c++", "c++ failed"),
    ],
)
def test_native_code_that_cannot_be_built_is_left_out(
    tmp_path: Path, source: str, compiler: str, reason: str
) -> None:
    if compiler == "c++" and shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    done = build(tmp_path, source, compiler)
    assert done.returncode == 0, done.stderr
    assert f"bayes_asr.decode.search._decoder is left out: {reason}" in done.stdout
    assert not list(tmp_path.rglob("*.so"))


@pytest.mark.slow
@needs_compiler
def test_no_older_library_stands_for_one_that_cannot_be_built(tmp_path: Path) -> None:
    build(tmp_path, WORKING, "c++")
    assert len(list(tmp_path.rglob("*.so"))) == 2  # where it is built, and in place
    build(tmp_path, WORKING, "no-such-compiler")
    assert not list(tmp_path.rglob("*.so"))


@pytest.mark.slow
@needs_compiler
def test_flags_of_the_user_change_no_arithmetic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    single = "-fassociative-math -fno-signed-zeros -fno-trapping-math -ffinite-math-only"
    monkeypatch.setenv("CXXFLAGS", f"-Ofast -ffast-math -funsafe-math-optimizations {single}")
    done = build(tmp_path, ROUNDING, "c++")
    assert done.returncode == 0, done.stderr
    rounded = ctypes.CDLL(str(tmp_path / "bayes_asr/decode/search/_decoder.so")).rounded
    rounded.restype, rounded.argtypes = ctypes.c_double, [ctypes.c_double]
    assert [rounded(1.4), rounded(float("nan"))] == [1, 0]
    assert np.array([1e-310]) * 1.0 > 0  # of this process, whatever the library was linked with


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/ptmx").exists(), reason="no terminals")
def test_missing_compiler_is_said_on_the_terminal_though_pip_hides_it(tmp_path: Path) -> None:
    """What is printed goes to a file here, as to pip; the session has a terminal beside."""
    build_in = (
        "import sys; from pathlib import Path; from tests.house.test_installation import *;"
        f"build(Path({str(tmp_path)!r}), WORKING, 'no-such-compiler')"
    )
    child, terminal = pty.fork()
    if not child:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-c", build_in])  # noqa: S606
    said = b""
    with suppress(OSError):  # which Linux gives at the end
        while read := os.read(terminal, 1000):
            said += read
    assert os.waitpid(child, 0)[1] == 0
    os.close(terminal)
    assert said.count(b"bayes_asr.decode.search._decoder is left out: no C++ compiler") == 1
    assert b"without it decoding takes 15 times as long" in said
