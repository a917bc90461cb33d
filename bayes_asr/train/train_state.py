"""The state of a training: all that a checkpoint holds, and goes on from to the last bit."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from bayes_asr.nn.speakers import SpeakerActivations
from bayes_asr.train.metrics import Totals
from bayes_asr.train.optimizers import Optimizers
from bayes_asr.train.runs.trained_network import TrainedNetwork


@dataclass
class TrainProgress:
    """Epochs and batches that are over, as plain values. The names of its fields are keys of
    checkpoints.

    rate: the schedule's, of the last complete epoch; returns: number of returns after divergence;
    totals: of the epoch that is not complete; dev_errors: the dev measure of complete epochs [E];
    entry: the line of the last of them in the history; batches: of all of them; lattices: a hash of
    those that were made for the epoch that is not complete.
    """

    rate: float
    returns: int = 0
    totals: Totals = field(default_factory=Totals)
    dev_errors: np.ndarray = field(default_factory=lambda: np.empty(0))
    entry: dict[str, Any] | None = None
    batches: int = 0
    lattices: str = ""

    def content(self) -> dict[str, Any]:
        """Fields as tensors and plain values."""
        arrays = {"dev_errors": torch.from_numpy(self.dev_errors)}
        return {**vars(self), "totals": asdict(self.totals), **arrays}

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> "TrainProgress":
        """Progress whose `content` this is; runs begun early in 0.1 lack some of it."""
        return cls(
            content["rate"],
            content.get("returns", 0),
            Totals.of_content(content.get("totals", {})),
            content["dev_errors"].numpy(),
            content["entry"],
            content.get("batches", 0),
            content.get("lattices", ""),
        )


@dataclass
class TrainState:
    """Network, optimizer, progress, and the state of torch's random numbers.

    origin: plain values that say what the run came from, `config`, `versions`, `inputs` and
    `begun_from`; speakers: the activations that training speakers have of their own, in
    speaker-adaptive training.
    """

    network: TrainedNetwork
    optimizer: Optimizers
    progress: TrainProgress
    origin: Mapping[str, Any]
    speakers: SpeakerActivations | None = None

    def content(self) -> dict[str, Any]:
        """Content of a checkpoint, as tensors and plain values."""
        return {
            **self.network_content(),
            **self.progress.content(),
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
            **self.origin,
        }

    def network_content(self) -> dict[str, Any]:
        """The part of it that is best.pt."""
        return self.network.content() | (self.speakers.content() if self.speakers else {})

    def restore(self, content: Mapping[str, Any]) -> None:
        """Go on from the content of a checkpoint."""
        if self.speakers:
            self.speakers.restore(dict(content))  # with the weights that they share
        else:
            self.network.model.load_state_dict(content["model"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.progress = TrainProgress.of_content(content)
        # Last, since whatever comes before may draw random numbers.
        torch.set_rng_state(content.get("random", torch.get_rng_state()))
