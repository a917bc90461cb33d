"""Run directories as they are named to other commands: runs, and combinations of their networks."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.base.files import is_there, real_path, replacing
from bayes_asr.kaldi_io.side_files import COMBINATION, check, read_json, take

WITHOUT_NETWORK = (
    "not there; this folder has words that were decoded elsewhere, as by score --graph or gmm"
    " baseline, and no network: give the run of the network, and --graph where the verb has it"
)
AVERAGED = ("log-posteriors", "posteriors")  # outputs that can be averaged, the default first


@dataclass(frozen=True)
class Combination:
    """Networks whose outputs are averaged, or one network of which another head is decoded.

    runs: their directories; weights: of each, which add up to 1; average: one of AVERAGED; head: of
    each network, None for the first one.
    """

    runs: Sequence[Path]
    weights: Sequence[float]
    average: str
    head: str | None

    @classmethod
    def of(
        cls,
        runs: Sequence[Path],
        weights: Sequence[float] = (),
        average: str = AVERAGED[0],
        head: str | None = None,
    ) -> "Combination":
        """Check the arguments, and scale the weights; none: all the same."""
        if average not in AVERAGED:
            choices = ", ".join(AVERAGED)
            raise InputError(f"average is {average}{nearest(average, AVERAGED)}; known: {choices}")
        unscaled = list(weights) or [1.0] * len(runs)
        if len(unscaled) != len(runs) or not runs:
            raise InputError(f"{len(unscaled)} weights for {len(runs)} runs; give one for each")
        total = sum(unscaled)
        # NaN fails the first test, and a negative weight the second.
        if not (math.isfinite(total) and min(unscaled) > 0):
            raise InputError(f"the weights are {unscaled}; each must be above 0 and finite")
        return cls(list(runs), [weight / total for weight in unscaled], average, head)

    def save(self, run: Path) -> None:
        """Write it into the directory `run`; paths of runs are relative to that."""
        # Relative paths let a folder of runs be moved as a whole; `..` leads up from where it is.
        origin = real_path(run)
        content = {
            "networks": [os.path.relpath(_find_place(path), origin) for path in self.runs],
            "weights": list(self.weights),
            "average": self.average,
            "head": self.head,
        }
        with replacing(run / COMBINATION) as temporary:
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _find_place(run: Path) -> Path:
    """The path of a run through no link but the last, which moves with the folder that it is in."""
    path = Path(os.path.abspath(run))
    return real_path(path.parent) / path.name


def read_combination(run: Path) -> Combination | None:
    """Read the combination of a run directory; None for that of a network of its own."""
    path = run / COMBINATION
    if not is_there(path):
        return None
    try:
        content = read_json(path)
        networks = take(content, "networks", "a list")
        weights = take(content, "weights", "a list")
        combination = Combination.of(
            [run / check(name, "networks", "a text") for name in networks],
            [check(weight, "weights", "a number") for weight in weights],
            take(content, "average", "a text"),
            take(content, "head", "a text", "null"),
        )
    except InputError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise InputError(f"{path}: not as bayes-asr combine writes it: {reason}") from None
    return combination


def list_networks(run: Path) -> list[Path]:
    """Run directories of the networks of a run: itself, or those that it combines."""
    combination = read_combination(run)
    return list(combination.runs) if combination else [run]


def has_words_alone(folder: Path) -> bool:
    """Whether a folder is scored as a run, but has neither a network nor outputs of one."""
    has_network = any(folder.glob("*.pt")) or is_there(folder / COMBINATION)
    decoded, outputs = (any(folder.glob(f"{verb}_*")) for verb in ("decode", "forward"))
    return decoded and not outputs and not has_network


def explain_absence(folder: Path) -> str:
    """Why a folder that may be a run has no checkpoint, and what to do."""
    alone = has_words_alone(folder)
    return WITHOUT_NETWORK if alone else "there is no checkpoint; train first"
