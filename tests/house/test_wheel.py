"""The wheel: for every Python of a platform, with all that `bayes-asr run` needs."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.libraries import LIBRARIES
from tests.support.places import CONF, RECIPES, ROOT

pytestmark = pytest.mark.slow
COMPILED = f"""#!/bin/sh
# A compiler of which libraries are those of the checkout, which test_installation.py is about.
for target; do :; done
case $target in *.so) cp "{ROOT}/bayes_asr/${{target##*/bayes_asr/}}" "$target" ;; esac
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of a copy of the checkout: building leaves files beside the sources."""
    pytest.importorskip("setuptools", "70.1")
    if not all(library.usable for library in LIBRARIES):
        pytest.skip("the libraries are not compiled")
    folder = tmp_path_factory.mktemp("wheel")
    compiler = folder / "c++"
    compiler.write_text(COMPILED)
    compiler.chmod(0o755)
    for name in ("bayes_asr", "conf", "local", "recipes"):
        unwanted = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=unwanted)
    for name in ("setup.py", "pyproject.toml", "run.sh", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source")
    options = ("--no-build-isolation", "--wheel-dir", folder)
    pip("wheel", *options, folder / "source", CXX=str(compiler))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the installed package, and bin/bayes-asr."""
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--target", folder, wheel)
    return folder


def pip(verb: str, *arguments: str | Path, **environment: str) -> None:
    command = [sys.executable, "-m", "pip", verb, "--quiet", "--no-deps", *map(str, arguments)]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def run(installed: Path, here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The installed command, in a folder outside the checkout, with nothing of it on PATH."""
    here.mkdir(exist_ok=True)
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, installed / "bin" / "bayes-asr", *words],
        cwd=here,
        env={key: os.environ[key] for key in ("HOME", "OMP_NUM_THREADS") if key in os.environ}
        | variables,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def files_of(folder: Path) -> Iterator[tuple[Path, int]]:
    """Each file and when it changed, but for what Python compiles on the way."""
    for path in sorted(folder.rglob("*")):
        if "__pycache__" not in path.parts:
            yield path, path.stat().st_mtime_ns


def test_wheel_is_for_any_python_and_holds_all(wheel: Path) -> None:
    _, _, python, abi, platform = wheel.stem.split("-")
    assert (python, abi) == ("py3", "none")
    assert platform != "any"
    inside = set(zipfile.ZipFile(wheel).namelist())
    libraries = (
        *("decode/search/_decoder", "decode/lattices/_lattices", "gmm/_gmm"),
        *("nn/kernels/cpu/_kernels", "tasks/chain/_chain", "base/processes/_barrier"),
    )
    assert {f"bayes_asr/{library}.so" for library in libraries} <= inside
    shipped = [ROOT / "run.sh"]
    for folder in (CONF, RECIPES, ROOT / "local"):
        shipped += [file for file in folder.rglob("*") if file.is_file()]
    names = {
        f"bayes_asr/{file.relative_to(ROOT)}" for file in shipped if "__pycache__" not in file.parts
    }
    assert names <= inside


def test_recipe_runs_outside_a_checkout(installed: Path, tmp_path: Path) -> None:
    """Scripts and programs are those of the package, which stays as it is."""
    for name in ("espeakng_loader", "kaldi_native_fbank", "kaldifst"):
        pytest.importorskip(name)
    before, here = list(files_of(installed)), tmp_path / "else where"
    stages = ("--stage=0", "--stop-stage=0")
    done = run(installed, here, "run", "mini", *stages)
    assert done.returncode == 0, done.stderr
    assert f"python {installed}/bayes_asr/recipes/mini/prepare.py" in done.stdout
    assert (here / "exp/mini/exp/graph/HCLG.fst").is_file()
    short = ("train.epochs=1", "model.layers=1", "model.units=8", "decode.lattice_beam=2")
    settings = [f"--set={setting}" for setting in short]
    done = run(installed, here, "run", "mini", *settings, "--config=conf/units/li-gru.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("li-gru ")
    assert list(files_of(installed)) == before


def test_mistakes_and_configurations_are_those_of_the_command(
    installed: Path, tmp_path: Path
) -> None:
    done = run(installed, tmp_path, "run", "nosuch")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bayes-asr run: --recipe nosuch: there is no ")
    assert done.stderr.count("\n") == 1
    done = run(installed, tmp_path, "config", "conf/units/li-gru.yaml")
    assert done.returncode == 0, done.stderr
    assert "unit: li-gru" in done.stdout
    (tmp_path / "conf/units").mkdir(parents=True)
    (tmp_path / "conf/units/li-gru.yaml").write_text("model: {unit: gru}\n")
    assert "unit: gru" in run(installed, tmp_path, "config", "conf/units/li-gru.yaml").stdout
