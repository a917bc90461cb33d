"""The training loop: epochs, batches, steps, validation, checkpoints."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from bayes_asr.base.errors import needing_memory
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.base.progress import Progress
from bayes_asr.config import at_epoch
from bayes_asr.config.epochs import between_epochs
from bayes_asr.data.corpus.batches import batches_of, in_order, read_ahead
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.pieces import cut
from bayes_asr.data.features.spec_augment import Masks
from bayes_asr.nn.criteria import Criterion
from bayes_asr.nn.encoder_decoder import EncoderDecoder
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.speakers import set_speakers
from bayes_asr.train.batch import Batch, Loader
from bayes_asr.train.components import plan_dropout
from bayes_asr.train.metrics import Totals, Validated
from bayes_asr.train.runs import state
from bayes_asr.train.step import NotFiniteError, Step
from bayes_asr.train.training import DivergedError, Training
from bayes_asr.train.writing import count_errors_of_writing

DEV_SEQUENCES = 32  # utterances that a process validates at once


def run_epochs(
    training: Training,
    train_set: LabelledSet,
    dev_set: LabelledSet,
    renew: Callable[[Training], LabelledSet] | None = None,
) -> None:
    """Train the epochs that are left; where one diverges, go back and train it more slowly.

    renew: the training set of an epoch that is not the first, where it is another one in each.
    StoppedError, with everything saved, once a signal is noticed.
    """
    while training.left:
        scheduled = training.begin_epoch()
        data = renew(training) if renew and training.epoch > 1 else train_set
        try:
            train_epoch(training, data)
            validated = validate(training, dev_set)
        except DivergedError as error:
            training.go_back(error)
        else:
            training.complete_epoch(validated, scheduled)


def train_epoch(training: Training, data: LabelledSet) -> None:
    """Train what is left of an epoch; `training.progress` says what that is."""
    options, epoch, totals = training.options, training.epoch, training.progress.totals
    training.model.set_dropout(plan_dropout(training.config.model, training.model, epoch))
    masks = options.spec_augment
    lengths = _cut_long(data.lengths, at_epoch(options.max_frames, epoch), epoch)
    batches = batches_of(
        lengths,
        sequences=at_epoch(options.batch_sequences, epoch),
        frames=options.batch_frames,
        seed=training.config.seed,
        epoch=epoch,
    )
    training.set_rate(totals.position, len(batches))
    load = _make_loader(
        training,
        data,
        seed=training.config.seed,
        epoch=epoch,
        lengths=lengths,
        noise=options.noise,
        tempo=options.tempo,
        teacher_forcing=between_epochs(options.teacher_forcing, epoch),
        masks=Masks(**vars(masks)) if masks.time_masks or masks.frequency_masks else None,
        shifts=options.output_stride,
        speakers=training.speakers.numbers if training.speakers else {},
    )
    step = Step(
        training.model,
        training.optimizer,
        max_gradient_norm=options.max_gradient_norm,
        bfloat16=training.precision == "bfloat16",
    )
    position = state.Position(training.run, epoch, len(batches))

    def after_batch(totals: Totals) -> None:
        if len(totals.skipped) > options.max_bad_batches:
            raise DivergedError(
                f"{totals.skipped[-1]['why']} in more batches than train.max_bad_batches ="
                f" {options.max_bad_batches}"
            )
        training.stop_if_asked()
        if group.is_first():
            training.save_now_and_then()
            position(totals.position, totals.seconds)
        training.set_rate(totals.position, len(batches))

    run_batches(
        training.model,
        training.criterion,
        batches,
        load,
        title=f"epoch {epoch}",
        lengths=lengths,
        step=step,
        totals=totals,
        after_batch=after_batch,
    )
    if not totals.batches:
        raise DivergedError(f"{totals.skipped[-1]['why']} in the last of all batches")


def _cut_long(lengths: Mapping[str, int], most: int, epoch: int) -> Mapping[str, int]:
    """The frames of what an epoch is trained on: utterances, or pieces of those that are long."""
    if not most:
        return lengths
    pieces = cut(lengths, most)
    whole = sum(name in lengths for name in pieces)
    LOGGER.info(
        "epoch %d: %d of %d utterances are longer than %d frames (train.max_frames), and are cut"
        " into %d pieces",
        *(epoch, len(lengths) - whole, len(lengths), most, len(pieces) - whole),
    )
    return pieces


def validate(training: Training, data: LabelledSet) -> Validated:
    """Loss and errors of a set, and of each that it is of; DivergedError where a loss is not
    finite.
    """
    parts = data.parts or {"dev": data.lengths}
    validated = Validated.of(
        {name: _validate_part(training, data, name, lengths) for name, lengths in parts.items()}
    )
    if not math.isfinite(validated.total.loss):
        raise DivergedError(f"the dev loss is {validated.total.loss:g}")
    return validated


def _validate_part(
    training: Training, data: LabelledSet, name: str, lengths: Mapping[str, int]
) -> Totals:
    """Loss and errors of some utterances of a set."""
    processes = group.size()
    return run_batches(
        training.model,
        training.criterion,
        in_order(
            lengths,
            sequences=DEV_SEQUENCES * processes,
            frames=training.options.batch_frames * processes,
        ),
        _make_loader(training, data, seed=0, epoch=0),
        title=f"epoch {training.epoch} {name}",
        lengths=lengths,
        after_batch=lambda _: training.stop_if_asked(),
    )


def _make_loader(training: Training, data: LabelledSet, **how: Any) -> Loader:
    """What reads the batches of a set; how: seed, epoch and perturbation."""
    values = [name for name, target in data.targets.items() if target.per == "value"]
    return Loader(
        data,
        training.network.front_ends,
        [*dict.fromkeys([*training.model.outputs, *values])],
        keep=training.config.data.keep,
        device=training.device,
        **how,
    )


def run_batches(
    model: AcousticModel,
    criterion: Criterion,
    batches: Sequence[list[str]],
    load: Callable[[list[str]], Batch],
    *,
    title: str,
    lengths: Mapping[str, int] | None = None,
    step: Step | None = None,
    totals: Totals | None = None,
    after_batch: Callable[[Totals], None] | None = None,
) -> Totals:
    """Run the model over all batches, training it if there is a `step`.

    A batch that it cannot be trained on, as loss or gradient is not finite, is skipped, named and
    counted. lengths: frames of each utterance, for what a MemoryError says. totals: of the batches
    that are over already, from which the pass goes on. after_batch: called with the totals so far.
    A progress bar on the screen shows loss, frame error and frames per second; in a log lines do.
    """

    def naming(utterances: list[str]) -> AbstractContextManager[None]:
        return needing_memory(lambda: _describe(title, utterances, lengths or {}))

    def load_named(utterances: list[str]) -> Batch:
        with naming(utterances):
            return load(utterances)

    model.train(step is not None)
    totals = totals or Totals()
    start = time.perf_counter() - totals.seconds
    left = batches[totals.position :]
    with (
        nullcontext() if step else torch.no_grad(),
        Progress(
            title, "batches", len(batches), initial=totals.position, shown=group.is_first()
        ) as progress,
    ):
        for utterances, batch in zip(left, read_ahead(left, load_named), strict=True):
            frames, labels = group.total(batch.frames.count, batch.labels)
            try:
                with naming(utterances), step.undone_if_not_finite() if step else nullcontext():
                    loss, errors, norm = _compute(model, criterion, batch, labels, step)
            except NotFiniteError as error:
                totals.skip(utterances, str(error), title)
            else:
                loss, wrong = group.total(loss, errors)
                totals.add(frames, labels, loss, wrong, norm)
            totals.seconds = time.perf_counter() - start
            _show(progress, totals)
            if after_batch:
                after_batch(totals)
    return totals


def _describe(title: str, utterances: list[str], lengths: Mapping[str, int]) -> str:
    """A batch that lacks memory, and what to do."""
    frames = {utt: int(lengths[utt]) for utt in utterances if utt in lengths}
    longest = max(frames, key=frames.__getitem__, default="")
    of = f" of {sum(frames.values())} frames, {longest} with {frames[longest]}," if frames else ""
    return (
        f"for a batch in {title}: {len(utterances)} utterances{of} are too many;"
        " give the same command where more memory is free, which goes on from the last checkpoint,"
        " or lower train.batch_frames or train.batch_sequences and start over with --new"
    )


def _compute(
    model: AcousticModel, criterion: Criterion, batch: Batch, labels: float, step: Step | None
) -> tuple[float, int, float]:
    """Return this process' part of the loss and its errors, and the gradient norm; no tensor that
    it computes outlives it, between which the next batch would have to find its place.
    """
    cost = criterion(_outputs(model, batch, step), batch.targets, labels)
    norm = step(cost.objective) if step else 0.0
    if not step and isinstance(model, EncoderDecoder) and batch.told:
        wrong = count_errors_of_writing(model, batch.streams, batch.frames, batch.told)
        return cost.loss.item(), wrong, norm
    return cost.loss.item(), int(cost.errors), norm


def _outputs(model: AcousticModel, batch: Batch, step: Step | None) -> dict[str, Tensor]:
    """Logits of the heads; only training has dropout, and products in bfloat16."""
    told = () if batch.told is None else (batch.told,)
    set_speakers(model, batch.speakers_B, batch.frames)
    if not step:
        return model(batch.streams, batch.frames, None, *told)
    with torch.autocast(batch.device.type, torch.bfloat16, enabled=step.bfloat16):
        return model(batch.streams, batch.frames, batch.keys_B, *told)


def _show(progress: Progress, totals: Totals) -> None:
    if not totals.frames:
        progress.advance()
        return
    shown = totals.metrics()
    progress.advance(
        loss=f"{shown['loss']:.3f}",
        error=f"{shown['error']:.3f}",
        frames_per_s=f"{shown['frames_per_second']:.0f}",
    )
