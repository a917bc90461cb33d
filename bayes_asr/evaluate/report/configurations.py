"""The keys in which the configurations of systems differ."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config, differences
from bayes_asr.evaluate.report.runs import ReportedSystem
from bayes_asr.evaluate.report.table import NONE
from bayes_asr.evaluate.score.unlike_runs import OF_A_RUN

OF_A_NETWORK = (
    "data.train.",
    "data.dev.alignments",
    "data.dev.labels",
    "features.",
    "streams.",
    "model.",
    "train.",
)
"""Keys that say nothing of Gaussian mixtures."""


class Configurations(NamedTuple):
    """Keys in rows, systems in columns; and why a system is not among them."""

    table: pd.DataFrame
    missing: Sequence[str]


def tabulate_configurations(systems: Sequence[ReportedSystem]) -> Configurations:
    """The keys whose values differ between systems, by the `config.yaml` of each first run."""
    configs: dict[str, Config] = {}
    missing = []
    for system in systems:
        file = system.runs[0].path / "config.yaml"
        try:
            if not is_there(file):
                raise InputError(f"{file}: not there")
            configs[system.name] = load([file])
        except InputError as error:
            missing.append(str(error))
    # All systems are compared with the first, which has no difference from itself.
    changes = {
        name: differences(next(iter(configs.values())), config) for name, config in configs.items()
    }
    # The old value of each difference is that of the first system.
    reference = {key: str(old) for pairs in changes.values() for key, (old, _) in pairs.items()}
    keys = sorted(reference.keys() - set(OF_A_RUN))
    networks = {system.name for system in systems if system.runs[0].has_network}

    def value(name: str, key: str) -> str:
        if name not in networks and key.startswith(OF_A_NETWORK):
            return NONE
        return str(changes[name][key][1]) if key in changes[name] else reference[key]

    # Rows, since a system may be called `key`.
    rows = [[key, *(value(name, key) for name in changes)] for key in keys]
    return Configurations(pd.DataFrame(rows, columns=["key", *changes]), missing)
