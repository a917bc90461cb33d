"""Numbers that are not finite: what is undone, and what is given up."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

RETURN_FACTOR = 0.5  # of the learning rate, each time a run goes back


class NotFiniteError(ArithmeticError):
    """The loss or the gradient of a batch is NaN or infinite."""


class DivergedError(ArithmeticError):
    """An epoch cannot be completed with this learning rate."""


@contextmanager
def undone_if_not_finite(statistics: Mapping[str, Tensor]) -> Iterator[None]:
    """Where a step raises NotFiniteError, put back the running statistics that it changed.

    Weights need no copy: the step raises before it changes them.
    """
    before = {name: value.clone() for name, value in statistics.items()}
    try:
        yield
    except NotFiniteError:
        for name, value in before.items():
            statistics[name].copy_(value)
        raise


def check_statistics(statistics: Mapping[str, Tensor]) -> None:
    """NotFiniteError where running statistics are not finite, which a finite loss can hide.

    A variance that overflows makes everything it normalises 0, then and in evaluation.
    """
    averages = {name: value for name, value in statistics.items() if value.is_floating_point()}
    if (
        averages
        and not torch.cat([value.flatten() for value in averages.values()]).isfinite().all()
    ):
        name = next(name for name, value in averages.items() if not value.isfinite().all())
        raise NotFiniteError(f"{name} is not finite")
