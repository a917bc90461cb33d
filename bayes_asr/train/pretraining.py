"""Layer-by-layer pre-training: shallower networks that a training begins with (Seide et al. 2011).

A network of one layer is trained, then one of two whose first layer is that of the one before, and
so on; the output layer is new each time. Each is a run of its own below that of the whole network,
and is resumed as any other.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bayes_asr.config.schema import Config
from bayes_asr.config.training_keys import PretrainConfig, TrainConfig, Transfer

FOLDER = "pretrain"


@dataclass(frozen=True)
class ShallowTraining:
    """Training of the first layers alone, and the directory of its run."""

    config: Config
    run: Path

    @property
    def as_transfer(self) -> Transfer:
        """Transfer of its layers, without the heads, to the next network."""
        names = _name_layers(self.config.model.layers)
        return Transfer(run=str(self.run), layers=dict(zip(names, names, strict=True)))


def plan_pretraining(config: Config, run: Path) -> Iterator[ShallowTraining]:
    """Trainings before that of `run`, of 1, 2, ... layers."""
    # A relative path of the index starts from the parent of the run, which is another one here.
    index = str(run.absolute().parent / config.data.index)
    data = replace(config.data, index=index)
    for depth in range(1, config.model.layers):
        units = config.model.units
        model = replace(
            config.model,
            layers=depth,
            units=units if isinstance(units, int) else units[:depth],
            heads={},
        )
        absent = _name_layers(config.model.layers)[depth:]
        train = _shallow_options(config.train, absent)
        shallow = replace(config, data=data, model=model, train=train)
        yield ShallowTraining(shallow, run / FOLDER / str(depth))


def _shallow_options(train: TrainConfig, absent: Collection[str]) -> TrainConfig:
    """Options of the training of a network without the `absent` layers: at one rate."""
    plan = train.pretrain
    return replace(
        train,
        epochs=plan.epochs,
        schedule="list",
        learning_rates={1: plan.learning_rate or train.learning_rate},
        freeze_activations=plan.epochs if plan.activations == "frozen" else 0,
        speaker_adaptive=False,
        layers={name: layer for name, layer in train.layers.items() if name not in absent},
        pretrain=PretrainConfig(epochs=0, learning_rate=None, activations="frozen"),
    )


def _name_layers(count: int) -> list[str]:
    """Names of the first layers of the short form."""
    return [f"layer{number + 1}" for number in range(count)]
