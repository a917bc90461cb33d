"""Front ends, streams and augmentation: each system differs from one baseline in one thing."""

import pytest

from bayes_asr.config import Config, differences, load
from bayes_asr.recipe.stages.systems import state_hypotheses
from tests.support.places import CONF, RECIPES

EXPERIMENTS = CONF / "experiments"
FRONT_ENDS = EXPERIMENTS / "front-ends"
# What a system changes, and nothing beside it: beginnings of keys.
CHANGES = {
    "front-ends/base": (),
    "front-ends/deeper": ("model.layers",),
    "front-ends/tdnn": ("model.stack", "model.kinds.conv1d"),
    "front-ends/cnn": ("model.stack", "model.kinds.conv2d"),
    "front-ends/fmllr": ("data.train.f", "data.dev.f", "data.test.f", "features.cmvn"),
    "front-ends/two-streams": (
        "data.train.streams.fmllr",
        "data.dev.streams.fmllr",
        "data.test.streams.fmllr",
        "streams.fmllr",
    ),
    "front-ends/spec-augment": ("train.spec_augment",),
    "front-ends/noise-tempo": ("train.noise", "train.tempo"),
    "speed/speed": ("data.train.features", "data.train.alignments", "train.epochs"),
}
CHANGES["front-ends/cnn-two-streams"] = (
    *CHANGES["front-ends/cnn"],
    *CHANGES["front-ends/two-streams"],
)
CHANGES["speed/speed-spec-augment"] = (
    *CHANGES["speed/speed"],
    *CHANGES["front-ends/spec-augment"],
)


def system(name: str, recipe: str) -> Config:
    return load([RECIPES / recipe / "config.yaml", EXPERIMENTS / f"{name}.yaml"])


def test_all_systems_are_known() -> None:
    files = [*FRONT_ENDS.glob("*.yaml"), *(EXPERIMENTS / "speed").glob("*.yaml")]
    assert {f"{file.parent.name}/{file.stem}" for file in files} == set(CHANGES)


@pytest.mark.parametrize("recipe", ["timit_sample", "an4"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_system_changes_one_thing(name: str, recipe: str) -> None:
    changed = differences(system("front-ends/base", recipe), system(name, recipe))
    assert all(key.startswith(CHANGES[name]) for key in changed), changed
    assert all(any(key.startswith(one) for key in changed) for one in CHANGES[name])


def test_speeds_are_compared_at_as_many_updates() -> None:
    speed, base = (system(name, "timit_sample") for name in ("speed/speed", "front-ends/base"))
    assert 3 * speed.train.epochs == base.train.epochs
    assert speed.train.batch_sequences == base.train.batch_sequences


def test_each_change_is_tested_against_the_baseline() -> None:
    names = {file.stem: file.stem for file in FRONT_ENDS.glob("*.yaml")}
    stated = list(state_hypotheses(FRONT_ENDS / "hypotheses.txt", names))
    tested = {name.partition("=")[2] for name in stated[1::4]}
    assert tested == set(names) - {"base", "fmllr"}
    assert set(stated[3::4]) == {"base=base"}
