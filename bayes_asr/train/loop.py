"""One pass over batches, in training and in evaluation."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from bayes_asr.data.batches import read_ahead
from bayes_asr.errors import InputError
from bayes_asr.nn.model import AcousticModel
from bayes_asr.train.batch import Batch


@dataclass
class Totals:
    """Sums over frames, so that batches of any size weigh by their frames."""

    frames: int = 0
    loss: float = 0.0
    errors: int = 0
    gradient_norm: float = 0.0
    batches: int = 0
    seconds: float = 0.0

    def metrics(self) -> dict[str, float]:
        """Mean loss in nats per frame, frame error in [0, 1], frames per second."""
        return {
            "loss": self.loss / self.frames,
            "error": self.errors / self.frames,
            "frames_per_second": self.frames / self.seconds,
        }


def losses(logits: Sequence[Tensor], batch: Batch) -> list[Tensor]:
    """Cross entropy of each head, mean over the frames of the batch."""
    labels = (batch.pdfs_N, batch.monophones_N)
    return [cross_entropy(y, label) for y, label in zip(logits, labels, strict=False)]


class Update:
    """One step of the optimizer on the weighted losses of the heads, with clipped gradients."""

    def __init__(
        self,
        model: AcousticModel,
        optimizer: torch.optim.Optimizer,
        *,
        monophone_weight: float,
        max_gradient_norm: float,
    ) -> None:
        """Keep what every step needs."""
        self._model, self._optimizer = model, optimizer
        self._monophone_weight, self._max_norm = monophone_weight, max_gradient_norm

    def __call__(self, parts: list[Tensor]) -> float:
        """Take a step on the losses of the heads; returns the gradient norm before clipping."""
        objective = sum((self._monophone_weight * part for part in parts[1:]), start=parts[0])
        self._optimizer.zero_grad()
        objective.backward()
        norm = float(nn.utils.clip_grad_norm_(self._model.parameters(), self._max_norm))
        if not math.isfinite(norm):
            raise InputError(
                f"the gradient is {norm:g} at a loss of {objective.item():g}: training diverged;"
                " lower train.learning_rate and start over with --new"
            )
        self._optimizer.step()
        return norm


def run_epoch(
    model: AcousticModel,
    batches: Sequence[list[str]],
    load: Callable[[list[str]], Batch],
    *,
    update: Update | None = None,
    title: str,
) -> Totals:
    """Run the model over all batches, training it if `update` is given.

    A progress bar on the screen shows loss, frame error and frames per second.
    """
    model.train(update is not None)
    totals, start = Totals(), time.perf_counter()
    with (
        nullcontext() if update else torch.no_grad(),
        tqdm(total=len(batches), desc=title, unit="batch", leave=False, disable=None) as bar,
    ):
        for batch in read_ahead(batches, load):
            logits = model(batch.x_NF, batch.frames, batch.keys_B if update else None)
            parts = losses(logits, batch)
            if update:
                totals.gradient_norm += update(parts)
            frames = len(batch.pdfs_N)
            totals.frames += frames
            totals.batches += 1
            totals.loss += parts[0].item() * frames
            totals.errors += int((logits[0].argmax(1) != batch.pdfs_N).sum())
            totals.seconds = time.perf_counter() - start
            shown = totals.metrics()
            bar.update()
            bar.set_postfix(
                loss=f"{shown['loss']:.3f}",
                error=f"{shown['error']:.3f}",
                frames_per_s=f"{shown['frames_per_second']:.0f}",
            )
    return totals
