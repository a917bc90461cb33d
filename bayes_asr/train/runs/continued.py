"""What a run stands for among the configurations of one that goes on from it."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bayes_asr.base.installed import CONF
from bayes_asr.config import Config, at_epoch
from bayes_asr.config.merge import Layer
from bayes_asr.config.training_keys import BY_EPOCH
from bayes_asr.train.runs.configuration import CONFIG, read_configuration


def continue_runs(paths: Sequence[Path]) -> list[Layer]:
    """Configurations, in place of each run its own as of the last epoch, with conf/continued.yaml;
    and with the last of them, that the new run begins with the networks of all.

    InputError for a folder that is no run.
    """
    layers: list[Layer] = []
    runs = [path for path in paths if path.is_dir()]
    for path in paths:
        if path not in runs:
            layers.append(path)
            continue
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
    """What of `train` is of epochs that are over, and what holds after them."""
    train = config.train
    for key in BY_EPOCH:
        yield key, at_epoch(getattr(train, key), train.epochs)
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
    return tuple(f"train.{key}={json.dumps(value)}" for key, value in values)
