"""Records in a run directory: the configuration, the environment, the history."""

import json
import platform
import shutil
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_info

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import replacing, settle
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.config.catalogue import SCHEDULES
from bayes_asr.config.schema import Config, differences
from bayes_asr.data.features.front_end import FrontEnd
from bayes_asr.kaldi_io import side_files
from bayes_asr.nn.kernels.cpu import library
from bayes_asr.train.runs import checkpoint, state, tensorboard
from bayes_asr.train.runs.configuration import CONFIG, read_configuration

HISTORY = side_files.HISTORY
LATTICES = "lattices"  # folder of those that the network of the last complete epoch made
RECORDS = (  # files of a run that are discarded together: its scores are of its network
    checkpoint.UNFINISHED,
    checkpoint.LAST,
    checkpoint.PREVIOUS,
    checkpoint.BEST,
    "score_dev.json",
    "score_test.json",
    HISTORY,
    state.NAME,
    "env.json",
    CONFIG,  # the last: checkpoints without it could not be told from those of another run
)
HISTORY_KEYS = ("epoch", "dev_error", "frames_per_second", "seconds")  # in each line of the history
WITHOUT_EFFECT = (  # on what was trained: these keys may change when a run is resumed
    "data.expected_dims",
    "data.graph",
    "data.index",
    "data.max_skipped",
    "data.test.",
    "decode.",
    "score.",
    "train.device",  # any change of which is said, as that of a version
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


def read_recorded_config(run: Path) -> Config | None:
    """Read the configuration of a run; None where there is nothing to go on from."""
    resumable = (run / CONFIG).exists() and any(
        (run / name).exists() for name in checkpoint.RESUMED
    )
    return read_configuration(run) if resumable else None


def check_same_configuration(config: Config, run: Path) -> None:
    """Refuse to go on with a run that was started with another configuration."""
    recorded = run / CONFIG
    checkpoints = [name for name in checkpoint.RESUMED if (run / name).exists()]
    if not checkpoints:
        _check_no_network(run)
        return
    if not recorded.exists():
        raise InputError(
            f"{recorded}: missing beside {checkpoints[0]}, so nothing says what that was trained"
            " with; restore it, or start over with --new"
        )
    for key, (old, now) in differences(read_configuration(run), config).items():
        # More epochs change nothing where the rate of an epoch does not depend on their number.
        more_epochs = key == "train.epochs" and SCHEDULES[config.train.schedule].open_ended
        if not more_epochs and not key.startswith(WITHOUT_EFFECT):
            raise InputError(
                f"{recorded}: {key} is {old} in this run, but {now} now; train into another folder,"
                " or start over with --new"
            )


def _check_no_network(run: Path) -> None:
    """Refuse to start where a run has lost its checkpoints: its network would be overwritten."""
    history = run / HISTORY
    remains = [
        path for path in (run / checkpoint.BEST, *sorted(run.glob("*.damaged"))) if path.exists()
    ]
    remains += [history] if history.exists() and history.stat().st_size else []
    if remains:
        raise InputError(
            f"{remains[0]}: of a run that has no {checkpoint.LAST} to go on from; restore that,"
            " train into another folder, or start over with --new"
        )


def discard(run: Path) -> None:
    """Remove the network, history and scores of a run."""
    settle(run)  # files still to be put in place would come back otherwise
    for name in RECORDS:
        (run / name).unlink(missing_ok=True)
    for damaged in run.glob("*.damaged"):
        damaged.unlink()
    for folder in (tensorboard.FOLDER, LATTICES):
        shutil.rmtree(run / folder, ignore_errors=True)


def remove_leftovers(run: Path) -> None:
    """Remove the files of a process that was killed."""
    (run / checkpoint.FIRST).unlink(missing_ok=True)


def append_to_history(run: Path, entry: Mapping[str, Any]) -> None:
    """Add the line of an epoch to history.jsonl."""
    history = run / HISTORY
    with replacing(history) as temporary:
        if history.exists():
            shutil.copyfile(history, temporary)
        with temporary.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def truncate_history(run: Path, last: Mapping[str, Any] | None) -> None:
    """Truncate history.jsonl after the epoch that a run goes on from; None: it has none.

    Later epochs are trained anew. Lines that were lost are said; a damaged file is set aside.
    """
    history = run / HISTORY
    epoch = last["epoch"] if last else 0
    try:
        entries = [entry for entry in read_history(run) if entry["epoch"] < epoch]
    except InputError as error:
        entries = []
        new_path = history.replace(history.with_name(f"{history.name}.damaged"))
        LOGGER.warning("%s; it is set aside as %s", error, new_path)
    if len(entries) < epoch - 1:
        LOGGER.warning("%s: lacks %d of %d epochs", history, epoch - 1 - len(entries), epoch)
    # The line of the epoch itself comes from the checkpoint: the history is written after it.
    entries += [dict(last)] if last else []
    with replacing(history) as temporary:
        temporary.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def read_history(run: Path) -> list[dict[str, Any]]:
    """Read history.jsonl; empty where there is none."""
    return side_files.read_history(run, HISTORY_KEYS)


def versions(device: torch.device, precision: str) -> dict[str, Any]:
    """Versions and hardware that the numbers of a run may depend on."""
    on_gpu = device.type == "cuda"
    return {
        "bayes_asr": version("bayes_asr"),
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # a class of its own, which checkpoints refuse
        "numpy": np.__version__,
        "blas": name_blas(),
        "machine": platform.machine(),
        "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "threads": torch.get_num_threads(),
        "processes": group.size(),
        "kernels": library.path(),
        "precision": precision,
    }


def name_blas() -> str:
    """Linear algebra that NumPy and SciPy have loaded, with its code for this processor."""
    loaded = (library for library in threadpool_info() if library["user_api"] == "blas")
    names = {f"{blas['internal_api']} {blas.get('architecture', '')}".strip() for blas in loaded}
    return ", ".join(sorted(names)) or "none"


def warn_of_other_versions(saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Warn where a run goes on with other versions than it has had so far."""
    for name, value in now.items():
        if saved.get(name, value) != value:
            LOGGER.warning(
                "this run was started with %s %s, and goes on with %s: its numbers are not exactly"
                " those of one that was not interrupted",
                name,
                saved[name],
                value,
            )


def write_environment(
    run: Path,
    parameters: int,
    front_ends: Mapping[str, FrontEnd],
    versions: Mapping[str, Any],
    begun_from: Mapping[str, str],
) -> None:
    """Write env.json.

    front_ends: of each stream, which know what made the features of sound, if anything here did;
    begun_from: hashes of the networks that gave weights, by file.
    """
    analyses = [
        None if front_end.sound is None else dict(front_end.sound)
        for front_end in front_ends.values()
    ]
    environment = {
        "parameters": parameters,
        **versions,
        "frontend": analyses[0],
        **({"frontends": dict(zip(front_ends, analyses, strict=True))} if analyses[1:] else {}),
        **({"begun_from": dict(begun_from)} if begun_from else {}),
    }
    with replacing(run / "env.json") as temporary:
        temporary.write_text(json.dumps(environment, indent=1) + "\n")
