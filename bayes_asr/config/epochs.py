"""Values that may change from epoch to epoch: one for all, or each by the first epoch it is of."""

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from bayes_asr.base.errors import InputError
from bayes_asr.config.values import Count, Dropped

Value = TypeVar("Value")
Dropout = Dropped | Mapping[Count, Dropped]
DROPOUTS = ("dropout", "input_dropout")
"""Options of layers of that type."""


@overload
def at_epoch(value: Mapping[int, Value], epoch: int) -> Value: ...
@overload
def at_epoch(value: Value | Mapping[int, Value], epoch: int) -> Value: ...
def at_epoch(value: Value | Mapping[int, Value], epoch: int) -> Value:
    """The value of a key in an epoch: one for all, or that of the last epoch named up to it."""
    if not isinstance(value, Mapping):
        return value
    # Epochs count from 1, and the first is always there (`check_first_epoch`).
    return value[max(begin for begin in value if begin <= epoch)]


def between_epochs(value: float | Mapping[int, float], epoch: int) -> float:
    """The value of a key in an epoch: one for all, or linear between the epochs that are named."""
    if not isinstance(value, Mapping):
        return value
    begin = max(key for key in value if key <= epoch)
    last = min((key for key in value if key > epoch), default=begin)
    # Linear interpolation; after the last epoch that is named, the value stays.
    share = (epoch - begin) / (last - begin) if last > begin else 0.0
    return value[begin] + share * (value[last] - value[begin])


def check_first_epoch(key: str, value: Any) -> None:
    """InputError for values by epoch of which none is of the first."""
    if isinstance(value, Mapping) and 1 not in value:
        raise InputError(f"{key} says nothing of epoch 1; begin with it")
