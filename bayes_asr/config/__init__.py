"""The configuration: typed data with a closed vocabulary.

`conf/base.yaml` names every key once, with its default, unit and meaning; `schema` gives types and
ranges; `merge` lays files and `--set a.b=c` over base.yaml; `explain` says what a key means.
"""

from bayes_asr.config.merge import load
from bayes_asr.config.schema import (
    Config,
    DataConfig,
    FeatureConfig,
    ModelConfig,
    RecipeConfig,
    ScoreConfig,
    SetConfig,
    TrainConfig,
    as_yaml,
    differences,
    keys,
)
from bayes_asr.config.search_keys import DecodeConfig

__all__ = [
    "Config",
    "DataConfig",
    "DecodeConfig",
    "FeatureConfig",
    "ModelConfig",
    "RecipeConfig",
    "ScoreConfig",
    "SetConfig",
    "TrainConfig",
    "as_yaml",
    "differences",
    "keys",
    "load",
]
