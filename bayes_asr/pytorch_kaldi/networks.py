"""All networks of an experiment, from the files that pytorch-kaldi saved."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.pytorch_kaldi.architectures import Architecture
from bayes_asr.pytorch_kaldi.conversion import convert
from bayes_asr.pytorch_kaldi.stacks import Origin
from bayes_asr.pytorch_kaldi.weights import Weights, read_weights

SECTION = re.compile(r"architecture\d+$")


def convert_networks(
    origins: Mapping[str, Origin], files: Sequence[Path]
) -> dict[str, dict[str, Tensor]]:
    """The state of each layer and head of ours, by its name.

    files: one of each network, in any order where their names end with the section, as those that
    theirs writes (`final_architecture1.pkl`), and otherwise in that of the sections. InputError
    where one is missing, or is of another network than the configuration says.
    """
    networks = {origin.network.section.name: origin.network for origin in origins.values()}
    weights = {
        section: _read(networks[section], file)
        for section, file in _assign(networks, files).items()
    }
    states = {
        name: convert(origin, weights[origin.network.section.name])
        for name, origin in origins.items()
    }
    for each in weights.values():
        each.refuse_rest()
    return states


def _assign(networks: Mapping[str, Architecture], files: Sequence[Path]) -> dict[str, Path]:
    """The file of each network, by its section."""
    labels = [match[0] if (match := SECTION.search(file.stem)) else "" for file in files]
    # Shorter names first puts architecture10 after architecture9.
    sections = sorted(networks, key=lambda section: (len(section), section))
    # Names that tell no section are taken in the order of the sections.
    if not all(labels) and len(files) == len(sections):
        return dict(zip(sections, files, strict=True))
    assigned: dict[str, Path] = {}
    for section, file in zip(labels, files, strict=True):
        if section not in networks:
            raise InputError(
                f"{file}: of which network is it? Its name ends with none of"
                f" {', '.join(sections)}: rename it, or leave it out if [model] does not use it"
            )
        if section in assigned:
            raise InputError(f"{file}: {section} is also {assigned[section]}; give one of them")
        assigned[section] = file
    missing = [f"{networks[s].name} ({s})" for s in sections if s not in assigned]
    if missing:
        raise InputError(
            f"there is no file of {', '.join(missing)}; give one of each network, such as"
            f" exp_files/final_{sections[-1]}.pkl"
        )
    return assigned


def _read(network: Architecture, file: Path) -> Weights:
    weights = read_weights(file)
    if len(weights.layers) != len(network.layers):
        raise InputError(
            f"{file}: has {len(weights.layers)} layers, but [{network.section.name}] {network.name}"
            f" has {len(network.layers)}; is it a file of another training?"
        )
    return weights
