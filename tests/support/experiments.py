"""Experiments of the repository: their systems as configurations, their hypotheses."""

from pathlib import Path

from bayes_asr.config.systems import read_systems
from bayes_asr.recipe.stages.systems import state_hypotheses
from tests.support.places import CONF

EXPERIMENTS = CONF / "experiments"


def list_systems(*experiments: str) -> list[Path]:
    """The configurations FILE#SYSTEM of experiments in conf/experiments."""
    files = [EXPERIMENTS / f"{name}.yaml" for name in experiments]
    return [Path(f"{file}#{system}") for file in files for system in read_systems(file)[0]]


def name_of(system: Path) -> str:
    """The name of a system."""
    return str(system).rpartition("#")[2]


def read_hypotheses(experiment: str) -> list[str]:
    """Options of `report` for what an experiment says beforehand, its systems by their names."""
    systems, hypotheses = read_systems(EXPERIMENTS / f"{experiment}.yaml")
    return list(state_hypotheses(hypotheses, {system: system for system in systems}))
