"""Training: from a configuration to a run directory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import settle
from bayes_asr.base.lock import Lock, alone_in
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.base.processes.signals import note_signals
from bayes_asr.config import Config
from bayes_asr.config.catalogue import CRITERIA
from bayes_asr.config.measure import measure_of
from bayes_asr.config.training_keys import Transfer
from bayes_asr.data.corpus.fingerprints import check_same, hash_labels, hash_stream
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.sets import open_sets
from bayes_asr.data.corpus.survey import Survey, survey_stream
from bayes_asr.kaldi_io.binary import OpenPipe
from bayes_asr.nn.network import build_network
from bayes_asr.train import components
from bayes_asr.train.data_statistics import complete_front_ends, count_log_priors
from bayes_asr.train.lattice_regeneration import MakeLattices, Renewal, find_first_lattices
from bayes_asr.train.lattice_targets import compare_with_lattices, complete_options
from bayes_asr.train.lfmmi_targets import read_chain, supervise
from bayes_asr.train.loop import run_epochs
from bayes_asr.train.pretraining import plan_pretraining
from bayes_asr.train.runs import checkpoint, record, state, tensorboard
from bayes_asr.train.runs.configuration import CONFIG
from bayes_asr.train.runs.trained_network import TrainedNetwork, unpack_front_ends, upgrade
from bayes_asr.train.speaker_adaptation import begin_speakers
from bayes_asr.train.training import Progress, Training
from bayes_asr.train.transfer import Beginning, begin_from


def train(
    config: Config,
    run: Path,
    *,
    new: bool = False,
    open_pipe: OpenPipe | None = None,
    make_lattices: MakeLattices | None = None,
) -> None:
    """Train into `run`, or go on with the run that is there.

    Where `train.pretrain` says so, shallower networks are trained first (`pretraining`).
    Writes config.yaml, env.json, history.jsonl, last.pt after every epoch and best.pt at the lowest
    dev frame error, or what else the run is judged by (`config.measure`). `new` discards what is
    there, once the data are found to be usable. InputError where the run there has another
    configuration or other data, or is being trained by another process. StoppedError after SIGTERM,
    SIGINT or SIGHUP: all is saved, and the same call goes on. make_lattices: wanted by
    `train.sequence.lattices: each-epoch`.
    """
    with _occupied(run) as lock:
        begin: tuple[Transfer, ...] = ()
        if new or not group.from_first(lambda: checkpoint.has_begun(run)):
            for shallow in plan_pretraining(config, run):
                with _occupied(shallow.run) as own_lock:
                    _train(
                        shallow.config, shallow.run, new, open_pipe, own_lock, begin, make_lattices
                    )
                begin = (shallow.as_beginning,)
        _train(config, run, new, open_pipe, lock, begin, make_lattices)


@contextmanager
def _occupied(run: Path) -> Iterator[Lock | None]:
    """Keep other trainings out of `run`, and say there what becomes of this one."""
    if not group.is_first():
        yield None
        return
    with alone_in(run) as lock:
        settle(run)  # what a stopped score or fold puts in place is of the run that is there
        with state.recorded(run):
            yield lock


def _train(
    config: Config,
    run: Path,
    new: bool,
    open_pipe: OpenPipe | None,
    lock: Lock | None,
    begin: Sequence[Transfer],
    make_lattices: MakeLattices | None,
) -> None:
    begun = None if new else group.from_first(lambda: record.read_begun(run))
    config = complete_options(record.locate(config), begun)
    device = components.choose_device(config.train.device)
    precision = components.choose_precision(config.train.precision, device)
    versions = record.versions(device, precision)
    LOGGER.info("training %s: %s", run, ", ".join(f"{k} {v}" for k, v in versions.items()))
    if precision != config.train.precision:
        LOGGER.warning("train.precision: %s", components.explain_precision(config.train.precision))
    if config.train.tensorboard:
        tensorboard.check_available()
    if not new:
        group.from_first(lambda: record.check_same_configuration(config, run))
    index = Index(run.absolute().parent / config.data.index, run / "index")
    train_set, dev_set, renewal = group.after_first(
        lambda: _open_sets(config, open_pipe, index, make_lattices)
    )
    if lock:
        lock.check()
    begin = (*begin, *config.train.init_from)
    training = _begin(config, run, train_set, dev_set, index, device, precision, begin, new=new)
    training.lock = lock
    if training.left:  # else env.json says what the run came from
        if group.is_first():
            parameters = sum(p.numel() for p in training.model.parameters())
            front_ends = training.network.front_ends
            record.write_environment(run, parameters, front_ends, versions, training.begun_from)
        with note_signals() as training.notice:
            if config.train.tensorboard and group.is_first():
                training.curves = tensorboard.Board(run, record.read_history(run))
            run_epochs(training, train_set, dev_set, renewal.renew if renewal else None)
    best = int(training.progress.dev_errors.argmin())
    error = training.progress.dev_errors[best]
    what = measure_of(config).name
    LOGGER.info("trained: best %s on dev %.4f in epoch %d", what, error, best + 1)


def _open_sets(
    config: Config,
    open_pipe: OpenPipe | None,
    index: Index,
    make_lattices: MakeLattices | None,
) -> tuple[LabelledSet, LabelledSet, Renewal | None]:
    """Training and dev set, with the lattices or numerators that the criterion may want, and what
    makes lattices anew, where they are.
    """
    kind = CRITERIA[config.train.criterion]
    complete = supervise if kind.chain else compare_with_lattices
    plain, dev_set = open_sets(config, open_pipe, index)
    renewal = None
    if kind.lattices and config.train.sequence.lattices == "each-epoch":
        if make_lattices is None:
            raise ValueError("lattices of each epoch need what makes them")
        find_first_lattices(config)

        def read(with_lattices: Config, own_index: Index) -> LabelledSet:
            return compare_with_lattices(with_lattices, "train", plain, own_index)

        renewal = Renewal(make_lattices, read, open_pipe)
    train_set = complete(config, "train", plain, index)
    return train_set, complete(config, "dev", dev_set, index), renewal


def _begin(
    config: Config,
    run: Path,
    data: LabelledSet,
    dev: LabelledSet,
    index: Index,
    device: torch.device,
    precision: str,
    begin: Sequence[Transfer],
    *,
    new: bool,
) -> Training:
    """Build everything, and go on from the newest checkpoint unless `new`."""
    saved = group.from_first(lambda: {} if new else upgrade(checkpoint.newest(run), run))
    architecture = components.plan_network(config, data)
    if saved:
        _check_sizes(saved["architecture"], architecture, run)
    inputs, surveys = group.from_first(lambda: _look_at_data(saved, data, dev, index))
    torch.manual_seed(config.seed)
    model = build_network(architecture).to(device)
    group.pool_statistics(model)
    beginning = Beginning() if saved else begin_from(begin, model)
    speakers = begin_speakers(model, data) if config.train.speaker_adaptive else None
    begun = unpack_front_ends(saved["front_ends"]) if saved else beginning.front_ends
    heads = list(architecture["heads"])
    first, others = group.from_first(lambda: count_log_priors(data, heads, index))
    if CRITERIA[config.train.criterion].lattices:  # whose network goes on, with its priors
        if not saved and model.outputs[0] not in beginning.parts:
            LOGGER.warning(
                "%s begins with outputs that nothing has trained, and teaches them next to nothing;"
                " train by cross-entropy first, and name that run before --criterion",
                config.train.criterion,
            )
        first = saved["log_priors"] if saved else beginning.log_priors.get(model.outputs[0], first)
    network = TrainedNetwork(
        model,
        complete_front_ends(data, {**surveys, **begun}),
        first,
        others,
        classes=data.targets[heads[0]].names,
    )
    chain = CRITERIA[config.train.criterion].chain
    graph = read_chain(config).graph if chain else None
    training = Training(
        config,
        run,
        device,
        precision,
        network,
        components.build_criterion(config, network.log_priors, graph),
        components.build_optimizer(config.train, model),
        inputs,
        Progress(config.train.learning_rate),
        begun_from=saved.get("begun_from", {}) if saved else beginning.hashes,
        speakers=speakers,
    )
    components.describe(config.model, model)
    if saved:
        record.compare_versions(saved.get("versions", {}), record.versions(device, precision))
        training.restore(saved)
    if group.is_first():
        _write_beginning(training, resumed=bool(saved), new=new)
    return training


def _write_beginning(training: Training, *, resumed: bool, new: bool) -> None:
    """Write what a run begins with."""
    run = training.run
    if resumed:
        training.config.save(run / CONFIG)
        record.end_history(run, training.progress.entry)  # it may have been killed before that
    else:
        # To go back to; and where there is no room for it, nothing is discarded.
        checkpoint.save(run / checkpoint.FIRST, training.content())
        if new:
            record.discard(run)
        training.config.save(run / CONFIG)
        (run / checkpoint.FIRST).replace(run / checkpoint.LAST)
    record.remove_leftovers(run)


def _check_sizes(old: Mapping[str, Any], now: Mapping[str, Any], run: Path) -> None:
    for key, what in (("streams", "inputs"), ("heads", "outputs")):
        if old[key] != now[key]:
            before, needed = (", ".join(map(str, sizes[key].values())) for sizes in (old, now))
            raise InputError(
                f"{run / checkpoint.LAST}: made for other data: its network has {what} {before},"
                f" but these data need {needed}; start over with --new"
            )


def _look_at_data(
    saved: Mapping[str, Any], data: LabelledSet, dev: LabelledSet, index: Index
) -> tuple[dict[str, str], dict[str, Survey]]:
    """Note what the sets are, which must be what a saved run was started on, and survey them."""
    sets = {"dev": dev, "train": data}
    quick = {
        name: {stream: hash_stream(labelled, stream) for stream in labelled.streams}
        for name, labelled in sets.items()
    }
    seen: dict[str, str] = {}
    for name, labelled in sets.items():
        for noted in (*quick[name].values(), hash_labels(labelled)):
            seen |= noted
    before = saved.get("inputs", seen)
    check_same(before, {**before, **seen})  # what is seen at once comes first
    found = {
        name: {
            stream: survey_stream(name, labelled, stream, noted, index, new=not saved)
            for stream, noted in quick[name].items()
        }
        for name, labelled in sets.items()
    }
    for name, labelled in sets.items():
        for stream, survey in found[name].items():
            directories = " and ".join(map(str, labelled.streams[stream].directories))
            seen[f"{directories} (frames of {name})"] = survey.digest
    if saved:
        check_same(before, seen)
    return seen, found["train"]
