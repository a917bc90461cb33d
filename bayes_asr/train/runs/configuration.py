"""Configuration of a run directory, and of runs that go on from it."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bayes_asr.base.files import is_there
from bayes_asr.base.installed import CONF
from bayes_asr.config.epochs import at_epoch
from bayes_asr.config.merge import ConfigLayer, load
from bayes_asr.config.schema import Config
from bayes_asr.config.training_keys import BY_EPOCH
from bayes_asr.kaldi_io.side_files import CONFIG, check_is_run

PACKED = "packed.json"
"""A file of runs whose data lie in themselves, as `decode.packed` writes them."""


def read_configuration(run: Path, settings: Sequence[str] = ()) -> Config:
    """Read the configuration of a run, with settings over it; InputError where there is no run."""
    check_is_run(run)
    inside = [f"data.dir={json.dumps(str(run))}"] if is_there(run / PACKED) else []
    return load([run / CONFIG], [*inside, *settings])


def continue_runs(paths: Sequence[Path]) -> list[ConfigLayer]:
    """Replace each run among configurations by the layers of one that goes on from it.

    These are its own configuration as of the last epoch, and conf/continued.yaml; those of the last
    run also say that the new run begins with the networks of all. InputError for a folder that is
    no run.
    """
    layers: list[ConfigLayer] = []
    runs = [path for path in paths if path.is_dir()]
    for path in paths:
        if path not in runs:
            layers.append(path)
            continue
        # Later layers win: settings by epoch are replaced by their last values, and continued.yaml
        # has what a second training does differently.
        layers += [
            path / CONFIG,
            _as_train_settings(_settings_after_end(read_configuration(path))),
            CONF / "continued.yaml",
        ]
        if path == runs[-1]:
            begin = [{"run": str(run.absolute()), "normalisation": "run"} for run in runs]
            layers.append(_as_train_settings([("init_from", begin)]))
    return layers


def _settings_after_end(config: Config) -> Iterator[tuple[str, Any]]:
    """Settings of `train` that are given by epoch, as they are after the last epoch."""
    train = config.train
    for key in BY_EPOCH:
        yield key, at_epoch(getattr(train, key), train.epochs)
    # None removes an entry: the rates of the old run do not hold for the epochs of the new one.
    for epoch in train.learning_rates:
        yield f"learning_rates.{epoch}", None
    for name, layer in train.layers.items():
        if layer.frozen_epochs != "all":
            yield f"layers.{name}.frozen_epochs", 0
    yield "freeze_activations", 0
    yield "pretrain.epochs", 0


def _as_train_settings(
    values: Iterator[tuple[str, Any]] | Sequence[tuple[str, Any]],
) -> tuple[str, ...]:
    """Settings of `train` as `--set` takes them; JSON is YAML."""
    return tuple(f"train.{key}={json.dumps(value)}" for key, value in values)
