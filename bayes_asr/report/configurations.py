"""In which keys the configurations of systems differ."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from bayes_asr.config import Config, differences, load
from bayes_asr.errors import InputError
from bayes_asr.files import is_there
from bayes_asr.report.runs import System

OF_A_RUN = ("seed",)
"""Keys that tell the runs of one system apart."""


class Configurations(NamedTuple):
    """Keys in rows, systems in columns; and why a system is not among them."""

    table: pd.DataFrame
    missing: Sequence[str]


def tabulate_configurations(systems: Sequence[System]) -> Configurations:
    """The keys whose values differ between systems, by the `config.yaml` of each first run."""
    read: dict[str, Config] = {}
    missing = []
    for system in systems:
        file = system.runs[0].path / "config.yaml"
        try:
            if not is_there(file):
                raise InputError(f"{file}: not there")
            read[system.name] = load([file])
        except InputError as error:
            missing.append(str(error))
    changes = {
        name: differences(next(iter(read.values())), config) for name, config in read.items()
    }
    first = {key: str(old) for found in changes.values() for key, (old, _) in found.items()}
    keys = sorted(first.keys() - set(OF_A_RUN))
    columns = {
        name: [str(found[key][1]) if key in found else first[key] for key in keys]
        for name, found in changes.items()
    }
    return Configurations(pd.DataFrame({"key": keys, **columns}), missing)
