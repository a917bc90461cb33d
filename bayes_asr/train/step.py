"""Step of the optimizer, taken only where all numbers are within bounds."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bayes_asr.base.processes import group
from bayes_asr.base.processes.gradients import GradientSum
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.speakers import set_speakers
from bayes_asr.train.batch import Batch
from bayes_asr.train.optimizers import Optimizers

LARGEST_STATISTIC = 1e12  # larger ones are not forgotten for hundreds of batches


class NotFiniteError(ArithmeticError):
    """The loss or the gradient of a batch is not finite, or its statistics are out of bounds."""


class Step:
    """One step of the optimizer with clipped gradients, added up over all processes.

    bfloat16: compute matrix products in bfloat16, by autocast, and round their results to it, but
    for gradients of weights where the products are this toolkit's. Weights and their changes,
    statistics, losses and the averages of the optimizer are in single precision.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizers,
        *,
        max_gradient_norm: float,
        bfloat16: bool = False,
    ) -> None:
        """Take the parameters and running statistics of the model, and the optimizer."""
        self.bfloat16 = bfloat16
        self._optimizer, self._max_norm = optimizer, max_gradient_norm
        self._parameters, self._statistics = list(model.parameters()), dict(model.named_buffers())
        self._all_reduce_gradients = GradientSum(self._parameters)

    def __call__(self, objective: Tensor) -> float:
        """Take a step down the objective; returns the gradient norm before clipping.

        NotFiniteError, before any weight changes, where the objective or the norm is not finite, or
        running statistics are beyond `LARGEST_STATISTIC`.
        """
        try:
            with self._all_reduce_gradients.overlapping():
                objective.backward()
            self._all_reduce_gradients()
            return self._clip_and_step(objective.item())
        finally:
            # Gradients that outlive the step would fragment the memory of the next activations.
            self._optimizer.zero_grad()

    def _clip_and_step(self, loss: float) -> float:
        # The sum makes all processes raise together, whichever of them has the bad value.
        (loss,) = group.total(loss)
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        for quantity, value in (("loss", loss), ("gradient", float(norm))):
            if not math.isfinite(value):
                raise NotFiniteError(f"the {quantity} is {value:g}")
        self._check_statistics()
        if norm > self._max_norm:
            nn.utils.clip_grads_with_norm_(self._parameters, self._max_norm, norm)
        self._optimizer.step()
        return float(norm)

    def _check_statistics(self) -> None:
        """NotFiniteError where running statistics are out of bounds, which a finite loss can hide.

        An exploded variance makes all that it normalises 0 in evaluation until it is forgotten.
        """
        averages = {n: x for n, x in self._statistics.items() if x.is_floating_point()}
        numbers = torch.cat([x.flatten() for x in averages.values()] or [torch.zeros(0)])
        if not (numbers.abs() <= LARGEST_STATISTIC).all():
            largest = {n: x.abs().nan_to_num(math.inf, math.inf).max() for n, x in averages.items()}
            name = max(largest, key=lambda n: largest[n])
            raise NotFiniteError(f"{name} is {largest[name]:.0e}")

    @contextmanager
    def restoring_statistics(self) -> Iterator[None]:
        """Restore the running statistics that a step changed where it raises NotFiniteError.

        Weights need no copy: the step raises before it changes them.
        """
        saved = {name: value.clone() for name, value in self._statistics.items()}
        try:
            yield
        except NotFiniteError:
            for name, value in saved.items():
                self._statistics[name].copy_(value)
            raise


def compute_outputs(
    model: AcousticModel, batch: Batch, *, training: bool, bfloat16: bool = False
) -> dict[str, Tensor]:
    """Logits of the heads; only training has dropout, and products in bfloat16."""
    decoder_targets = () if batch.decoder_targets is None else (batch.decoder_targets,)
    set_speakers(model, batch.speakers_B, batch.frames)
    keys_B = batch.keys_B if training else None
    with torch.autocast(batch.device.type, torch.bfloat16, enabled=training and bfloat16):
        return model(batch.streams, batch.frames, keys_B, *decoder_targets)
