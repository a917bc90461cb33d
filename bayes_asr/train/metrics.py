"""Metrics of a pass over a set: sums over its batches."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayes_asr.base.log import LOGGER


@dataclass
class Totals:
    """Sums over labels, so that batches of any size weigh by theirs.

    frames: number computed; labels: of the first target, as many as frames, or utterances; errors:
    None where none are counted; gradient_norm: sum over the batches; seconds: of the pass so far.
    Plain values: a checkpoint holds them, and a pass goes on from them.
    """

    frames: int = 0
    labels: int = 0
    loss: float = 0.0
    errors: int | None = 0
    gradient_norm: float = 0.0
    batches: int = 0
    seconds: float = 0.0
    skipped: list[dict[str, Any]] = field(default_factory=list)
    """`batch`, `why` and `utterances` of each batch whose loss or gradient was not finite."""

    @property
    def position(self) -> int:
        """Number of batches that are over, and so the index of the next one."""
        return self.batches + len(self.skipped)

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> "Totals":
        """Totals of a checkpoint; old ones have no labels, which were as many as frames then."""
        return cls(**{"labels": content.get("frames", 0), **content})

    def add(
        self, frames: float, labels: float, loss: float, errors: float | None, norm: float
    ) -> None:
        """Count a batch; loss: the mean over its labels."""
        self.frames += int(frames)
        self.labels += int(labels)
        self.batches += 1
        self.gradient_norm += norm
        self.loss += loss * labels  # a mean becomes a sum again, so that batches weigh by labels
        self._add_errors(errors)

    def _add_errors(self, errors: float | None) -> None:
        self.errors = None if errors is None else (self.errors or 0) + int(errors)

    def skip(self, utterances: list[str], why: str, title: str) -> None:
        """Count and name a batch that could not be trained on."""
        batch = self.position + 1
        self.skipped.append({"batch": batch, "why": why, "utterances": utterances})
        names = ", ".join(utterances)
        LOGGER.warning("%s, batch %d: %s; it is skipped: %s", title, batch, why, names)

    def metrics(self) -> dict[str, Any]:
        """Mean loss in nats per label, error in [0, 1] or None, frames per second."""
        return {
            "loss": self.loss / self.labels,
            "error": None if self.errors is None else self.errors / self.labels,
            "frames_per_second": self.frames / self.seconds,
        }


@dataclass(frozen=True)
class DevTotals:
    """Sums over the validation sets together, and over each of several, by name."""

    total: Totals
    parts: Mapping[str, Totals]

    @classmethod
    def of(cls, parts: Mapping[str, Totals]) -> "DevTotals":
        """Totals of validation sets, which are named where there are several."""
        if len(parts) == 1:
            return cls(next(iter(parts.values())), {})
        # Gradient norms and skipped batches are of training alone.
        total = Totals()
        for part in parts.values():
            total.frames += part.frames
            total.labels += part.labels
            total.loss += part.loss
            total._add_errors(part.errors)
            total.batches += part.batches
            total.seconds += part.seconds
        return cls(total, parts)
