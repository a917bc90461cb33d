"""Configurations: a closed vocabulary, typed, ranged, located, never executed."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.explain import explain
from bayes_asr.config.merge import load
from bayes_asr.config.schema import differences, keys
from bayes_asr.recipe.stages.recipes import find_recipe
from tests.support.places import ROOT

RECIPES = sorted(ROOT.glob("recipes/*/config.yaml"))


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.slow
def test_base_names_every_key_once_with_its_meaning() -> None:
    def leaves(values: dict, prefix: str = "") -> list[str]:
        return [
            name
            for key, value in values.items()
            for name in (
                leaves(value, f"{prefix}{key}.")
                if isinstance(value, dict) and value
                else [prefix + key]
            )
        ]

    base = (ROOT / "conf" / "base.yaml").read_text()
    # A reader finds keys together that a run's config.yaml has apart.
    assert sorted(leaves(yaml.safe_load(base))) == sorted(keys())
    for key in keys():
        said, what = explain(key).splitlines()
        assert len(said.removeprefix(f"{key}: ")) > 5, f"{key} has no comment in conf/base.yaml"
        assert "; default " in what


def test_a_comment_that_names_values_of_its_key_names_all() -> None:
    incomplete = {}
    for key in keys():
        comment, what = explain(key).splitlines()
        said = comment.removeprefix(f"{key}: ")
        choices = re.search(r"one of (.+?)(?: or null)?;", what)
        values = set(re.split(", | or ", choices[1])) if choices else set()
        unnamed = values - set(re.findall(r"[\w-]+", said))
        # `as above`, `as of mlp`: the others are named there.
        if unnamed and unnamed != values and not said.startswith("as "):
            incomplete[key] = unnamed
    assert not incomplete, "name them in conf/base.yaml, or say where they are listed"


def test_explain_says_meaning_type_range_and_default() -> None:
    assert explain("train.learning_rate").splitlines() == [
        "train.learning_rate: of the first epoch",
        "    a number between 1e-08 and 10; default 1e-3",
    ]
    assert len(explain("train").splitlines()) == 2 * len(
        [k for k in keys() if k.startswith("train.")]
    )
    with pytest.raises(
        InputError, match=r"no key train\.learningrate; did you mean train\.learning_rate\?"
    ):
        explain("train.learningrate")


def test_later_files_and_settings_win_and_included_files_come_first(tmp_path: Path) -> None:
    written(
        tmp_path / "common.yaml", "seed: 2\ntrain: {epochs: 7, noise: 0.5}\nmodel: {layers: 3}\n"
    )
    first = written(tmp_path / "first.yaml", "include: common.yaml\ntrain:\n  epochs: 8\n")
    second = written(tmp_path / "second.yaml", "model:\n  layers: 2\n")
    config = load([first, second], ["train.noise=1"])
    assert (config.seed, config.train.epochs, config.model.layers) == (2, 8, 2)
    assert config.train.noise == 1.0
    assert isinstance(config.train.noise, float)  # the integer that was written serves as one
    assert config.train.optimizer == "adam"  # of base.yaml


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.parent.name)
def test_recipe_is_valid_and_comes_back_from_its_saved_form(path: Path, tmp_path: Path) -> None:
    config = load([path], ["seed=3", "train.learning_rate=1e-5"])
    config.save(tmp_path / "saved.yaml")
    assert load([tmp_path / "saved.yaml"]) == config
    assert config.train.learning_rate == 1e-5
    written_first = (tmp_path / "saved.yaml").stat()
    config.save(tmp_path / "saved.yaml")
    assert (tmp_path / "saved.yaml").stat() == written_first, "whoever reads it need not read again"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.parent.name)
def test_recipe_offers_the_options_that_its_preparation_takes(path: Path) -> None:
    command = [sys.executable, find_recipe(path.parent.name, ROOT).file("prepare.py"), "--help"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    taken = set(re.findall(r"^ +--([a-z]+)", said, re.MULTILINE))
    assert set(load([path]).recipe.offers) == taken & {"corpus", "dim", "force"}


def test_a_run_neither_keeps_nor_compares_what_its_recipe_offers(tmp_path: Path) -> None:
    one, other = load([], ["recipe.offers=corpus"]), load([])
    assert one.recipe.offers == ("corpus",)
    assert differences(one, other) == {}
    one.save(tmp_path / "saved.yaml")
    assert "recipe" not in yaml.safe_load((tmp_path / "saved.yaml").read_text())
    assert load([tmp_path / "saved.yaml"]) == other == one


def test_differences_name_the_keys_and_both_values() -> None:
    config = load([])
    other = dataclasses.replace(config, train=dataclasses.replace(config.train, epochs=3))
    assert differences(config, other) == {"train.epochs": (config.train.epochs, 3)}
    assert differences(config, config) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "train:\n  epoch: 3\n",
            r"c.yaml, line 2: there is no key train.epoch; did you mean train.e",
        ),
        ("modle: {units: 3}\n", r"line 1: there is no key modle.units; did you mean model.units\?"),
        ("zzz: 1\n", r"there is no key zzz; bayes-asr config --explain lists all keys"),
        ("train: {epochs: many}\n", r"train.epochs is 'many'; it must be a whole number between 1"),
        ("train: {epochs: 1.5}\n", r"train.epochs is 1.5; it must be a whole number"),
        ("train: {epochs: 017}\n", r"train.epochs is '017'; it must be a whole number"),
        ("train: {epochs: 1:30}\n", r"train.epochs is '1:30'; it must be a whole number"),
        ("train: {noise: 1:30.5}\n", r"train.noise is '1:30.5'; it must be a number"),
        ("train: {epochs: true}\n", r"train.epochs is True; it must be a whole number"),
        ("\ntrain: {epochs: 0}\n", r"line 2: train.epochs is 0; it must be .* between 1 and"),
        ("train: {noise: .nan}\n", r"train.noise is nan; it must be a number between 0 and 10"),
        ("train: {optimizer: lion}\n", r"is 'lion'; it must be one of adam, adam-l2, rmsprop, sgd"),
        ("model: {bidirectional: 1}\n", r"is 1; it must be true or false"),
        ("score: {phone_map: 40}\n", r"is 40; it must be one of 48, 39 or null"),
        ("recipe: {offers: [speed]}\n", r"each of it one of corpus, dim, force"),
        ("decode: {lm_weights: [1, a]}\n", r"it must be a list, each of it a number between"),
        ("decode: {lm_weights: []}\n", r"line 1: decode.lm_weights is empty"),
        (
            "decode: {min_active: 8000}\n",
            r"line 1: decode.min_active is 8000, more than decode.max",
        ),
        ("train: 3\n", r"train is a section of keys, not 3"),
        ("seed: {a: 1}\n", r"seed is one value, not a section of keys"),
        ("seed: 1\nseed: 2\n", r"line 2: seed is there a second time"),
        (
            "model:\n  stack: [{name: a, kind: mlp, units: 3, units: 4}]\n",
            r"line 2: .*units is there a second time",
        ),
        ("[1, 2]\n", r"a configuration is a mapping of keys to values"),
        ("? [a]\n: 1\n", r"line 1: a key is a word"),
        ("a: [\n", r"c.yaml, line 2: not YAML: "),
        ("include: c.yaml\n", r"includes itself"),
        (
            "include: absent.yaml\n",
            r"c.yaml: includes absent.yaml, which is neither beside it nor in",
        ),
        ("include: {a: 1}\n", r"include is a file name or a list of them"),
    ],
)
def test_bad_file_is_refused_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load([written(tmp_path / "c.yaml", text)])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "times", "message"),
    [
        (24, 2, r"f0\.yaml: includes more than 500 files"),  # which would be read 2^23 times
        (60, 1, r"f50\.yaml: the file 51 through .*f0\.yaml -> "),
    ],
)
def test_includes_that_fan_out_or_nest_are_bounded(
    files: int, times: int, message: str, tmp_path: Path
) -> None:
    for number in range(files):
        further = f"f{number + 1}.yaml"
        text = f"include: [{', '.join([further] * times)}]\n" if number < files - 1 else "seed: 3\n"
        written(tmp_path / f"f{number}.yaml", text)
    with pytest.raises(InputError, match=message):
        load([tmp_path / "f0.yaml"])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.epoch=3", r"--set train.epoch=3: there is no key train.epoch; did you mean"),
        ("train.epochs", r"--set train.epochs: write it as key=value"),
        ("train.epochs=", r"train.epochs is None; it must be a whole number"),
        ("seed=[", r"--set seed=\[: the value is not YAML"),
        ("train={epochs: 1, epochs: 2}", r"epochs is there a second time"),
        ("seed=-1", r"--set seed=-1: seed is -1; it must be a whole number between 0 and"),
    ],
)
def test_bad_setting_is_refused(setting: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load([], [setting])


@pytest.mark.parametrize(
    ("settings", "nearest"),
    [
        (["model.unit=liGRU"], "li-gru"),
        (["model.unit=rnn", "model.activation=leaky_relu"], "leaky-relu"),
        (["model.unit=rnn", "model.activation=SoftPlus"], "softplus"),
        (["model.form=probs"], "prob"),
        (["model.norm=batchnorm"], "batch"),
        (["model.dropout_scaling=pytorch_kaldi"], "pytorch-kaldi"),
        (["train.optimizer=RMSProp"], "rmsprop"),
        (["train.schedule=new_bob"], "newbob"),
        (["train.criterion=cross_entropy"], "cross-entropy"),
        (["train.precision=bf16"], "bfloat16"),
        (["features.cmvn=meanvariance"], "mean-variance"),
        (["score.metric=PER"], "per"),
        (["score.costs=nist-sclite"], "sclite"),
        (["data.keep=float"], "float32"),
    ],
)
def test_name_that_is_not_known_is_refused_with_the_nearest(
    settings: list[str], nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", *(f"--set={setting}" for setting in settings)]) == 1
    assert capsys.readouterr().err.endswith(f"; did you mean {nearest}?\n")


def test_nothing_in_a_configuration_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    text = f"!!python/object/apply:os.mkdir ['{mark}']"
    with pytest.raises(InputError, match=r"line 1: not YAML: the tag .*mkdir; values are plain"):
        load([written(tmp_path / "c.yaml", f"seed: {text}\n")])
    with pytest.raises(InputError, match="not YAML"):
        load([], [f"seed={text}"])
    assert not mark.exists()


def test_command_prints_what_is_understood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", str(RECIPES[0]), "--set", "seed=5"]) == 0
    printed = written(tmp_path / "printed.yaml", capsys.readouterr().out)
    assert load([printed]) == load([RECIPES[0]], ["seed=5"])
    assert main(["config", "--explain", "score.phone_map"]) == 0
    assert capsys.readouterr().out.startswith("score.phone_map: fold TIMIT's phones to 48 or 39")
    assert main(["config", "--explain", "score.map"]) == 1
    assert "bayes-asr config: error: there is no key score.map" in capsys.readouterr().err


def test_a_file_that_is_a_link_to_itself_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    file.symlink_to(file)
    assert main(["config", str(file)]) == 1
    assert f"{file}: " in capsys.readouterr().err
