"""Epoch after epoch: what changes while a run is trained, and how it is kept."""

import math
import time
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from signal import Signals
from typing import Any

import numpy as np
import torch

from bayes_asr.config import Config, as_yaml
from bayes_asr.corpus.batches import batches_of, in_order
from bayes_asr.corpus.sets import LabelledSet
from bayes_asr.errors import InputError, StoppedError
from bayes_asr.features.transforms import Normalisation
from bayes_asr.log import LOGGER
from bayes_asr.nn.network import AcousticModel
from bayes_asr.processes import group
from bayes_asr.processes.signals import Notice
from bayes_asr.runs import checkpoint, record, state, tensorboard
from bayes_asr.train.batch import loader
from bayes_asr.train.guard import RETURN_FACTOR, DivergedError
from bayes_asr.train.loop import Totals, Update, run_epoch
from bayes_asr.train.schedule import next_rate


@dataclass
class Training:
    """A run while it is trained.

    rate: the schedule's, of the last complete epoch; returns: how often the run went back; totals:
    of the epoch that is not complete; dev_errors: of all complete epochs [E]; entry: what the
    history says of the last of them.
    """

    config: Config
    run: Path
    device: torch.device
    model: AcousticModel
    architecture: dict[str, Any]
    optimizer: torch.optim.Optimizer
    normalisation: Normalisation
    log_priors: np.ndarray
    front_end: dict[str, Any] | None
    inputs: dict[str, str]
    rate: float
    returns: int = 0
    totals: Totals = field(default_factory=Totals)
    dev_errors: np.ndarray = field(default_factory=lambda: np.empty(0))
    entry: dict[str, Any] | None = None
    notice: Notice = field(default_factory=Notice)
    saved: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> int:
        """How many epochs there are to train."""
        return max(0, self.config.train.epochs - len(self.dev_errors))

    def run_epochs(self, train_set: LabelledSet, dev_set: LabelledSet) -> None:
        """Train the epochs that are left; where one diverges, go back and train it more slowly.

        StoppedError, with everything saved, once a signal is noticed.
        """
        drawn = self.config.train.tensorboard and group.is_first()
        curves = tensorboard.Board(self.run, record.read_history(self.run)) if drawn else None
        while self.left:
            try:
                self._run_epoch(train_set, dev_set)
            except DivergedError as error:
                self._go_back(error)
            else:
                if curves and self.entry:
                    curves.add(self.entry)

    def _run_epoch(self, train_set: LabelledSet, dev_set: LabelledSet) -> None:
        """Train what is left of an epoch, validate, and save."""
        options, epoch = self.config.train, len(self.dev_errors) + 1
        scheduled = next_rate(options, self.rate, self.dev_errors)
        rate = scheduled * RETURN_FACTOR**self.returns
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = rate
        self.model.train_activations(epoch > options.freeze_activations)
        self._train(train_set, epoch)
        validated = self._validate(dev_set, epoch)
        if not math.isfinite(validated.loss):
            raise DivergedError(f"the dev loss is {validated.loss:g}")
        self.rate = scheduled
        self._complete(_entry(epoch, self.totals, validated, rate, self.returns))

    def _train(self, data: LabelledSet, epoch: int) -> None:
        options, seed = self.config.train, self.config.seed
        batches = batches_of(
            data.lengths,
            sequences=options.batch_sequences,
            frames=options.batch_frames,
            seed=seed,
            epoch=epoch,
        )
        position = state.Position(self.run, epoch, len(batches))

        def after_batch(totals: Totals) -> None:
            if len(totals.skipped) > options.max_bad_batches:
                raise DivergedError(
                    f"{totals.skipped[-1]['why']} in more batches than train.max_bad_batches ="
                    f" {options.max_bad_batches}"
                )
            self._stop_if_asked()
            if not group.is_first():
                return
            if time.monotonic() - self.saved >= 60 * options.save_minutes:
                self._save_unfinished()
            position(totals.position, totals.seconds)

        run_epoch(
            self.model,
            batches,
            loader(
                data,
                self.normalisation,
                seed=seed,
                epoch=epoch,
                noise=options.noise,
                tempo=options.tempo,
                keep=self.config.data.keep,
                device=self.device,
            ),
            update=Update(
                self.model,
                self.optimizer,
                monophone_weight=options.monophone_weight,
                max_gradient_norm=options.max_gradient_norm,
                bfloat16=options.precision == "bfloat16",
            ),
            title=f"epoch {epoch}",
            totals=self.totals,
            after_batch=after_batch,
        )
        if not self.totals.batches:
            raise DivergedError(f"{self.totals.skipped[-1]['why']} in the last of all batches")

    def _validate(self, data: LabelledSet, epoch: int) -> Totals:
        return run_epoch(
            self.model,
            in_order(
                data.lengths,
                sequences=32 * group.size(),
                frames=self.config.train.batch_frames * group.size(),
            ),
            loader(
                data,
                self.normalisation,
                seed=0,
                epoch=0,
                keep=self.config.data.keep,
                device=self.device,
            ),
            title=f"epoch {epoch} dev",
            after_batch=lambda _: self._stop_if_asked(),
        )

    def _complete(self, entry: dict[str, Any]) -> None:
        """Note an epoch, and save."""
        is_best = bool(entry["dev_error"] < self.dev_errors.min(initial=np.inf))
        self.dev_errors = np.append(self.dev_errors, entry["dev_error"])
        self.entry, self.totals = entry, Totals()
        LOGGER.info(
            "epoch %d of %d: train loss %.3f, error %.3f; dev loss %.3f, error %.4f;"
            " learning rate %.3g; %.0f frames/s",
            entry["epoch"],
            self.config.train.epochs,
            *(entry[key] for key in ("train_loss", "train_error", "dev_loss", "dev_error")),
            entry["learning_rate"],
            entry["frames_per_second"],
        )
        if group.is_first():
            self._save_complete(entry, is_best)

    def _save_complete(self, entry: dict[str, Any], is_best: bool) -> None:
        """Save a complete epoch.

        best.pt is written before last.pt: a run killed between them repeats the epoch and best.pt.
        The history comes last: last.pt has the line that it then lacks.
        """
        if is_best:
            checkpoint.save(self.run / "best.pt", self._network())
        self._save_epoch()
        record.add_to_history(self.run, entry)

    def _go_back(self, why: DivergedError) -> None:
        """Restore the last complete epoch, to go on from it at a smaller learning rate."""
        options, epoch = self.config.train, len(self.dev_errors) + 1
        if self.returns >= options.max_returns:
            skipped = sorted({utt for batch in self.totals.skipped for utt in batch["utterances"]})
            raise InputError(
                f"{self.run}: epoch {epoch} diverged: {why}; the run went back {self.returns} times"
                f" (train.max_returns), at last to {RETURN_FACTOR**self.returns:g} of"
                f" train.learning_rate = {options.learning_rate:g}; lower it and start over with"
                f" --new, or look at what was skipped: {', '.join(skipped) or 'nothing'}"
            )
        complete = (checkpoint.LAST, checkpoint.PREVIOUS)
        self.restore(group.from_first(lambda: checkpoint.newest(self.run, complete)))
        self.returns += 1
        if group.is_first():
            self._save_epoch()
            record.end_history(self.run, self.entry)
        LOGGER.warning(
            "epoch %d diverged: %s; back to its beginning, and on at %g times the learning rate",
            *(epoch, why, RETURN_FACTOR**self.returns),
        )

    def _stop_if_asked(self) -> None:
        number = group.largest(self.notice.number)
        if number:
            group.from_first(self._save_now)
            raise StoppedError(
                f"stopped by {Signals(number).name} in epoch {len(self.dev_errors) + 1};"
                " everything is saved, and the same command goes on from there",
                number,
            )

    def _save_unfinished(self) -> None:
        """Save inside an epoch; where that fails, say so and go on, as the last one is there."""
        try:
            self._save_now()
        except OSError as error:
            LOGGER.warning("%s: not saved: %s", self.run / checkpoint.UNFINISHED, error)
        self.saved = time.monotonic()

    def _save_now(self) -> None:
        checkpoint.save(self.run / checkpoint.UNFINISHED, self.content())

    def _save_epoch(self) -> None:
        """Write last.pt in place of unfinished.pt, and keep the one before."""
        last, previous = self.run / checkpoint.LAST, self.run / checkpoint.PREVIOUS
        checkpoint.save(last, self.content(), keep=previous)
        (self.run / checkpoint.UNFINISHED).unlink(missing_ok=True)
        self.saved = time.monotonic()

    def _network(self) -> dict[str, Any]:
        return {
            "architecture": self.architecture,
            "model": self.model.state_dict(),
            "mean": torch.from_numpy(self.normalisation.mean),
            "deviation": torch.from_numpy(self.normalisation.deviation),
            "log_priors": torch.from_numpy(self.log_priors),
            "frontend": self.front_end,
        }

    def content(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {
            **self._network(),
            "optimizer": self.optimizer.state_dict(),
            "rate": self.rate,
            "returns": self.returns,
            "totals": asdict(self.totals),
            "dev_errors": torch.from_numpy(self.dev_errors),
            "entry": self.entry,
            "random": torch.get_rng_state(),
            **self._origin,
        }

    @cached_property
    def _origin(self) -> dict[str, Any]:
        """What the run came from, rendered once: YAML and package metadata leave much garbage."""
        config, versions = as_yaml(self.config), record.versions(self.device)
        return {"config": config, "versions": versions, "inputs": self.inputs}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.rate, self.entry = saved["rate"], saved["entry"]
        self.dev_errors = saved["dev_errors"].numpy()
        self.returns = saved.get("returns", 0)
        self.totals = Totals(**saved.get("totals", {}))
        torch.set_rng_state(saved.get("random", torch.get_rng_state()))
        LOGGER.info(
            "resuming after epoch %d of %d%s",
            len(self.dev_errors),
            self.config.train.epochs,
            f" and {self.totals.position} batches" if self.totals.position else "",
        )


def _entry(
    epoch: int, trained: Totals, validated: Totals, rate: float, returns: int
) -> dict[str, Any]:
    """A line of the history: losses in nats, errors in [0, 1], means over frames."""
    train, dev = trained.metrics(), validated.metrics()
    return {
        "epoch": epoch,
        "train_loss": train["loss"],
        "train_error": train["error"],
        "dev_loss": dev["loss"],
        "dev_error": dev["error"],
        "learning_rate": rate,
        "gradient_norm": trained.gradient_norm / trained.batches,
        "frames_per_second": train["frames_per_second"],
        "seconds": trained.seconds + validated.seconds,
        "skipped": trained.skipped,
        "returns": returns,
    }
