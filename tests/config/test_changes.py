"""What a configuration changes of its recipe is named; what belongs to the recipe is not."""

from pathlib import Path

import pytest

from bayes_asr.base.installed import HOME
from bayes_asr.cli import main
from bayes_asr.config.changes import describe_changes, find_recipe_folders


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A recipe, one that builds on it, and files to put on top."""
    for name, text in {
        "large/config.yaml": "train: {epochs: 24, noise: 0.1}\nmodel: {layers: 4}\n",
        "large/aligner.yaml": "train: {epochs: 3}\n",
        "small/config.yaml": "include: ../large/config.yaml\nmodel: {layers: 2}\n",
        "small/own.yaml": "model: {layers: 1}\n",
        "conf/long.yaml": "include: size.yaml\ntrain: {epochs: 40, tempo: 0.1}\n",
        "conf/size.yaml": "model: {layers: 5, units: 8}\n",
        "conf/back.yaml": "train: {epochs: 24}\nmodel: {layers: 2}\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_changed_keys_are_named_with_both_values_and_the_file(files: Path) -> None:
    recipe, conf = files / "small/config.yaml", files / "conf"
    assert describe_changes([recipe, conf / "long.yaml"]) == [
        f"{conf}/size.yaml changes what the recipe small sets: model.layers 2 -> 5",
        f"{conf}/long.yaml changes what the recipe small sets: train.epochs 24 -> 40",
    ]
    assert describe_changes([recipe, conf / "long.yaml", conf / "back.yaml"]) == []


def test_files_of_the_recipe_are_its_own_decision(files: Path) -> None:
    recipe, own, aligner = (
        files / name for name in ("small/config.yaml", "small/own.yaml", "large/aligner.yaml")
    )
    assert describe_changes([recipe, own, aligner]) == []
    (said,) = describe_changes([recipe, own, aligner, files / "conf/back.yaml"])
    assert said.endswith("back.yaml changes what the recipe small sets: "
                         "model.layers 1 -> 2, train.epochs 3 -> 24")  # fmt: skip


def test_recipe_builds_on_those_whose_configuration_it_includes(files: Path) -> None:
    found = find_recipe_folders(files / "small/config.yaml")
    assert found == [files / "small", files / "large"]
    assert find_recipe_folders(files / "large/config.yaml") == [files / "large"]


def test_files_of_the_package_are_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [Path("recipes/timit_sample/config.yaml"), Path("conf/size/small.yaml")]
    monkeypatch.chdir(tmp_path)
    said = describe_changes(names)
    assert said == describe_changes([HOME / name for name in names]) != []
    assert find_recipe_folders(names[0])[0] == HOME / "recipes/timit_sample"


def test_training_says_it_first(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, long = files / "small/config.yaml", files / "conf/long.yaml"
    assert main(["train", str(recipe), str(long), "--out", str(files / "run")]) == 1
    said = f"{long} changes what the recipe small sets: train.epochs 24 -> 40\n"
    assert said in capsys.readouterr().err
    assert said in (files / "run/train.log").read_text()
