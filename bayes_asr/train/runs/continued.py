"""Configurations of runs that go on from others: a second training, of another criterion."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayes_asr.base.installed import CONF
from bayes_asr.config.epochs import DROPOUTS, at_epoch, between_epochs
from bayes_asr.config.merge import ConfigLayer
from bayes_asr.config.model_keys import ModelConfig
from bayes_asr.config.schema import Config
from bayes_asr.config.training_keys import BY_EPOCH, TrainConfig
from bayes_asr.kaldi_io.side_files import CONFIG
from bayes_asr.train.runs.configuration import read_configuration


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
            *_settings_after_end(read_configuration(path)),
            CONF / "continued.yaml",
        ]
        if path == runs[-1]:
            begin = [{"run": str(run.absolute()), "normalisation": "run"} for run in runs]
            layers.append(_as_settings("train", [("init_from", begin)]))
    return layers


def _settings_after_end(config: Config) -> Iterator[tuple[str, ...]]:
    """Settings that are given by epoch, as they are after the last epoch."""
    yield _as_settings("train", _training_after_end(config.train))
    yield _as_settings("model", _dropout_after_end(config.model, config.train.epochs))


def _dropout_after_end(model: ModelConfig, epochs: int) -> Iterator[tuple[str, Any]]:
    kinds = vars(model.kinds).items()
    for key, options in (("", model), *((f"kinds.{kind}.", options) for kind, options in kinds)):
        for name in DROPOUTS:
            if isinstance(value := getattr(options, name, None), Mapping):
                yield key + name, at_epoch(value, epochs)
    if model.stack:
        yield (
            "stack",
            [
                {
                    **layer,
                    **{name: at_epoch(layer[name], epochs) for name in DROPOUTS if name in layer},
                }
                for layer in model.stack
            ],
        )


def _training_after_end(train: TrainConfig) -> Iterator[tuple[str, Any]]:
    for key in BY_EPOCH:
        value_in = between_epochs if key == "teacher_forcing" else at_epoch
        yield key, value_in(getattr(train, key), train.epochs)
    # None removes an entry: the rates of the old run do not hold for the epochs of the new one.
    for epoch in train.learning_rates:
        yield f"learning_rates.{epoch}", None
    for name, layer in train.layers.items():
        if layer.frozen_epochs != "all":
            yield f"layers.{name}.frozen_epochs", 0
    yield "freeze_activations", 0
    yield "pretrain.epochs", 0


def _as_settings(section: str, values: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    """Settings of a section as `--set` takes them; JSON is YAML."""
    return tuple(f"{section}.{key}={json.dumps(value)}" for key, value in values)
