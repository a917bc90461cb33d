"""From the name of a unit to its cell."""

from collections.abc import Mapping
from typing import Any

from bayes_asr.config.catalogue import check_unit, find
from bayes_asr.nn.units.cell import Cell


def find_cell(unit: str, options: Mapping[str, Any]) -> type[Cell]:
    """Return the class of a unit with these options; InputError for what is not known."""
    entry = check_unit(unit, options)
    where = entry.forms.get(options.get("form", ""), entry.cell)
    if options.get("cells_per_block", 1) > 1:
        where = entry.blocks
    cell: type[Cell] = find(where)
    return cell


def build_cell(unit: str, units: int, sets: int, options: Mapping[str, Any]) -> Cell:
    """Return the cell `unit` with its options, for `units` units and `sets` sets of weights."""
    chosen = find_cell(unit, options)
    given = {name: value for name, value in options.items() if name != "form"}
    if given.get("cells_per_block") == 1:  # each has gates of its own
        del given["cells_per_block"]
    activations = check_unit(unit, options).activations
    if activations:
        given.setdefault("activation", activations[0])
    return chosen(units, sets, **given)
