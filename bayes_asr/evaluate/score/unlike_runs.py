"""Runs that are taken together, though they are no seeds of one configuration."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import is_there
from bayes_asr.config.merge import load
from bayes_asr.config.schema import differences
from bayes_asr.kaldi_io.side_files import CONFIG, read_environment

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


COMPARED = ("parameters", "inputs")
"""Of the records of trainings."""


def describe_unlike_seeds(system: str, runs: Sequence[Path]) -> Iterator[str]:
    """Yield what tells runs of one system apart, by `config.yaml` and `env.json`: their mean is of
    none; and which of them have the same seed, as copies have.
    """
    runs = [run for run in runs if is_there(run / CONFIG)]
    with suppress(InputError):  # which another table names
        configs = [load([run / CONFIG]) for run in runs]
        records = [read_environment(run) for run in runs]
        # Records of earlier versions lack the inputs.
        known = {k: next(filter(None, (r.get(k) for r in records)), None) for k in COMPARED}
        by_seed: dict[int, Path] = {}
        for run, config, record in zip(runs, configs, records, strict=True):
            changed = [
                f"{key} is {old} and {now}"
                for key, (old, now) in differences(configs[0], config).items()
                if not key.startswith((*OF_A_RUN, *OF_A_MACHINE))
                and SEED.sub("", str(old)) != SEED.sub("", str(now))
            ]
            changed += _compare_training(known, record)
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


def _compare_training(first: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """Other sizes and data of two trainings, as far as their records have them."""
    old, now = (record.get("parameters") for record in (first, other))
    if None not in (old, now) and old != now:
        yield f"parameters are {old} and {now}"
    # The same content may lie elsewhere, as where a run was trained on another machine.
    before, after = ({h: path for path, h in _list_inputs(record)} for record in (first, other))
    if before and after and (unlike := before.keys() ^ after.keys()):
        yield f"the data differ: {name_some(sorted({(before | after)[h] for h in unlike}))}"


def _list_inputs(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each file, or folder, of the data of a training, and a hash of what it says.

    Without what is made for each seed, and without archives and their tables: their features count
    once more, wherever they are.
    """
    for path, content in (record.get("inputs") or {}).items():
        if not SEED.search(path) and not path.endswith((".scp", ".ark")):
            yield path, content
