"""Sums over the batches of a pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayes_asr.log import LOGGER


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

    def add(self, frames: float, loss: float, errors: float, norm: float) -> None:
        """Count a batch; loss: the mean over its frames."""
        self.frames += int(frames)
        self.batches += 1
        self.gradient_norm += norm
        self.loss += loss * frames
        self.errors += int(errors)

    def skip(self, utterances: list[str], why: str, title: str) -> None:
        """Count and name a batch that could not be trained on."""
        batch = self.position + 1
        self.skipped.append({"batch": batch, "why": why, "utterances": utterances})
        names = ", ".join(utterances)
        LOGGER.warning("%s, batch %d: %s; it is skipped: %s", title, batch, why, names)

    def metrics(self) -> dict[str, float]:
        """Mean loss in nats per frame, frame error in [0, 1], frames per second."""
        return {
            "loss": self.loss / self.frames,
            "error": self.errors / self.frames,
            "frames_per_second": self.frames / self.seconds,
        }


@dataclass(frozen=True)
class Validated:
    """Sums over the validation sets together, and over each of several, by name."""

    total: Totals
    parts: Mapping[str, Totals]

    @classmethod
    def of(cls, parts: Mapping[str, Totals]) -> "Validated":
        """Those of some sets."""
        if len(parts) == 1:
            return cls(next(iter(parts.values())), {})
        total = Totals()
        for part in parts.values():
            total.frames += part.frames
            total.loss += part.loss
            total.errors += part.errors
            total.batches += part.batches
            total.seconds += part.seconds
        return cls(total, parts)
