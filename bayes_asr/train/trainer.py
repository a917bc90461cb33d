"""Trainer of a run: its state, its learning rate, its epochs, its return after divergence."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from signal import Signals
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bayes_asr.base.errors import InputError, StoppedError
from bayes_asr.base.installed import advise_new_run
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.base.processes.signals import ReceivedSignal
from bayes_asr.base.progress import format_seconds
from bayes_asr.config.catalogue import SCHEDULES, find
from bayes_asr.config.schema import Config
from bayes_asr.config.training_keys import TrainConfig
from bayes_asr.data.features.front_end import FrontEnd
from bayes_asr.kaldi_io.side_files import LAST
from bayes_asr.nn.criteria import Criterion
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.speakers import SpeakerActivations
from bayes_asr.tasks.task import task_of
from bayes_asr.train.metrics import DevTotals, Totals
from bayes_asr.train.optimizers import Optimizers
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.directory import RunDirectory
from bayes_asr.train.runs.history import Board, truncate_history
from bayes_asr.train.runs.trained_network import TrainedNetwork

RETURN_FACTOR = 0.5  # of the learning rate, each time a run goes back


class DivergedError(ArithmeticError):
    """An epoch cannot be completed with this learning rate."""


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
class Initialization:
    """Values that a run begins with from other runs.

    parts: the run of each layer and head that is taken; front_ends: of the streams whose
    normalisation is kept; hashes: SHA-256 of the networks, by file; log_priors: of the labels of
    the first head of each network, by the name that it has here.
    """

    parts: dict[str, str] = field(default_factory=dict)
    front_ends: dict[str, FrontEnd] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    log_priors: dict[str, Tensor] = field(default_factory=dict)


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
        """Content of best.pt: the network alone."""
        return self.network.content() | (self.speakers.content() if self.speakers else {})

    def restore(self, content: Mapping[str, Any]) -> None:
        """Go on from the content of a checkpoint."""
        if self.speakers:
            try:
                self.speakers.restore(dict(content))  # with the weights that they share
            except InputError as error:
                raise InputError(f"{error}, or {advise_new_run()}") from None
        else:
            self.network.model.load_state_dict(content["model"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.progress = TrainProgress.of_content(content)
        # Last, since whatever comes before may draw random numbers.
        torch.set_rng_state(content.get("random", torch.get_rng_state()))


@dataclass
class Trainer:
    """A run while it is trained.

    precision: of products, as the device computes them; state: what a checkpoint of it holds;
    notice: of a signal that asks for an end; board: curves for TensorBoard, if any.
    """

    config: Config
    run: RunDirectory
    device: torch.device
    precision: str
    criterion: Criterion
    state: TrainState
    notice: ReceivedSignal = field(default_factory=ReceivedSignal)
    board: Board | None = None

    @property
    def model(self) -> AcousticModel:
        """The network itself."""
        return self.state.network.model

    @property
    def progress(self) -> TrainProgress:
        """The epochs and batches that are over."""
        return self.state.progress

    @property
    def options(self) -> TrainConfig:
        """Options of the training."""
        return self.config.train

    @property
    def epoch(self) -> int:
        """Number of the epoch that is not complete, from 1."""
        return len(self.progress.dev_errors) + 1

    @property
    def epochs_left(self) -> int:
        """Number of epochs still to train."""
        return max(0, self.options.epochs - len(self.progress.dev_errors))

    def freeze_layers(self) -> None:
        """Train in this epoch what `train.layers` and `train.freeze_activations` leave."""
        options = self.options
        frozen = [name for name, layer in options.layers.items() if layer.is_frozen(self.epoch)]
        self.model.freeze(frozen, activations=self.epoch <= options.freeze_activations)
        if not any(parameter.requires_grad for parameter in self.model.parameters()):
            raise InputError(
                f"train.layers freezes all layers and heads in epoch {self.epoch}: nothing is left"
                " to train"
            )

    @property
    def scheduled_rate(self) -> float:
        """The learning rate of this epoch by the schedule alone, without returns and warm-up."""
        schedule = find(SCHEDULES[self.options.schedule].function)
        rate: float = schedule(self.options, self.progress.rate, self.progress.dev_errors)
        return rate

    def set_learning_rate(self, batches: int) -> float:
        """Set the learning rate of the next batch of the epoch, which has `batches`; returns it.

        It is that of the schedule, times 0.5 for each return, times the share of a warm-up.
        """
        progress = self.progress
        # A factor of returns in the schedule's own rate would count twice.
        rate = self.scheduled_rate * RETURN_FACTOR**progress.returns
        # A warm-up is measured at the end of the batch: the first one has a rate above 0.
        completed = min(progress.totals.position + 1, batches)
        epochs = self.epoch - 1 + completed / batches
        rate *= warm_up(self.options, epochs, progress.batches + completed)
        self.state.optimizer.set_rate(rate)
        return rate

    def complete_epoch(self, validated: DevTotals) -> None:
        """Record a complete epoch: its progress, its line of the history, a checkpoint."""
        progress, batches = self.progress, self.progress.totals.position
        # The history has the rate of the last batch, at the end of a warm-up in this epoch.
        rate = self.set_learning_rate(batches)
        entry = _history_entry(self.epoch, progress.totals, validated, rate, progress.returns)
        dev_error = entry[task_of(self.config).measure.on_dev]
        is_best = bool(dev_error < progress.dev_errors.min(initial=np.inf))
        self.state.progress = TrainProgress(
            self.scheduled_rate,
            progress.returns,
            dev_errors=np.append(progress.dev_errors, dev_error),
            entry=entry,
            batches=progress.batches + batches,
        )
        LOGGER.info(
            "epoch %d of %d: train %s; dev %s; learning rate %.3g; %.0f frames/s; took %s, %s",
            entry["epoch"],
            self.options.epochs,
            _describe(entry["train_loss"], entry["train_error"], 3),
            _describe(entry["dev_loss"], entry["dev_error"]),
            entry["learning_rate"],
            entry["frames_per_second"],
            format_seconds(entry["seconds"]),
            self._estimate_time_left(entry["seconds"]),
        )
        for name, part in entry.get("dev_sets", {}).items():
            LOGGER.info("%s: %s", name, _describe(part["loss"], part["error"]))
        if group.is_rank0():
            best = self.state.network_content() if is_best else None
            self.run.save_complete(self.state.content(), entry, best)
        if self.board:
            self.board.add(entry)

    def _estimate_time_left(self, epoch_seconds: float) -> str:
        """Time of the epochs still to train, each as long as the last one."""
        if not self.epochs_left:
            return "the last"
        return f"{format_seconds(self.epochs_left * epoch_seconds)} left"

    def return_to_last_epoch(self, error: DivergedError) -> None:
        """Restore the last complete epoch, to go on from it at half the learning rate."""
        options, epoch, returns = self.options, self.epoch, self.progress.returns
        if returns >= options.max_returns:
            batches = self.progress.totals.skipped
            skipped = sorted({utt for batch in batches for utt in batch["utterances"]})
            raise InputError(
                f"{self.run.path}: epoch {epoch} diverged: {error}; the run went back {returns}"
                f" times (train.max_returns), at last to {RETURN_FACTOR**returns:g} of"
                f" train.learning_rate = {options.learning_rate:g}; lower it and"
                f" {advise_new_run()}, or look at what was skipped:"
                f" {', '.join(skipped) or 'nothing'}"
            )
        # unfinished.pt is of the epoch that diverged.
        complete = (LAST, checkpoint.PREVIOUS)
        self.restore(group.broadcast(lambda: checkpoint.read_newest(self.run.path, complete)))
        self.progress.returns += 1
        if group.is_rank0():
            self.run.save_epoch(self.state.content())
            truncate_history(self.run.path, self.progress.entry)
        LOGGER.warning(
            "epoch %d diverged: %s; back to its beginning, and on at %g times the learning rate",
            epoch,
            error,
            RETURN_FACTOR**self.progress.returns,
        )

    def stop_if_asked(self) -> None:
        """StoppedError, once all is saved, where any process has noticed a signal."""
        # Signals reach processes at different times; all must stop after the same batch.
        number = group.largest(self.notice.number)
        if number:
            group.broadcast(lambda: self.run.save_unfinished(self.state.content()))
            raise StoppedError(
                f"stopped by {Signals(number).name} in epoch {self.epoch};"
                " everything is saved, and the same command goes on from there, without --new",
                number,
            )

    def save_periodically(self) -> None:
        """Save inside an epoch, every `train.save_minutes`."""
        self.run.save_periodically(self.state.content, self.options.save_minutes)

    def restore(self, content: Mapping[str, Any]) -> None:
        """Go on from the content of a checkpoint."""
        self.state.restore(content)
        batches = self.progress.totals.position
        LOGGER.info(
            "resuming after epoch %d of %d%s",
            self.epoch - 1,
            self.options.epochs,
            f" and {batches} batches" if batches else "",
        )


def warm_up(config: TrainConfig, epochs: float, batches: int) -> float:
    """Factor of the rate of any schedule at a batch: a straight line from 0 to 1.

    epochs: those that are over after that batch, with a fraction; batches: likewise, in all epochs.
    """
    if config.warmup_epochs:
        return min(1.0, epochs / config.warmup_epochs)
    return min(1.0, batches / config.warmup_batches) if config.warmup_batches else 1.0


def _describe(loss: float, error: float | None, places: int = 4) -> str:
    return f"loss {loss:.3f}" + ("" if error is None else f", error {error:.{places}f}")


def _history_entry(
    epoch: int, trained: Totals, validated: DevTotals, rate: float, returns: int
) -> dict[str, Any]:
    """Line of the history: losses in nats, errors in [0, 1] or None, means over labels."""
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


def _dev_set_entry(part: Totals) -> dict[str, Any]:
    """Entry of one of several validation sets in a line of the history."""
    metrics = part.metrics()
    return {"loss": metrics["loss"], "error": metrics["error"], "frames": part.frames}
