"""What a search draws: ranges, distributions, independence; and what a file of them may say."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.train.trials.space import as_overrides, draw, list_grid, read_space

SPACE = """
train.learning_rate: {log_uniform: [1e-4, 1e-2]}
model.dropout: {uniform: [0, 0.5]}
model.units: {ints: [3, 6]}
train.optimizer: [adam, sgd]
model.unit: {choice: [gru, li-bru, rnn]}
"""


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.slow
def test_numbers_are_in_their_ranges_and_as_likely_as_is_said(tmp_path: Path) -> None:
    space = read_space(written(tmp_path / "space.yaml", SPACE))
    drawn = [draw(space, 1, number) for number in range(4000)]
    rates = np.log10([one["train.learning_rate"] for one in drawn])
    assert -4 <= rates.min() < -3.98
    assert -2.02 < rates.max() <= -2
    for values, low, high in (
        (rates, -4.0, -2.0),
        (np.array([one["model.dropout"] for one in drawn]), 0.0, 0.5),
    ):
        counts, _ = np.histogram(values, 10, (low, high))
        assert np.abs(counts - 400).max() < 5 * math.sqrt(400)
    for key, known in (
        ("model.units", [3, 4, 5, 6]),
        ("train.optimizer", ["adam", "sgd"]),
        ("model.unit", ["gru", "li-bru", "rnn"]),
    ):
        counts = {value: sum(one[key] == value for one in drawn) for value in known}
        assert sum(counts.values()) == 4000
        for count in counts.values():
            assert abs(count - 4000 / len(known)) < 5 * math.sqrt(4000 / len(known))


def test_a_trial_depends_on_its_number_its_seed_and_its_keys_alone(tmp_path: Path) -> None:
    space = read_space(written(tmp_path / "space.yaml", SPACE))
    less = {key: space[key] for key in reversed(list(space)[1:])}
    np.random.standard_normal(3)  # the global state must not matter
    for number in range(1, 5):
        whole = draw(space, 3, number)
        assert draw(space, 3, number) == whole
        assert draw(less, 3, number).items() <= whole.items()
    assert draw(space, 4, 1) != draw(space, 3, 1) != draw(space, 3, 2)


def test_settings_are_what_the_command_line_takes(tmp_path: Path) -> None:
    text = f"{SPACE}train: [{{schedule: cosine}}, {{schedule: linear}}]\n"
    space = read_space(written(tmp_path / "space.yaml", text))
    for number in range(20):
        settings = draw(space, 1, number)
        config = load([], as_overrides(settings))
        assert config.train.learning_rate == settings["train.learning_rate"]
        assert config.train.schedule == settings["train"]["schedule"]
        assert (config.model.units, config.model.unit) == (
            settings["model.units"],
            settings["model.unit"],
        )


def test_a_grid_has_every_combination(tmp_path: Path) -> None:
    text = "model.layers: [1, 2]\ntrain.optimizer: {choice: [adam, sgd]}\nseed: [1, 2, 3]\n"
    found = [tuple(one.values()) for one in list_grid(read_space(written(tmp_path / "s", text)))]
    assert found == list(itertools.product([1, 2], ["adam", "sgd"], [1, 2, 3]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.yaml: a space is a mapping of keys to values"),
        ("[1]", "s.yaml"),
        ("seed: 1", r"line 1: seed has no list of values; write seed: \[a, b\]"),
        ("seed: []", r"seed has no list of values"),
        ("seed: {unifrm: [1, 2]}", r"line 1: seed is \{unifrm: ...\}.*did you mean uniform\?"),
        ("seed: {ints: [1, 2], choice: [1]}", "write one of uniform, log_uniform, ints, choice"),
        ("seed: {}", "write one of uniform"),
        ("a: 1\nseed: {ints: [1, 2.5]}", "a has no list"),
        ("seed: {ints: [1, 2.5]}", "name two whole numbers, the lower first"),
        ("seed: {ints: [1, true]}", "name two whole numbers"),
        ("seed: {uniform: [2, 1]}", "name two numbers, the lower first"),
        ("seed: {uniform: [0, .inf]}", "name two numbers"),
        ("seed: {log_uniform: [0, 1]}", "name two numbers above 0, the lower first"),
        ("seed: {uniform: {a: 1}}", "write one of"),
        ("seed: !!python/object/apply:os.getcwd []", "not YAML: the tag"),
    ],
)
def test_a_space_that_says_something_else_is_refused(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        read_space(written(tmp_path / "s.yaml", text))


def test_a_range_has_no_grid(tmp_path: Path) -> None:
    space = read_space(written(tmp_path / "s.yaml", "seed: {ints: [1, 2]}"))
    with pytest.raises(InputError, match="seed is a range, which has no grid"):
        list(list_grid(space))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model.units: {ints: [0, 99999999999999999999]}", "model.units is ints of"),
        ("train.learning_rate: {uniform: [-1.0e+308, 1.0e+308]}", "is uniform of"),
        ("seed: [2026-11-25]", "seed is 2026-11-25, a date; write text in quotes"),
        ("data.index: [index, /tmp/elsewhere]", "a search writes below its --out alone"),
        ("data.index: [../elsewhere]", "a search writes below its --out alone"),
    ],
)
def test_values_that_no_search_can_have_are_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_space(written(tmp_path / "space.yaml", text))


def test_grid_of_a_million_million_points_is_refused(tmp_path: Path) -> None:
    keys = "".join(f"key{n}: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n" for n in range(12))
    space = read_space(written(tmp_path / "space.yaml", keys))
    with pytest.raises(InputError, match="1000000000000 points"):
        next(list_grid(space))
