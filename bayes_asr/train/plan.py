"""From the configuration to the network and its optimizer."""

from typing import Any

import torch

from bayes_asr.config import ModelConfig, TrainConfig
from bayes_asr.errors import InputError
from bayes_asr.log import LOGGER
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.units.bayesian import CELLS


def architecture(config: ModelConfig, inputs: int, outputs: list[int]) -> dict[str, Any]:
    """The arguments of AcousticModel, as plain values for the checkpoint."""
    if config.unit not in CELLS:
        raise InputError(f"model.unit is {config.unit}; known units: {', '.join(CELLS)}")
    units = [config.units] * config.layers if isinstance(config.units, int) else config.units
    if len(units) != config.layers:
        raise InputError(
            f"model.units has {len(units)} numbers, but model.layers is {config.layers}; give one"
            " number for each layer, or one for all"
        )
    own = ("form", "activation", "activation_trains", "peepholes", "smooth")
    shared = {k: v for k, v in vars(config).items() if k not in own and k != "layers"}
    options = {k: getattr(config, k) for k in own}
    return {
        **shared,
        "inputs": inputs,
        "outputs": outputs,
        "units": list(units),
        "options": {k: list(v) if isinstance(v, tuple) else v for k, v in options.items() if v},
    }


def device(name: str) -> torch.device:
    """Where a training computes: `cpu`, `cuda`, or `auto`, a GPU where there is one."""
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise InputError(
            "train.device is cuda, but torch finds no GPU here (bayes-asr doctor shows what it"
            " finds); set it to auto or cpu"
        )
    return torch.device("cuda" if there and name != "cpu" else "cpu")


def optimizer(config: TrainConfig, model: AcousticModel) -> torch.optim.Optimizer:
    """Adam, or RMSprop with pytorch-kaldi's constants."""
    options: dict[str, Any] = {"lr": config.learning_rate, "weight_decay": config.weight_decay}
    if config.optimizer == "adam":
        return torch.optim.AdamW(model.parameters(), fused=True, **options)
    return torch.optim.RMSprop(model.parameters(), alpha=0.95, eps=1e-8, **options)


def describe(config: ModelConfig, model: AcousticModel) -> None:
    """Say what the network is."""
    LOGGER.info(
        "%s, %d layers of %s units, %s directions, %s initial state: %d parameters (%d without the"
        " heads)",
        config.unit,
        config.layers,
        config.units,
        "tied" if config.tied_directions else "untied",
        config.initial_state,
        sum(p.numel() for p in model.parameters()),
        sum(p.numel() for p in model.layers.parameters()),
    )
