"""Trainer of a run: its learning rate, its checkpoints, its return after a diverged epoch."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from signal import Signals
from typing import Any

import numpy as np
import torch

from bayes_asr.base.errors import InputError, StoppedError
from bayes_asr.base.lock import Lock
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.base.processes.signals import ReceivedSignal
from bayes_asr.base.progress import format_seconds
from bayes_asr.config.catalogue import SCHEDULES, find
from bayes_asr.config.schema import Config, as_yaml
from bayes_asr.config.training_keys import TrainConfig
from bayes_asr.nn.criteria import Criterion
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.speakers import SpeakerActivations
from bayes_asr.tasks.task import task_of
from bayes_asr.train.metrics import DevTotals, Totals
from bayes_asr.train.optimizers import Optimizers
from bayes_asr.train.runs import checkpoint, record
from bayes_asr.train.runs.tensorboard import Board
from bayes_asr.train.runs.trained_network import TrainedNetwork
from bayes_asr.train.schedules import warm_up

RETURN_FACTOR = 0.5  # of the learning rate, each time a run goes back


class DivergedError(ArithmeticError):
    """An epoch cannot be completed with this learning rate."""


@dataclass
class TrainerState:
    """Progress of a run, as plain values. The names of its fields are keys of checkpoints.

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
    def of_content(cls, content: Mapping[str, Any]) -> "TrainerState":
        """State whose `content` this is; runs begun early in 0.1 lack some of it."""
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
class Trainer:
    """A run while it is trained.

    precision: of products, as the device computes them; inputs: hashes of the data that it was
    started on; lock: of the folder, in the first process; begun_from: hashes of the networks of
    other runs that it began with, by file; speakers: the activations that training speakers have of
    their own, in speaker-adaptive training; notice: of a signal that asks for an end; board: curves
    for TensorBoard, if any; last_saved: time of the monotonic clock, in seconds; rate: of the epoch
    that is not complete, once a warm-up is over.
    """

    config: Config
    run: Path
    device: torch.device
    precision: str
    network: TrainedNetwork
    criterion: Criterion
    optimizer: Optimizers
    inputs: dict[str, str]
    state: TrainerState
    begun_from: dict[str, str] = field(default_factory=dict)
    speakers: SpeakerActivations | None = None
    notice: ReceivedSignal = field(default_factory=ReceivedSignal)
    lock: Lock | None = None
    board: Board | None = None
    last_saved: float = field(default_factory=time.monotonic)
    rate: float = 0.0

    @property
    def model(self) -> AcousticModel:
        """The network itself."""
        return self.network.model

    @property
    def options(self) -> TrainConfig:
        """Options of the training."""
        return self.config.train

    @property
    def epoch(self) -> int:
        """Number of the epoch that is not complete, from 1."""
        return len(self.state.dev_errors) + 1

    @property
    def epochs_left(self) -> int:
        """Number of epochs still to train."""
        return max(0, self.options.epochs - len(self.state.dev_errors))

    def begin_epoch(self) -> float:
        """Set the learning rate and freeze layers; returns the rate of the schedule alone."""
        state, options = self.state, self.options
        schedule = find(SCHEDULES[options.schedule].function)
        scheduled: float = schedule(options, state.rate, state.dev_errors)
        # The schedule goes on from its own rate. A factor of returns in it would count twice.
        self.rate = scheduled * RETURN_FACTOR**state.returns
        frozen = [name for name, layer in options.layers.items() if layer.is_frozen(self.epoch)]
        self.model.freeze(frozen, activations=self.epoch <= options.freeze_activations)
        if not any(parameter.requires_grad for parameter in self.model.parameters()):
            raise InputError(
                f"train.layers freezes all layers and heads in epoch {self.epoch}: nothing is left"
                " to train"
            )
        return scheduled

    def set_rate(self, position: int, batches: int) -> float:
        """Set the learning rate of the batch after `position` of the epoch's; returns it."""
        # A warm-up is measured at the end of the batch: the first one has a rate above 0.
        completed = min(position + 1, batches)
        epochs = self.epoch - 1 + completed / batches
        rate = self.rate * warm_up(self.options, epochs, self.state.batches + completed)
        self.optimizer.set_rate(rate)
        return rate

    def complete_epoch(self, validated: DevTotals, scheduled: float) -> None:
        """Note an epoch, and save."""
        state = self.state
        # The history has the rate of the last batch, at the end of a warm-up in this epoch.
        batches = state.totals.position
        rate = self.set_rate(batches, batches)
        entry = _history_entry(self.epoch, state.totals, validated, rate, state.returns)
        dev_error = entry[task_of(self.config).measure.on_dev]
        is_best = bool(dev_error < state.dev_errors.min(initial=np.inf))
        dev_errors = np.append(state.dev_errors, dev_error)
        self.state = TrainerState(
            scheduled, state.returns, Totals(), dev_errors, entry, state.batches + batches
        )
        LOGGER.info(
            "epoch %d of %d: train loss %.3f, error %.3f; dev loss %.3f, error %.4f;"
            " learning rate %.3g; %.0f frames/s; took %s, %s",
            entry["epoch"],
            self.options.epochs,
            entry["train_loss"],
            entry["train_error"],
            entry["dev_loss"],
            entry["dev_error"],
            entry["learning_rate"],
            entry["frames_per_second"],
            format_seconds(entry["seconds"]),
            self._estimate_time_left(entry["seconds"]),
        )
        for name, part in entry.get("dev_sets", {}).items():
            LOGGER.info("%s: loss %.3f, error %.4f", name, part["loss"], part["error"])
        if group.is_rank0():
            self._save_complete(entry, is_best)
        if self.board:
            self.board.add(entry)

    def _estimate_time_left(self, epoch_seconds: float) -> str:
        """Time of the epochs still to train, each as long as the last one."""
        if not self.epochs_left:
            return "the last"
        return f"{format_seconds(self.epochs_left * epoch_seconds)} left"

    def _save_complete(self, entry: dict[str, Any], is_best: bool) -> None:
        """Save a complete epoch.

        best.pt is written before last.pt: a run killed between them repeats the epoch and best.pt.
        The history comes last: last.pt has the line that it then lacks.
        """
        self._check_lock()
        if is_best:
            checkpoint.save(self.run / checkpoint.BEST, self._network_content())
        self._save_epoch()
        record.append_to_history(self.run, entry)

    def return_to_last_epoch(self, why: DivergedError) -> None:
        """Restore the last complete epoch, to go on from it at a smaller learning rate."""
        options, epoch, returns = self.options, self.epoch, self.state.returns
        if returns >= options.max_returns:
            batches = self.state.totals.skipped
            skipped = sorted({utt for batch in batches for utt in batch["utterances"]})
            raise InputError(
                f"{self.run}: epoch {epoch} diverged: {why}; the run went back {returns} times"
                f" (train.max_returns), at last to {RETURN_FACTOR**returns:g} of"
                f" train.learning_rate = {options.learning_rate:g}; lower it and start over with"
                f" --new, or look at what was skipped: {', '.join(skipped) or 'nothing'}"
            )
        # unfinished.pt is of the epoch that diverged.
        complete = (checkpoint.LAST, checkpoint.PREVIOUS)
        self.restore(group.broadcast(lambda: checkpoint.read_newest(self.run, complete)))
        self.state.returns += 1
        if group.is_rank0():
            self._save_epoch()
            record.truncate_history(self.run, self.state.entry)
        LOGGER.warning(
            "epoch %d diverged: %s; back to its beginning, and on at %g times the learning rate",
            epoch,
            why,
            RETURN_FACTOR**self.state.returns,
        )

    def stop_if_asked(self) -> None:
        """StoppedError, once all is saved, where any process has noticed a signal."""
        # Signals reach processes at different times; all must stop after the same batch.
        number = group.largest(self.notice.number)
        if number:
            group.broadcast(self._save_unfinished)
            raise StoppedError(
                f"stopped by {Signals(number).name} in epoch {self.epoch};"
                " everything is saved, and the same command goes on from there",
                number,
            )

    def save_periodically(self) -> None:
        """Save inside an epoch, every `train.save_minutes`; where that fails, say so and go on."""
        self._check_lock()
        if time.monotonic() - self.last_saved < 60 * self.options.save_minutes:
            return
        try:
            self._save_unfinished()
        except OSError as error:  # the checkpoint before is still there
            LOGGER.warning("%s: not saved: %s", self.run / checkpoint.UNFINISHED, error)
        self.last_saved = time.monotonic()

    def _check_lock(self) -> None:
        """LostLockError where another training may have begun in the folder."""
        if self.lock:
            self.lock.check()

    def _save_unfinished(self) -> None:
        self._check_lock()
        checkpoint.save(self.run / checkpoint.UNFINISHED, self.content())

    def _save_epoch(self) -> None:
        """Write last.pt in place of unfinished.pt, and keep the one before."""
        self._check_lock()
        path, previous = self.run / checkpoint.LAST, self.run / checkpoint.PREVIOUS
        # unfinished.pt is removed last: at every moment one complete checkpoint is there.
        checkpoint.save(path, self.content(), keep=previous)
        (self.run / checkpoint.UNFINISHED).unlink(missing_ok=True)
        self.last_saved = time.monotonic()

    def content(self) -> dict[str, Any]:
        """Content of a checkpoint, as tensors and plain values."""
        return {
            **self._network_content(),
            **self.state.content(),
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
            **self._origin,
        }

    def _network_content(self) -> dict[str, Any]:
        return self.network.content() | (self.speakers.content() if self.speakers else {})

    @cached_property
    def _origin(self) -> dict[str, Any]:
        """Origin of the run, rendered once: YAML and package metadata leave much garbage."""
        config, versions = as_yaml(self.config), record.versions(self.device, self.precision)
        return {
            "config": config,
            "versions": versions,
            "inputs": self.inputs,
            "begun_from": self.begun_from,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from the content of a checkpoint."""
        if self.speakers:
            self.speakers.restore(saved)  # with the weights that they share
        else:
            self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.state = TrainerState.of_content(saved)
        # Last, since whatever comes before may draw random numbers.
        torch.set_rng_state(saved.get("random", torch.get_rng_state()))
        batches = self.state.totals.position
        LOGGER.info(
            "resuming after epoch %d of %d%s",
            self.epoch - 1,
            self.options.epochs,
            f" and {batches} batches" if batches else "",
        )


def _history_entry(
    epoch: int, trained: Totals, validated: DevTotals, rate: float, returns: int
) -> dict[str, Any]:
    """Line of the history: losses in nats, errors in [0, 1], means over frames."""
    train, dev = trained.metrics(), validated.total.metrics()
    parts = {name: _dev_set_entry(part) for name, part in validated.parts.items()}
    return {
        "epoch": epoch,
        "train_loss": train["loss"],
        "train_error": train["error"],
        "dev_loss": dev["loss"],
        "dev_error": dev["error"],
        "learning_rate": rate,
        "gradient_norm": trained.gradient_norm / trained.batches,
        "frames_per_second": train["frames_per_second"],
        "seconds": trained.seconds + validated.total.seconds,
        "skipped": trained.skipped,
        "returns": returns,
        **({"dev_sets": parts} if parts else {}),
    }


def _dev_set_entry(part: Totals) -> dict[str, float]:
    """Entry of one of several validation sets in a line of the history."""
    metrics = part.metrics()
    return {"loss": metrics["loss"], "error": metrics["error"], "frames": part.frames}
