"""Training: from a configuration to a run directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bayes_asr.config import Config
from bayes_asr.corpus import fingerprints
from bayes_asr.corpus.index import Index
from bayes_asr.corpus.sets import LabelledSet, opened
from bayes_asr.corpus.survey import Survey, surveyed
from bayes_asr.errors import InputError
from bayes_asr.features.transforms import Normalisation
from bayes_asr.lock import in_use
from bayes_asr.log import LOGGER
from bayes_asr.nn.network import AcousticModel
from bayes_asr.processes import group
from bayes_asr.processes.signals import note_signals
from bayes_asr.runs import checkpoint, record, state, tensorboard
from bayes_asr.tables.binary import OpenPipe
from bayes_asr.targets.alignments import log_priors
from bayes_asr.train import plan
from bayes_asr.train.epochs import Training


def train(
    config: Config, run: Path, *, new: bool = False, open_pipe: OpenPipe | None = None
) -> None:
    """Train into `run`, or go on with the run that is there.

    Writes config.yaml, env.json, history.jsonl, last.pt after every epoch and best.pt at the lowest
    dev frame error. `new` discards what is there, once the data are found to be usable. InputError
    where the run there has another configuration or other data, or is being trained by another
    process. StoppedError after SIGTERM, SIGINT or SIGHUP: all is saved, and the same call goes on.
    """
    with _occupied(run):
        _train(config, run, new, open_pipe)


@contextmanager
def _occupied(run: Path) -> Iterator[None]:
    """Keep other trainings out of `run`, and say there what becomes of this one."""
    if not group.is_first():
        yield
        return
    with in_use(run / record.LOCK), state.recorded(run):
        yield


def _train(config: Config, run: Path, new: bool, open_pipe: OpenPipe | None) -> None:
    # What is recorded must not depend on the working directory.
    located = str(Path(config.data.dir).absolute())
    config = replace(config, data=replace(config.data, dir=located))
    device = plan.device(config.train.device)
    versions = record.versions(device)
    LOGGER.info("training %s: %s", run, ", ".join(f"{k} {v}" for k, v in versions.items()))
    if config.train.tensorboard:
        tensorboard.check_available()
    if not new:
        group.from_first(lambda: record.check_same_configuration(config, run))
    index = Index(Path(config.data.dir) / config.data.index, run / "index")
    train_set, dev_set = group.after_first(lambda: opened(config, open_pipe, index))
    training = _started(config, run, train_set, dev_set, index, device, new=new)
    if training.left:  # else env.json says what the run came from
        if group.is_first():
            record.write_environment(run, training.model, device, training.front_end)
        with note_signals() as training.notice:
            training.run_epochs(train_set, dev_set)
    best = int(training.dev_errors.argmin())
    error = training.dev_errors[best]
    LOGGER.info("trained: best dev frame error %.4f in epoch %d", error, best + 1)


def _started(
    config: Config,
    run: Path,
    data: LabelledSet,
    dev: LabelledSet,
    index: Index,
    device: torch.device,
    *,
    new: bool,
) -> Training:
    """Build everything, and go on from the newest checkpoint unless `new`."""
    saved = group.from_first(lambda: {} if new else checkpoint.newest(run))
    outputs = [data.alignments.model.num_pdfs]
    if config.train.monophone_weight:
        outputs.append(data.alignments.num_monophones)
    architecture = plan.architecture(config.model, data[min(data.lengths)].shape[1], outputs)
    if saved:
        _check_sizes(saved["architecture"], architecture, run)
    noted, survey = group.from_first(lambda: _looked_at(saved, data, dev, index))
    torch.manual_seed(config.seed)
    model = AcousticModel(**architecture).to(device)
    group.pool_statistics(model)
    training = Training(
        config,
        run,
        device,
        model,
        architecture,
        plan.optimizer(config.train, model),
        survey.normalisation,
        log_priors(survey.pdf_counts),
        record.front_end(data.features),
        noted,
        config.train.learning_rate,
    )
    plan.describe(config.model, model)
    if saved:
        training.normalisation = Normalisation(saved["mean"].numpy(), saved["deviation"].numpy())
        record.compare_versions(saved.get("versions", {}), device)
        training.restore(saved)
    if group.is_first():
        _write(training, resumed=bool(saved), new=new)
    return training


def _write(training: Training, *, resumed: bool, new: bool) -> None:
    """Write what a run begins with."""
    run = training.run
    if resumed:
        training.config.save(run / record.CONFIG)
        record.end_history(run, training.entry)  # it may have been killed before that
    else:
        # To go back to; and where there is no room for it, nothing is discarded.
        checkpoint.save(run / checkpoint.FIRST, training.content())
        if new:
            record.discard(run)
        training.config.save(run / record.CONFIG)
        (run / checkpoint.FIRST).replace(run / checkpoint.LAST)
    record.remove_leftovers(run)


def _check_sizes(old: dict[str, Any], now: dict[str, Any], run: Path) -> None:
    for key in ("inputs", "outputs"):
        if old[key] != now[key]:
            raise InputError(
                f"{run / checkpoint.LAST}: made for other data: its network has {key} {old[key]},"
                f" but these data need {now[key]}; start over with --new"
            )


def _looked_at(
    saved: dict[str, Any], data: LabelledSet, dev: LabelledSet, index: Index
) -> tuple[dict[str, str], Survey]:
    """Note what the sets are, which must be what a saved run was started on, and survey them."""
    sets = {"dev": dev, "train": data}
    quick = {name: fingerprints.fingerprints(labelled) for name, labelled in sets.items()}
    noted = {**quick["dev"], **quick["train"]}
    before = saved.get("inputs", noted)
    fingerprints.check_same(before, {**before, **noted})  # what is seen at once comes first
    found = {}
    for name, labelled in sets.items():
        found[name] = surveyed(name, labelled, quick[name], index, new=not saved)
        noted[f"{labelled.features.directory} (frames of {name})"] = found[name].digest
    if saved:
        fingerprints.check_same(before, noted)
    return noted, found["train"]
