"""Records in a run directory: with what configuration it was trained, and where."""

import json
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import find_files, is_there, replacing
from bayes_asr.base.installed import advise_new_run
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.base.shared_library import name_blas
from bayes_asr.config.catalogue import SCHEDULES
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config, differences
from bayes_asr.data.features.front_end import FrontEnd
from bayes_asr.kaldi_io.side_files import BEST, CONFIG, ENVIRONMENT, HISTORY, LAST, read_history
from bayes_asr.nn.kernels.cpu import library
from bayes_asr.train.runs.configuration import read_configuration

WITHOUT_EFFECT = (  # on what was trained: these keys may change when a run is resumed
    "data.dir",  # whose content is compared
    "data.expected_dims",
    "data.graph",
    "data.index",
    "data.max_skipped",
    "data.moved",
    "data.test.",
    "decode.",
    "score.",
    "train.device",  # any change of which is said, as that of a version
    "train.gpu_path",
    "train.max_returns",
    "train.save_minutes",
    "train.tensorboard",
)


def make_paths_absolute(config: Config) -> Config:
    """Make the paths of a configuration absolute, so that its record holds in any directory."""
    runs = tuple(replace(t, run=str(Path(t.run).absolute())) for t in config.train.init_from)
    return replace(
        config,
        data=replace(config.data, dir=str(Path(config.data.dir).absolute())),
        train=replace(config.train, init_from=runs),
    )


def read_recorded_config(run: Path, saved: Mapping[str, Any]) -> Config | None:
    """The configuration that a run was trained with, by its checkpoint `saved`; None without one.

    That of config.yaml where an earlier version, with other keys, wrote the checkpoint.
    """
    if not saved:
        return None
    with suppress(InputError, OSError), TemporaryDirectory() as scratch:
        (Path(scratch) / CONFIG).write_text(saved["config"], encoding="utf-8")
        return load([Path(scratch) / CONFIG])
    return read_configuration(run)


def check_same_configuration(config: Config, run: Path, begun: Config | None) -> None:
    """Refuse to go on with a run that was started with another configuration, `begun`."""
    if begun is None:
        _check_no_network(run)
        return
    for key, (old, now) in differences(begun, config).items():
        # More epochs change nothing where the rate of an epoch does not depend on their number.
        may_differ = key == "train.epochs" and SCHEDULES[config.train.schedule].open_ended
        more_epochs = may_differ and (now >= old or now >= len(read_history(run)))
        if not more_epochs and not key.startswith(WITHOUT_EFFECT):
            raise InputError(
                f"{run / CONFIG}: {key} is {old} in this run, but {now} now; train into another"
                f" folder, or {advise_new_run()}"
            )


def _check_no_network(run: Path) -> None:
    """Refuse to start where a run has lost its checkpoints: its network would be overwritten."""
    history = run / HISTORY
    remains = [*filter(is_there, (run / BEST, *find_files(run, "*.damaged")))]
    remains += [history] if is_there(history) and history.stat().st_size else []
    if remains:
        raise InputError(
            f"{remains[0]}: of a run that has no {LAST} to go on from; restore that, train into"
            f" another folder, which train.init_from may begin from this, or {advise_new_run()}"
        )


def versions(device: torch.device, precision: str) -> dict[str, Any]:
    """Versions and hardware that the numbers of a run may depend on."""
    return {
        "bayes_asr": version("bayes_asr"),
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # a class of its own, which checkpoints refuse
        "numpy": np.__version__,
        "blas": name_blas(),
        "machine": platform.machine(),
        "device": name_card(device) or "cpu",
        "threads": torch.get_num_threads(),
        "processes": group.size(),
        "kernels": library.path(),
        "precision": precision,
    }


def name_card(device: torch.device) -> str | None:
    """The name of a GPU; None for a CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else None


def join_versions(started: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The versions that a run was started with; `resumed_with`: what others it went on with.

    started: of its checkpoint; empty where it is new. A warning names each that differs.
    """
    changed = {name: value for name, value in now.items() if started.get(name, value) != value}
    for name, value in changed.items():
        LOGGER.warning(
            "this run was started with %s %s, and goes on with %s: its numbers are not exactly"
            " those of one that was not interrupted",
            *(name, started[name], value),
        )
    sessions = started.get("resumed_with", [])
    if changed and changed not in sessions:
        sessions = [*sessions, changed]
    return {**now, **started, **({"resumed_with": sessions} if sessions else {})}


def write_environment(
    run: Path,
    parameters: int,
    front_ends: Mapping[str, FrontEnd],
    origin: Mapping[str, Any],
    gpu_path: Mapping[str, Any] | None = None,
    adapted: Mapping[str, Mapping[str, Any]] = {},
) -> None:
    """Write env.json.

    front_ends: of each stream, which know what made the features of sound, if anything here did;
    origin: `versions`, and `begun_from` and `inputs`, hashes of the networks that gave weights and
    of the data, by file, and `transitions`, one of final.mdl; gpu_path: which, on what card, and
    what was measured; adapted: what made the streams that our mixtures adapt to speakers.
    """
    analyses = [
        adapted.get(name, front_end.sound and dict(front_end.sound))
        for name, front_end in front_ends.items()
    ]
    environment = {
        "parameters": parameters,
        **origin["versions"],
        "frontend": analyses[0],
        **({"frontends": dict(zip(front_ends, analyses, strict=True))} if analyses[1:] else {}),
        **{key: origin[key] for key in ("begun_from", "inputs", "transitions") if origin.get(key)},
        **({"gpu_path": dict(gpu_path)} if gpu_path else {}),
    }
    with replacing(run / ENVIRONMENT) as temporary:
        temporary.write_text(json.dumps(environment, indent=1) + "\n")
