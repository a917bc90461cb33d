"""A training that goes on with a run: what of its data, sizes and weights must be the same."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.base.installed import advise_new_run
from bayes_asr.config.inputs import DataConfig
from bayes_asr.kaldi_io.side_files import CONFIG, LAST
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.components import find_mismatch


def move_inputs(saved: Mapping[str, Any], begun: DataConfig, now: DataConfig) -> dict[str, Any]:
    """A checkpoint whose inputs have their names of now, where data.dir or archives have moved."""
    # Moves of before have been applied to the names already.
    moves = {begun.dir: now.dir} | dict(m for m in now.moves if m not in begun.moves)
    places = "|".join(map(re.escape, moves))

    def rename(inputs: str) -> str:
        return re.sub(rf"(^| and )({places})(?=/)", lambda m: m[1] + moves[m[2]], inputs)

    hashes = {rename(name): value for name, value in saved.get("inputs", {}).items()}
    return {**saved, **({"inputs": hashes} if hashes else {})}


def check_sizes(old: Mapping[str, Any], now: Mapping[str, Any], run: Path) -> None:
    """InputError where the inputs or outputs of a saved network have other sizes than the data."""
    for key, noun in (("streams", "inputs"), ("heads", "outputs")):
        if old[key] != now[key]:
            trained, needed = (", ".join(map(str, sizes[key].values())) for sizes in (old, now))
            raise InputError(
                f"{run / LAST}: made for other data: its network has {noun} {trained},"
                f" but these data need {needed}; {advise_new_run()}"
            )


def check_weights(saved: Mapping[str, Tensor], model: AcousticModel, run: Path) -> None:
    """InputError where a saved network has other weights than that of the configuration."""
    if mismatch := find_mismatch(saved, model.state_dict()):
        name, old, now = mismatch
        raise InputError(
            f"{run / LAST}: of another network: its {name} has the size {old}, and that"
            f" of {CONFIG} {now}; {advise_new_run()}"
        )
