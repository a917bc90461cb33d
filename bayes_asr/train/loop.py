"""One pass over batches, in training and in evaluation."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from bayes_asr.corpus.batches import read_ahead
from bayes_asr.log import LOGGER
from bayes_asr.nn.loss import Loss, cross_entropy
from bayes_asr.nn.network import AcousticModel
from bayes_asr.processes import group
from bayes_asr.processes.gradients import GradientSum
from bayes_asr.train.batch import Batch
from bayes_asr.train.guard import NotFiniteError, check_statistics, undone_if_not_finite


@dataclass
class Totals:
    """Sums over frames, so that batches of any size weigh by their frames.

    Plain values: a checkpoint holds them, and a pass goes on from them.
    """

    frames: int = 0
    loss: float = 0.0
    errors: int = 0
    gradient_norm: float = 0.0
    batches: int = 0
    seconds: float = 0.0
    skipped: list[dict[str, Any]] = field(default_factory=list)
    """Of each batch whose loss or gradient was not finite: `batch`, `why` and `utterances`."""

    @property
    def position(self) -> int:
        """How many batches are over; the index of the next one."""
        return self.batches + len(self.skipped)

    def metrics(self) -> dict[str, float]:
        """Mean loss in nats per frame, frame error in [0, 1], frames per second."""
        return {
            "loss": self.loss / self.frames,
            "error": self.errors / self.frames,
            "frames_per_second": self.frames / self.seconds,
        }


def losses(logits: Sequence[Tensor], batch: Batch, frames: float) -> list[Loss]:
    """Cross entropy of each head, the sum over the batch divided by `frames`, and its errors.

    frames: those of the batch in all processes.
    """
    pairs = zip(logits, (batch.pdfs_N, batch.monophones_N), strict=False)
    return [cross_entropy(y, label, frames) for y, label in pairs]


class Update:
    """One step of the optimizer on the weighted losses of the heads, with clipped gradients.

    bfloat16: compute matrix products in bfloat16, by autocast, and round their results to it, but
    for gradients of weights where the products are this toolkit's. Weights, what is added to them,
    statistics, losses and the optimizer's averages are in single precision.
    """

    def __init__(
        self,
        model: AcousticModel,
        optimizer: torch.optim.Optimizer,
        *,
        monophone_weight: float,
        max_gradient_norm: float,
        bfloat16: bool = False,
    ) -> None:
        """Keep what every step needs."""
        self.bfloat16 = bfloat16
        self._optimizer = optimizer
        self._parameters, self.statistics = list(model.parameters()), dict(model.named_buffers())
        self._add_up_gradients = GradientSum(self._parameters)
        self._monophone_weight, self._max_norm = monophone_weight, max_gradient_norm

    def __call__(self, parts: list[Loss]) -> float:
        """Take a step on the losses of the heads; returns the gradient norm before clipping.

        NotFiniteError, before any weight changes, where the loss, the norm or the running
        statistics of the batch are not finite.
        """
        first, *others = (part.mean for part in parts)
        objective = sum((self._monophone_weight * mean for mean in others), start=first)
        try:
            objective.backward()
            self._add_up_gradients()
            return self._stepped(objective.item())
        finally:
            self._optimizer.zero_grad()  # what lies among activations would tear holes into memory

    def _stepped(self, loss: float) -> float:
        """Take the step, if loss and gradient allow it."""
        (loss,) = group.total(loss)
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        for what, value in (("loss", loss), ("gradient", float(norm))):
            if not math.isfinite(value):
                raise NotFiniteError(f"the {what} is {value:g}")
        check_statistics(self.statistics)
        if norm > self._max_norm:
            nn.utils.clip_grads_with_norm_(self._parameters, self._max_norm, norm)
        self._optimizer.step()
        return float(norm)


def run_epoch(
    model: AcousticModel,
    batches: Sequence[list[str]],
    load: Callable[[list[str]], Batch],
    *,
    title: str,
    update: Update | None = None,
    totals: Totals | None = None,
    after_batch: Callable[[Totals], None] | None = None,
) -> Totals:
    """Run the model over all batches, training it if `update` is given.

    A batch that it cannot be trained on, as loss or gradient is not finite, is skipped, named and
    counted. totals: of the batches that are over already, from which the pass goes on.
    after_batch: called with the totals so far. A progress bar on the screen shows loss, frame error
    and frames per second.
    """
    model.train(update is not None)
    totals = totals or Totals()
    start = time.perf_counter() - totals.seconds
    left = batches[totals.position :]
    with (
        nullcontext() if update else torch.no_grad(),
        tqdm(
            total=len(batches),
            initial=totals.position,
            desc=title,
            unit="batch",
            leave=False,
            disable=None if group.is_first() else True,
        ) as bar,
    ):
        for utterances, batch in zip(left, read_ahead(left, load), strict=True):
            (frames,) = group.total(len(batch.pdfs_N))
            try:
                with undone_if_not_finite(update.statistics) if update else nullcontext():
                    loss, wrong, norm = _computed(model, batch, frames, update)
            except NotFiniteError as error:
                _skip(totals, utterances, str(error), title)
            else:
                loss, errors = group.total(loss, wrong)
                _count(totals, frames, loss, errors, norm)
            totals.seconds = time.perf_counter() - start
            _show(bar, totals)
            if after_batch:
                after_batch(totals)
    return totals


def _computed(
    model: AcousticModel, batch: Batch, frames: float, update: Update | None
) -> tuple[float, int, float]:
    """Return this process' part of the loss and its errors, and the gradient norm; no tensor that
    it computes outlives it, between which the next batch would have to find its place.
    """
    logits = _logits(model, batch, update)
    parts = losses(logits, batch, frames)
    norm = update(parts) if update else 0.0
    return parts[0].mean.item(), int(parts[0].errors), norm


def _logits(model: AcousticModel, batch: Batch, update: Update | None) -> list[Tensor]:
    """Logits of the heads; only training has dropout, and products in bfloat16."""
    if not update:
        return model(batch.x_NF, batch.frames)
    with torch.autocast(batch.x_NF.device.type, torch.bfloat16, enabled=update.bfloat16):
        return model(batch.x_NF, batch.frames, batch.keys_B)


def _skip(totals: Totals, utterances: list[str], why: str, title: str) -> None:
    batch = totals.position + 1
    totals.skipped.append({"batch": batch, "why": why, "utterances": utterances})
    LOGGER.warning("%s, batch %d: %s; it is skipped: %s", title, batch, why, ", ".join(utterances))


def _count(totals: Totals, frames: float, loss: float, errors: float, norm: float) -> None:
    totals.frames += int(frames)
    totals.batches += 1
    totals.gradient_norm += norm
    totals.loss += loss * frames
    totals.errors += int(errors)


def _show(bar: Any, totals: Totals) -> None:
    bar.update()
    if totals.frames:
        shown = totals.metrics()
        bar.set_postfix(
            loss=f"{shown['loss']:.3f}",
            error=f"{shown['error']:.3f}",
            frames_per_s=f"{shown['frames_per_second']:.0f}",
        )
