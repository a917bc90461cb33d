"""Lists of systems: an experiment in one file.

    include: ../front-ends.yaml        # beneath every system, as all keys but the next two
    systems:
      base:                            # nothing of its own
      gru: units/gru.yaml              # in short: the files that it includes
      tdnn:
        model: {layers: 3}
    hypotheses:
      - tdnn = tdnn < base = base

`FILE#SYSTEM` stands for one of them wherever a configuration is named.
"""

from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError
from bayes_asr.config.located import compose, locate_values

SYSTEMS, HYPOTHESES = "systems", "hypotheses"


def read_systems(file: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """The names of the systems of a list, and its hypotheses, each with where it is written.

    InputError where the file is no such list.
    """
    root = compose(file)
    values: Any = locate_values(root, file) if root is not None else {}
    systems = values.get(SYSTEMS) if isinstance(values, dict) else None
    if not isinstance(systems, dict) or not systems:
        raise InputError(f"{file}: {SYSTEMS} is a mapping of the names of systems")
    hypotheses = values.get(HYPOTHESES)
    lines = [] if hypotheses is None else getattr(hypotheses, "value", None)
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise InputError(f"{file}: {HYPOTHESES} is a list of texts")
    where = getattr(hypotheses, "where", "")
    return list(systems), [(line, where) for line in lines]


def choose_system(systems: Any, system: str, path: Path) -> dict[str, Any]:
    """The values of one system of a list: a mapping, or in short the files that it includes."""
    names = list(systems) if isinstance(systems, dict) else []
    if system not in names:
        problem = f"has no system {system}" if system else "is a list of systems"
        advice = f"name one as {path}#{names[0]}; there are {' '.join(names)}" if names else ""
        raise InputError(f"{path}: {problem}; {advice or f'{SYSTEMS} is a mapping of their names'}")
    values = systems[system]
    if isinstance(values, dict):
        return dict(values)
    return {} if values.value is None else {"include": values}
