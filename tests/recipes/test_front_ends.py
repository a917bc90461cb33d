"""Front ends, streams and augmentation: each system differs from one baseline in one thing."""

import pytest

from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config, differences
from tests.support.experiments import EXPERIMENTS, list_systems, name_of, read_hypotheses
from tests.support.places import RECIPES

# What a system changes, and nothing beside it: beginnings of keys.
CHANGES = {
    "front-ends.yaml#base": (),
    "front-ends.yaml#deeper": ("model.layers",),
    "front-ends.yaml#tdnn": ("model.stack", "model.kinds.conv1d"),
    "front-ends.yaml#cnn": ("model.stack", "model.kinds.conv2d"),
    "front-ends.yaml#fmllr": ("data.train.f", "data.dev.f", "data.test.f", "features.cmvn"),
    "front-ends.yaml#two-streams": (
        "data.train.streams.fmllr",
        "data.dev.streams.fmllr",
        "data.test.streams.fmllr",
        "streams.fmllr",
    ),
    "front-ends.yaml#spec-augment": ("train.spec_augment",),
    "front-ends.yaml#noise-tempo": ("train.noise", "train.tempo"),
    "speed.yaml#speed": ("data.train.features", "data.train.alignments", "train.epochs"),
}
CHANGES["front-ends.yaml#cnn-two-streams"] = (
    *CHANGES["front-ends.yaml#cnn"],
    *CHANGES["front-ends.yaml#two-streams"],
)
CHANGES["speed.yaml#speed-spec-augment"] = (
    *CHANGES["speed.yaml#speed"],
    *CHANGES["front-ends.yaml#spec-augment"],
)


def system(name: str, recipe: str) -> Config:
    return load([RECIPES / recipe / "config.yaml", EXPERIMENTS / name])


def test_all_systems_are_known() -> None:
    assert {system.name for system in list_systems("front-ends", "speed")} == set(CHANGES)


@pytest.mark.parametrize("recipe", ["timit_sample", "an4"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_system_changes_one_thing(name: str, recipe: str) -> None:
    changed = differences(system("front-ends.yaml#base", recipe), system(name, recipe))
    assert all(key.startswith(CHANGES[name]) for key in changed), changed
    assert all(any(key.startswith(one) for key in changed) for one in CHANGES[name])


def test_speeds_are_compared_at_as_many_updates() -> None:
    speed, base = (
        system(name, "timit_sample") for name in ("speed.yaml#speed", "front-ends.yaml#base")
    )
    assert 3 * speed.train.epochs == base.train.epochs
    assert speed.train.batch_sequences == base.train.batch_sequences


def test_each_change_is_tested_against_the_baseline() -> None:
    stated = read_hypotheses("front-ends")
    tested = {name.partition("=")[2] for name in stated[1::4]}
    assert tested == set(map(name_of, list_systems("front-ends"))) - {"base", "fmllr"}
    assert set(stated[3::4]) == {"base=base"}
