"""The configuration: typed data with a closed vocabulary.

`conf/base.yaml` names every key once, with its default, unit and meaning; `schema` gives types and
ranges; `merge` lays files and `--set a.b=c` over base.yaml; `explain` says what a key means.
"""

from bayes_asr.config.decoding_keys import DecodeConfig
from bayes_asr.config.epochs import at_epoch
from bayes_asr.config.inputs import (
    DataConfig,
    FeatureConfig,
    LabelledSetConfig,
    SetConfig,
    StreamConfig,
)
from bayes_asr.config.merge import load
from bayes_asr.config.schema import (
    Config,
    ModelConfig,
    RecipeConfig,
    ScoreConfig,
    as_yaml,
    differences,
    keys,
)
from bayes_asr.config.training_keys import TrainConfig

__all__ = [
    "Config",
    "DataConfig",
    "DecodeConfig",
    "FeatureConfig",
    "LabelledSetConfig",
    "ModelConfig",
    "RecipeConfig",
    "ScoreConfig",
    "SetConfig",
    "StreamConfig",
    "TrainConfig",
    "as_yaml",
    "at_epoch",
    "differences",
    "keys",
    "load",
]
