"""Numbers that are not finite: what is undone, and what is given up."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

RETURN_FACTOR = 0.5  # of the learning rate, each time a run goes back


class NotFiniteError(ArithmeticError):
    """The loss or the gradient of a batch is NaN or infinite."""


class DivergedError(ArithmeticError):
    """An epoch cannot be completed with this learning rate."""


@contextmanager
def undone_if_not_finite(model: nn.Module) -> Iterator[None]:
    """Where a step raises NotFiniteError, put back the running statistics that it changed.

    Weights need no copy: the step raises before it changes them.
    """
    before = [buffer.clone() for buffer in model.buffers()]
    try:
        yield
    except NotFiniteError:
        with torch.no_grad():
            for buffer, value in zip(model.buffers(), before, strict=True):
                buffer.copy_(value)
        raise


def check_statistics(model: nn.Module) -> None:
    """NotFiniteError where running statistics are not finite, which a finite loss can hide.

    A variance that overflows makes everything it normalises 0, then and in evaluation.
    """
    for name, buffer in model.named_buffers():
        if not buffer.isfinite().all():
            raise NotFiniteError(f"{name} is not finite")
