"""How run.sh sets itself up, and what test.sh checks."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bayes_asr.base import installed
from tests.support.script_stubs import STUB, Checkout, executable

INSTALL = ("install", "--no-compile")  # which is done after, on all processors


def pip_calls(checkout: Checkout) -> list[list[str]]:
    return [call for call in checkout.calls("python") if call[:2] == ["-m", "pip"]]


@pytest.mark.slow
def test_installing_happens_once_and_again_when_it_would_differ(checkout: Checkout) -> None:
    def prepared_only() -> None:
        assert checkout.run("./run.sh", "--recipe", "made", "--stop-stage", "0").returncode == 0

    prepared_only()
    prepared_only()
    assert len(pip_calls(checkout)) == 1
    assert pip_calls(checkout)[0][2:6] == [*INSTALL, "--editable", ".[mini,report]"]
    with (checkout.folder / "constraints.txt").open("a") as constraints:
        constraints.write("# another pin\n")
    prepared_only()
    assert len(pip_calls(checkout)) == 2
    (checkout.environment / ".bayes_asr-mini,report").rename(
        checkout.environment / ".bayes_asr-mini,report,test"
    )
    prepared_only()
    assert len(pip_calls(checkout)) == 2, "more than is needed is there"


def test_failed_installation_is_not_taken_for_done(checkout: Checkout) -> None:
    for _ in range(2):
        done = checkout.run("./run.sh", "--recipe", "made", FAILING="-m pip")
        assert done.returncode == 1
        assert "The installation failed" in done.stderr
    assert len(pip_calls(checkout)) == 2
    assert not checkout.calls("bayes-asr")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("torch", "expected", "announced"),
    [
        ("2.13.0+cpu", "torch==2.13.0", False),
        ("", "torch==2.13.0", True),
        ("2.6.0+cu124", "torch==2.6.0+cu124", False),
    ],
)
def test_present_torch_is_kept_and_an_absent_one_announced(
    checkout: Checkout, torch: str, expected: str, announced: bool
) -> None:
    done = checkout.run("./run.sh", "--recipe", "made", TORCH=torch)
    constraints = Path(pip_calls(checkout)[-1][-1]).read_text()
    assert re.findall("^torch==.*", constraints, re.MULTILINE) == [expected]
    assert ("sympy==" in constraints) == (expected == "torch==2.13.0")
    assert "numpy==" in constraints
    assert ("about 190 MB" in done.stdout) == announced


@pytest.mark.slow
@pytest.mark.parametrize(
    ("card", "choice", "build"),
    [
        (False, "", "cpu"),
        (True, "", "cuda"),
        (False, "cuda", "cuda"),
        (True, "cpu", "cpu"),
    ],
)
def test_torch_is_built_for_the_cards_that_are_there(
    checkout: Checkout, card: bool, choice: str, build: str
) -> None:
    """CUDA's takes gigabytes, which a laptop has no use for."""
    executable(checkout.environment / "bin/nvidia-smi", f"#!/bin/sh\nexit {int(not card)}\n")
    variables = {
        "TORCH": "",
        "BAYES_ASR_TORCH": choice,
        "FAILING": "-m pip install --no-compile --no-deps",
    }
    variables["PATH"] = f"{checkout.environment}/bin{os.pathsep}/usr/bin{os.pathsep}/bin"
    done = checkout.run("./run.sh", "--recipe", "made", **variables)
    assert done.returncode == 0, "where there is no such build, pip takes what it finds"
    assert f"The {build} build is installed, as " in done.stdout
    *before, install = pip_calls(checkout)
    assert install[2:5] == [*INSTALL, "--editable"]
    assert [call[-1] for call in before] == (["torch==2.13.0"] if build == "cpu" else [])
    assert ("There is no CPU build of torch" in done.stdout) == (build == "cpu")


def test_environment_of_another_checkout_is_not_taken(checkout: Checkout, tmp_path: Path) -> None:
    """Unless that checkout has gone; neither is one that has been given away taken for ready."""
    record = checkout.environment / "lib/python3.13/site-packages/bayes_asr-1.dist-info"
    record.mkdir(parents=True)

    def set_up(owner: Path) -> subprocess.CompletedProcess[str]:
        content = {"url": owner.as_uri(), "dir_info": {"editable": True}}
        (record / "direct_url.json").write_text(json.dumps(content))
        return checkout.run("./run.sh", "--recipe", "made", "--stop-stage", "0")

    other = tmp_path / "an öther"
    other.mkdir()
    for installs in (0, 1):
        refused = set_up(other)
        assert refused.returncode == 1
        assert f"belongs to the checkout {other}, and this is {checkout.folder}" in refused.stderr
        assert len(pip_calls(checkout)) == installs
        for _ in range(2):
            assert set_up(checkout.folder).returncode == 0
        assert len(pip_calls(checkout)) == 1
    other.rmdir()
    assert set_up(other).returncode == 0
    assert len(pip_calls(checkout)) == 2


@pytest.mark.parametrize("step", ["-m pip install --no-compile --no-deps", "-m pip"])
def test_an_interrupt_of_pip_is_no_failure_behind_which_something_else_is_tried(
    step: str, checkout: Checkout
) -> None:
    """pip says that it was cancelled and ends with status 1, of which a shell takes no notice."""
    interrupted = STUB.replace('echo "it went wrong"; exit 3', "kill -INT $PPID; exit 1")
    executable(checkout.environment / "bin/python", interrupted)
    done = checkout.run("./run.sh", "--recipe", "made", TORCH="", FAILING=step)
    assert done.returncode == 130
    assert "The installation was interrupted" in done.stderr
    assert len(pip_calls(checkout)) == 1
    assert not checkout.calls("bayes-asr")


def test_unknown_build_of_torch_is_refused(checkout: Checkout) -> None:
    done = checkout.run("./run.sh", "--recipe", "made", BAYES_ASR_TORCH="rocm")
    assert done.returncode == 1
    assert "BAYES_ASR_TORCH=rocm: the builds of PyTorch are cpu and cuda" in done.stderr
    assert not pip_calls(checkout)


@pytest.mark.slow
def test_missing_compiler_is_said(checkout: Checkout) -> None:
    done = checkout.run("./run.sh", "--recipe", "made", CXX="no-such-compiler -x")
    assert done.returncode == 0
    assert "No C++ compiler was found" in done.stdout


def base_python(folder: Path, *, lacking: str) -> dict[str, str]:
    """Variables for a machine without active environment whose Python lacks something."""
    real = Path(sys.base_prefix, "bin", "python3")
    stub = f'#!/bin/sh\ncase "$*" in *"{lacking}"*) exit 1 ;; esac\nexec "{real}" "$@"\n'
    for name in ("python", "python3", *(f"python3.{minor}" for minor in range(11, 16))):
        executable(folder / name, stub)
    return {
        "VIRTUAL_ENV": "",
        "CONDA_DEFAULT_ENV": "",
        "PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin",
    }


def test_missing_venv_module_is_explained(checkout: Checkout, tmp_path: Path) -> None:
    variables = base_python(tmp_path / "bin", lacking="import venv")
    done = checkout.run("./run.sh", "--recipe", "made", **variables)
    assert done.returncode == 1
    assert "lacks the modules venv and ensurepip" in done.stderr
    assert "python3-venv" in done.stderr
    assert not (checkout.folder / ".venv").exists()


def test_too_old_a_python_is_explained(checkout: Checkout, tmp_path: Path) -> None:
    variables = base_python(tmp_path / "bin", lacking="sys.version_info")
    done = checkout.run("./run.sh", "--recipe", "made", **variables)
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("torch", "see"), [("2.9.1", ["--system-site-packages"]), ("", [])])
def test_new_environment_sees_the_torch_of_the_system(
    checkout: Checkout, tmp_path: Path, torch: str, see: list[str]
) -> None:
    executable(tmp_path / "bin/python3", STUB)
    variables = base_python(tmp_path / "unused", lacking="nothing")
    variables["PATH"] = f"{tmp_path}/bin{os.pathsep}/usr/bin{os.pathsep}/bin"
    base = str(Path(sys.base_prefix, "bin", "python3"))
    checkout.run("./run.sh", "--recipe", "made", **variables, REAL_PYTHON=base, TORCH=torch)
    made = [call for call in checkout.calls("python3") if call[:2] == ["-m", "venv"]]
    assert made == [["-m", "venv", "--clear", *see, str(checkout.folder / ".venv")]]


def test_test_script_stops_at_the_first_failure(checkout: Checkout) -> None:
    for name in ("ruff", "mypy", "shellcheck", "pytest"):
        executable(checkout.environment / "bin" / name, STUB)
    (checkout.folder / ".ci").mkdir()
    assert checkout.run("./test.sh", "--slow", "-k", "two words").returncode == 0
    assert checkout.calls("ruff") == [["check"], ["format", "--check"]]
    (arguments,) = checkout.calls("pytest")
    assert arguments[-4:] == ["-m", "not kaldi and not gpu", "-k", "two words"]
    assert checkout.run("./test.sh", FAILING="format").returncode == 3
    assert len(checkout.calls("pytest")) == 1
    done = checkout.run("./test.sh", "--no-style", "--slow", "-k", "leaky", FAILING="format")
    assert done.returncode == 0
    assert checkout.calls("pytest")[-1] == [*arguments[:-1], "leaky"]


def test_types_are_checked_beside_the_tests_and_either_may_fail(checkout: Checkout) -> None:
    """Without stopping the other; the last line has both outcomes."""
    for name in ("ruff", "mypy", "shellcheck", "pytest"):
        executable(checkout.environment / "bin" / name, STUB)
    (checkout.folder / ".ci").mkdir()

    def outcomes(**changes: str) -> tuple[bool, str]:
        done = checkout.run("./test.sh", **changes)
        return done.returncode == 0, done.stdout.splitlines()[-1]

    assert outcomes() == (True, "Tests: passed. Types and scripts: passed.")
    failing = {"FAILING": "--numprocesses"}
    assert outcomes(**failing) == (False, "Tests: failed. Types and scripts: passed.")
    executable(checkout.environment / "bin/mypy", "#!/bin/sh\necho a wrong type\nexit 1\n")
    assert outcomes() == (False, "Tests: passed. Types and scripts: failed.")
    assert outcomes(**failing) == (False, "Tests: failed. Types and scripts: failed.")
    assert "a wrong type" in checkout.run("./test.sh").stdout
    executable(checkout.environment / "bin/mypy", STUB)
    assert not outcomes(FAILING="--external-sources")[0], "shellcheck"


@pytest.mark.parametrize(
    ("home", "command"),
    [("package", "pip install 'bayes_asr[export]'"), ("checkout", "pip install -e '.[export]'")],
)
def test_extra_is_asked_for_as_the_package_was_installed(
    home: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = installed.PACKAGE if home == "package" else installed.PACKAGE.parent
    monkeypatch.setattr(installed, "HOME", inside)
    assert installed.install_command("export") == command
