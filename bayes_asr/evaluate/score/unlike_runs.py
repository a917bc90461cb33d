"""Runs that are taken together, though they are no seeds of one configuration."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.config.merge import load
from bayes_asr.config.schema import differences
from bayes_asr.kaldi_io.side_files import CONFIG

OF_A_RUN = ("seed",)
"""Keys that tell the runs of one system apart."""

SEED = re.compile(r"\bseed\d+\b")
"""A seed in a path, as of the run that another one goes on from."""

OF_A_MACHINE = (
    "data.dir",
    "data.index",
    "data.keep",
    "data.moved",
    "train.device",
    "train.gpu_path",
    "train.save_minutes",
    "train.tensorboard",
)
"""Keys that change no result but by rounding."""


def describe_unlike_seeds(system: str, runs: Sequence[Path]) -> Iterator[str]:
    """Yield what tells runs of one system apart, by their `config.yaml`: their mean is of none; and
    which of them have the same seed, as copies have.
    """
    runs = [run for run in runs if is_there(run / CONFIG)]
    with suppress(InputError):  # which another table names
        configs = [load([run / CONFIG]) for run in runs]
        by_seed: dict[int, Path] = {}
        for run, config in zip(runs, configs, strict=True):
            changed = [
                f"{key} is {old} and {now}"
                for key, (old, now) in differences(configs[0], config).items()
                if not key.startswith((*OF_A_RUN, *OF_A_MACHINE))
                and SEED.sub("", str(old)) != SEED.sub("", str(now))
            ]
            if changed:
                yield (
                    f"{system}: {runs[0].name} and {run.name} are averaged, but"
                    f" {'; '.join(changed)}"
                )
            if (twin := by_seed.setdefault(config.seed, run)) is not run:
                yield (
                    f"{system}: {twin.name} and {run.name} both have the seed {config.seed} in"
                    f" {CONFIG}; leave one out if it is a copy, which is no other training"
                )
