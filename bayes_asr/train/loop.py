"""Training loop: epochs, batches, steps, validation, checkpoints."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from bayes_asr.base.errors import needing_memory
from bayes_asr.base.installed import advise_new_run
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.base.progress import Progress
from bayes_asr.config.epochs import at_epoch, between_epochs
from bayes_asr.data.corpus.batches import batches_of, cut_pieces, in_order, read_ahead
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.features.augmentation import Masks
from bayes_asr.nn.criteria import Criterion
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.batch import Batch
from bayes_asr.train.components import plan_dropout
from bayes_asr.train.loader import Loader
from bayes_asr.train.metrics import DevTotals, Totals
from bayes_asr.train.runs import state
from bayes_asr.train.step import NotFiniteError, Step, compute_outputs
from bayes_asr.train.trainer import DivergedError, Trainer

CountErrors = Callable[[AcousticModel, Batch], int | None]
"""Function of a model and a batch; None where the errors are those that the criterion counts."""

DEV_SEQUENCES = 32  # utterances that a process validates at once


@dataclass(frozen=True)
class PassBatches:
    """Batches of a pass over a set: the utterances of each, and the function that loads them.

    title: of the pass, for messages; lengths: frames of each utterance, for that of a MemoryError.
    """

    title: str
    utterances: Sequence[list[str]]
    load: Callable[[list[str]], Batch]
    lengths: Mapping[str, int] = field(default_factory=dict)

    def explaining_memory(self, utterances: list[str]) -> AbstractContextManager[None]:
        """Let a MemoryError of the block name the batch of these utterances."""
        return needing_memory(lambda: _explain_memory(self.title, utterances, self.lengths))

    def load_explained(self, utterances: list[str]) -> Batch:
        """Load a batch; MemoryError, which names it, where it is too large."""
        with self.explaining_memory(utterances):
            return self.load(utterances)


def run_epochs(
    trainer: Trainer,
    train_set: LabelledSet,
    dev_set: LabelledSet,
    regenerate: Callable[[Trainer], LabelledSet] | None = None,
    count_errors: CountErrors = lambda *_: None,
) -> None:
    """Train the epochs that are left; where one diverges, go back and train it more slowly.

    regenerate: makes the training set of each epoch after the first; None: it stays `train_set`.
    count_errors: those of dev, see `run_batches`.
    StoppedError, with everything saved, once a signal is noticed.
    """
    while trainer.epochs_left:
        trainer.freeze_layers()
        data = regenerate(trainer) if regenerate and trainer.epoch > 1 else train_set
        try:
            train_epoch(trainer, data)
            validated = validate(trainer, dev_set, count_errors)
        except DivergedError as error:
            trainer.return_to_last_epoch(error)
        else:
            trainer.complete_epoch(validated)


def train_epoch(trainer: Trainer, data: LabelledSet) -> None:
    """Train the batches of an epoch that are left, from `trainer.progress.totals.position` on."""
    options, epoch, totals = trainer.options, trainer.epoch, trainer.progress.totals
    batches = _plan_epoch(trainer, data)
    _log_cuts(epoch, at_epoch(options.max_frames, epoch), data.lengths, batches.lengths)
    count = len(batches.utterances)
    trainer.set_learning_rate(count)
    step = Step(
        trainer.model,
        trainer.state.optimizer,
        max_gradient_norm=options.max_gradient_norm,
        bfloat16=trainer.precision == "bfloat16",
    )
    position = state.Position(trainer.run.path, epoch, count)

    def after_batch(totals: Totals) -> None:
        # The checks come in this order: a diverged epoch is not saved, and the rate is set last,
        # for the next batch.
        if len(totals.skipped) > options.max_bad_batches:
            raise DivergedError(
                f"{totals.skipped[-1]['why']} in more batches than train.max_bad_batches ="
                f" {options.max_bad_batches}"
            )
        trainer.stop_if_asked()
        if group.is_rank0():
            trainer.save_periodically()
            position(totals.position, totals.seconds)
        trainer.set_learning_rate(count)

    run_batches(
        trainer.model, trainer.criterion, batches, step=step, totals=totals, after_batch=after_batch
    )
    if not totals.batches:
        raise DivergedError(f"{totals.skipped[-1]['why']} in the last of all batches")


def sample_batches(trainer: Trainer, data: LabelledSet) -> list[Batch]:
    """Load a few batches of the epoch that is to be trained, up to the largest, with this process'
    utterances.
    """
    trainer.freeze_layers()
    batches = _plan_epoch(trainer, data)
    by_frames = sorted(
        batches.utterances, key=lambda utterances: sum(batches.lengths[utt] for utt in utterances)
    )
    places = {len(by_frames) // 4, len(by_frames) // 2, len(by_frames) - 1}
    return [batches.load(by_frames[place]) for place in sorted(places)]


def _plan_epoch(trainer: Trainer, data: LabelledSet) -> PassBatches:
    """The batches of the epoch; sets its dropout.

    Examples are utterances, or pieces of those above `train.max_frames`.
    """
    options, epoch = trainer.options, trainer.epoch
    trainer.model.set_dropout(plan_dropout(trainer.config.model, trainer.model, epoch))
    # Pieces and batches depend on (seed, epoch) alone: a resumed epoch has the same ones, and goes
    # on after `totals.position` of them.
    max_frames = at_epoch(options.max_frames, epoch)
    lengths = cut_pieces(data.lengths, max_frames) if max_frames else data.lengths
    batches = batches_of(
        lengths,
        sequences=at_epoch(options.batch_sequences, epoch),
        frames=options.batch_frames,
        seed=trainer.config.seed,
        epoch=epoch,
    )
    load = _make_training_loader(trainer, data, lengths)
    return PassBatches(f"epoch {epoch}", batches, load, lengths)


def _log_cuts(
    epoch: int, max_frames: int, utterances: Mapping[str, int], pieces: Mapping[str, int]
) -> None:
    """Log how many utterances are cut, unless `max_frames` is 0."""
    if not max_frames:
        return
    uncut = sum(name in utterances for name in pieces)
    LOGGER.info(
        "epoch %d: %d of %d utterances are longer than %d frames (train.max_frames), and are cut"
        " into %d pieces",
        epoch,
        len(utterances) - uncut,
        len(utterances),
        max_frames,
        len(pieces) - uncut,
    )


def validate(
    trainer: Trainer, data: LabelledSet, count_errors: CountErrors = lambda *_: None
) -> DevTotals:
    """Loss and errors of a set, and of each of its parts; DivergedError where one is not finite."""
    parts = data.parts or {"dev": data.lengths}
    validated = DevTotals.of(
        {
            name: _validate_part(trainer, data, name, lengths, count_errors)
            for name, lengths in parts.items()
        }
    )
    # A total of the sums suffices: one loss that is not finite makes it so.
    if not math.isfinite(validated.total.loss):
        raise DivergedError(f"the dev loss is {validated.total.loss:g}")
    return validated


def _validate_part(
    trainer: Trainer,
    data: LabelledSet,
    name: str,
    lengths: Mapping[str, int],
    count_errors: CountErrors,
) -> Totals:
    """Loss and errors of some utterances of a set."""
    # Batches are split between the processes, so each computes DEV_SEQUENCES at once.
    processes = group.size()
    utterances = in_order(
        lengths,
        sequences=DEV_SEQUENCES * processes,
        frames=trainer.options.batch_frames * processes,
    )
    load = _make_loader(trainer, data, seed=0, epoch=0)
    return run_batches(
        trainer.model,
        trainer.criterion,
        PassBatches(f"epoch {trainer.epoch} {name}", utterances, load, lengths),
        after_batch=lambda _: trainer.stop_if_asked(),
        count_errors=count_errors,
    )


def _make_training_loader(
    trainer: Trainer, data: LabelledSet, lengths: Mapping[str, int]
) -> Loader:
    """Loader of the batches of the epoch that is trained, perturbed by its options."""
    options, epoch, masks = trainer.options, trainer.epoch, trainer.options.spec_augment
    return _make_loader(
        trainer,
        data,
        seed=trainer.config.seed,
        epoch=epoch,
        lengths=lengths,
        noise=options.noise,
        tempo=options.tempo,
        teacher_forcing=between_epochs(options.teacher_forcing, epoch),
        masks=Masks(**vars(masks)) if masks.time_masks or masks.frequency_masks else None,
        shifts=trainer.model.output_stride,
        speakers=trainer.state.speakers.numbers if trainer.state.speakers else {},
    )


def _make_loader(trainer: Trainer, data: LabelledSet, **options: Any) -> Loader:
    """Loader of the batches of a set; options: seed, epoch and perturbation."""
    # A criterion may read values of utterances, such as lattices, which no head has as targets.
    values = [name for name, target in data.targets.items() if target.per == "value"]
    return Loader(
        data,
        trainer.state.network.front_ends,
        [*dict.fromkeys([*trainer.model.outputs, *values])],
        keep=trainer.config.data.keep,
        device=trainer.device,
        **options,
    )


def run_batches(
    model: AcousticModel,
    criterion: Criterion,
    batches: PassBatches,
    *,
    step: Step | None = None,
    totals: Totals | None = None,
    after_batch: Callable[[Totals], object] = lambda _: None,
    count_errors: CountErrors = lambda *_: None,
) -> Totals:
    """Run the model over all batches, training it if there is a `step`.

    A batch whose loss or gradient is not finite is skipped, named and counted. totals: sums of the
    batches before, from which the pass goes on. after_batch: called with the totals so far.
    count_errors: of a batch, where they are not those of the criterion.
    A progress bar on the screen shows loss, error and frames per second; in a log lines do.
    """
    model.train(step is not None)
    totals = totals or Totals()
    start = time.perf_counter() - totals.seconds  # as if the batches before had just been computed
    remaining = batches.utterances[totals.position :]
    with (
        nullcontext() if step else torch.no_grad(),
        Progress(
            batches.title,
            "batches",
            len(batches.utterances),
            initial=totals.position,
            shown=group.is_rank0(),
        ) as progress,
    ):
        loaded = read_ahead(remaining, batches.load_explained)
        for utterances, batch in zip(remaining, loaded, strict=True):
            # Each process has a share of the utterances. The loss is divided by the labels of all.
            frames, labels = group.total(batch.frames.count, batch.num_labels)
            try:
                explaining = batches.explaining_memory(utterances)
                with explaining, step.restoring_statistics() if step else nullcontext():
                    loss, errors, norm = _compute_loss(model, criterion, batch, labels, step)
                    if (counted := count_errors(model, batch)) is not None:
                        errors = counted
            except NotFiniteError as error:
                totals.skip(utterances, str(error), batches.title)
            else:
                loss, wrong = group.total(loss, errors or 0)
                totals.add(frames, labels, loss, None if errors is None else wrong, norm)
            totals.seconds = time.perf_counter() - start
            _show_metrics(progress, totals)
            after_batch(totals)
    return totals


def _explain_memory(title: str, utterances: list[str], lengths: Mapping[str, int]) -> str:
    """Message about a batch that lacks memory, and what to do."""
    frames = {utt: int(lengths[utt]) for utt in utterances if utt in lengths}
    longest = max(frames, key=frames.__getitem__, default="")
    extent = (
        f" of {sum(frames.values())} frames, {longest} with {frames[longest]}," if frames else ""
    )
    return (
        f"for a batch in {title}: {len(utterances)} utterances{extent} are too many;"
        " give the same command where more memory is free, which goes on from the last checkpoint,"
        f" or lower train.batch_frames or train.batch_sequences and {advise_new_run()}"
    )


def _compute_loss(
    model: AcousticModel, criterion: Criterion, batch: Batch, labels: float, step: Step | None
) -> tuple[float, int | None, float]:
    """Return this process' part of the loss and its errors, if any count, and the gradient norm.

    Only numbers are returned. No tensor lives on to fragment the memory of the next batch.
    """
    bfloat16 = step is not None and step.bfloat16
    outputs = compute_outputs(model, batch, training=step is not None, bfloat16=bfloat16)
    cost = criterion(outputs, batch.targets, labels)
    norm = step(cost.objective) if step else 0.0
    return cost.loss.item(), None if cost.errors is None else int(cost.errors), norm


def _show_metrics(progress: Progress, totals: Totals) -> None:
    if not totals.frames:
        progress.advance()
        return
    metrics = totals.metrics()
    error = metrics["error"]
    progress.advance(
        loss=f"{metrics['loss']:.3f}",
        **({} if error is None else {"error": f"{error:.3f}"}),
        frames_per_s=f"{metrics['frames_per_second']:.0f}",
    )
