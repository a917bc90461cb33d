"""The catalogue: everything that it names is there, and is what it says."""

import inspect
from collections.abc import Iterator

import pytest

from bayes_asr.config import catalogue
from bayes_asr.nn.units.activations import PARAMETERISED
from bayes_asr.nn.units.cell import find_cell


def places() -> Iterator[str]:
    """Every place in the catalogue."""
    yield from catalogue.LAYERS.values()
    for criterion in catalogue.CRITERIA.values():
        yield from (criterion.function, criterion.task)
    yield from catalogue.UTTERANCE_TASKS.values()
    yield from (optimizer.function for optimizer in catalogue.OPTIMIZERS.values())
    yield from (schedule.function for schedule in catalogue.SCHEDULES.values())
    for unit in catalogue.UNITS.values():
        yield from (unit.cell, *unit.forms.values(), *unit.transitions.values())


@pytest.mark.parametrize("where", dict.fromkeys(places()))
def test_what_is_named_is_there(where: str) -> None:
    assert callable(catalogue.find(where))


@pytest.mark.parametrize("name", catalogue.UNITS)
def test_units_are_what_is_said_of_them(name: str) -> None:
    unit, cell = catalogue.UNITS[name], find_cell(name, {})
    assert cell.probabilistic == unit.probabilistic
    for classes in (unit.forms, unit.transitions):
        assert not classes or unit.cell == next(iter(classes.values()))
    taken = inspect.signature(cell.__init__).parameters.keys() - {"self", "units", "sets"}
    assert unit.options.keys() - {"form", "transitions"} <= taken
    assert ("activation" in taken) == bool(unit.activations)


def test_activations_have_the_parameters_that_are_said() -> None:
    assert {name: tuple(made.initial) for name, made in PARAMETERISED.items()} == dict(
        catalogue.PARAMETERS
    )
