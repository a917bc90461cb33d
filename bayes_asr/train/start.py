"""Start of a training: from a configuration to a run directory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bayes_asr.base.files import is_there, settle
from bayes_asr.base.lock import Lock, alone_in
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.base.processes.signals import note_signals
from bayes_asr.config.catalogue import ON_DEMAND, find
from bayes_asr.config.schema import Config
from bayes_asr.config.training_keys import Transfer
from bayes_asr.data.corpus.fingerprints import check_same, hash_further_labels, hash_stream
from bayes_asr.data.corpus.index import Index, open_index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.sets import open_sets
from bayes_asr.data.corpus.survey import Survey, survey_stream
from bayes_asr.data.features.fmllr_record import describe_adapted, find_record
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.mdl import hash_transitions
from bayes_asr.kaldi_io.side_files import TRANSITIONS, read_environment, read_history
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.speakers import SpeakerActivations
from bayes_asr.tasks.task import Task, task_of
from bayes_asr.train import components
from bayes_asr.train.data_statistics import build_front_ends, count_log_priors
from bayes_asr.train.loop import run_epochs, sample_batches
from bayes_asr.train.runs import checkpoint, record, state
from bayes_asr.train.runs.directory import RunDirectory
from bayes_asr.train.runs.history import Board, check_tensorboard
from bayes_asr.train.runs.trained_network import TrainedNetwork, unpack_front_ends
from bayes_asr.train.task_training import Regenerate, TaskTraining
from bayes_asr.train.trainer import Initialization, Trainer, TrainProgress, TrainState


def train(
    config: Config, run: Path, *, new: bool = False, open_pipe: OpenPipe | None = None
) -> None:
    """Train into `run`, or go on with the run that is there.

    Where `train.pretrain` says so, shallower networks are trained first (`pretraining`).
    Writes config.yaml, env.json, history.jsonl, last.pt after every epoch and best.pt at the lowest
    dev frame error, or what else the run is judged by (`Task.measure`). `new` discards what is
    there, once the data are found to be usable. InputError where the run there has another
    configuration or other data, or is being trained by another process. StoppedError after SIGTERM,
    SIGINT or SIGHUP: all is saved, and the same call goes on.
    """
    with _locked(run) as lock:
        # A run that goes on has the weights of the shallower networks in its own checkpoint.
        begin: tuple[Transfer, ...] = ()
        begins = new or not group.broadcast(lambda: checkpoint.has_begun(run))
        if config.train.pretrain.epochs and begins:
            for shallow in find(ON_DEMAND["pretrain"])(config, run):
                with _locked(shallow.run) as shallow_lock:
                    _train(shallow.config, shallow.run, new, open_pipe, shallow_lock, begin)
                begin = (shallow.as_transfer,)
        _train(config, run, new, open_pipe, lock, begin)


@contextmanager
def _locked(run: Path) -> Iterator[Lock | None]:
    """Lock `run` against other trainings, and record the state of this one there."""
    if not group.is_rank0():
        yield None
        return
    with alone_in(run) as lock:
        settle(run)  # what a stopped score or fold puts in place is of the run that is there
        with state.recording(run):
            yield lock


@dataclass(frozen=True)
class _Sets:
    """Labelled sets of a training, and the index that they are read through.

    regenerate: makes those of `train` anew for each epoch, where the task does so.
    """

    train: LabelledSet
    dev: LabelledSet
    index: Index
    regenerate: Regenerate | None


def _train(
    config: Config,
    run: Path,
    new: bool,
    open_pipe: OpenPipe | None,
    lock: Lock | None,
    begin: Sequence[Transfer],
) -> None:
    """Train one network, the lock of whose folder is held; begin: what its weights come from."""
    saved = group.broadcast(lambda: {} if new else checkpoint.read_newest(run))
    begun = group.broadcast(lambda: record.read_recorded_config(run, saved))
    config = task_of(record.make_paths_absolute(config)).training().complete_options(begun)
    training: TaskTraining = task_of(config).training()
    device = components.choose_device(config.train.device)
    precision = components.choose_precision(config.train.precision, device)
    versions = record.versions(device, precision)
    LOGGER.info("training %s: %s", run, ", ".join(f"{k} {v}" for k, v in versions.items()))
    if precision != config.train.precision:
        LOGGER.warning("train.precision: %s", components.explain_precision(config.train.precision))
    if config.train.tensorboard:
        check_tensorboard()
    if not new:
        group.broadcast(lambda: record.check_same_configuration(config, run, begun))
    if begun:
        saved = find("train.resumed:move_inputs")(saved, begun.data, config.data)
    index = open_index(run, config.data.index)
    sets = group.rank0_first(lambda: _open_sets(training, open_pipe, index))
    directory = RunDirectory(run, lock)
    directory.check_lock()  # reading the sets may have taken long enough to lose it
    group.broadcast(lambda: checkpoint.check_best(run, saved))
    versions = record.join_versions(saved.get("versions", {}), versions)
    begin = (*begin, *config.train.init_from)
    built = _build_state(training, sets, directory, saved, begin, device, versions)
    criterion = training.build_criterion(built.network.log_priors)
    trainer = Trainer(config, directory, device, precision, criterion, built)
    components.log_summary(config.model, trainer.model)
    _begin(trainer, saved, discard=new)
    if trainer.epochs_left:  # else env.json says what the run came from
        _write_environment(trainer, sets.train, _choose_gpu_path(trainer, sets.train))
        with note_signals() as trainer.notice:
            if config.train.tensorboard and group.is_rank0():
                trainer.board = Board(run, read_history(run))
            run_epochs(trainer, sets.train, sets.dev, sets.regenerate, training.count_errors)
    dev_errors, measure = trainer.progress.dev_errors, training.task.measure.name
    best = int(dev_errors.argmin())
    LOGGER.info("trained: best %s on dev %.4f in epoch %d", measure, dev_errors[best], best + 1)


def _begin(trainer: Trainer, saved: Mapping[str, Any], *, discard: bool) -> None:
    """Take over what a checkpoint of the run has, or make the directory of a new run."""
    if saved:
        trainer.restore(saved)
    if group.is_rank0():
        if saved:
            trainer.run.go_on(trainer.config, trainer.progress.entry)
        else:
            trainer.run.begin(trainer.config, trainer.state.content(), discard=discard)


def _choose_gpu_path(trainer: Trainer, train_set: LabelledSet) -> Mapping[str, Any] | None:
    """Take the path of `train.gpu_path`; what env.json says of it, which a CPU leaves as it is."""
    card = record.name_card(trainer.device)
    recorded: Mapping[str, Any] | None = read_environment(trainer.run.path).get("gpu_path")
    if card:
        take_path = find(ON_DEMAND["gpu_path"])
        recorded = take_path(trainer, card, recorded, lambda: sample_batches(trainer, train_set))
    return recorded


def _write_environment(
    trainer: Trainer, train_set: LabelledSet, gpu_path: Mapping[str, Any] | None
) -> None:
    if not group.is_rank0():
        return
    makers = {name: find_record(x.directories) for name, x in train_set.streams.items()}
    record.write_environment(
        trainer.run.path,
        components.count_parameters(trainer.model),
        trainer.state.network.front_ends,
        {**trainer.state.origin, **_describe_transitions(task_of(trainer.config))},
        gpu_path,
        {name: describe_adapted(maker.sound) for name, maker in makers.items() if maker},
    )


def _describe_transitions(task: Task) -> dict[str, str]:
    """The entry of the final.mdl that words are decoded with; empty where there is none."""
    path = task.locate_model(announce=False) if task.recogniser == "decode" else None
    return {TRANSITIONS: hash_transitions(path)} if path and is_there(path) else {}


def _open_sets(training: TaskTraining, open_pipe: OpenPipe | None, index: Index) -> _Sets:
    """Training and dev set, with all that the criterion reads."""
    train_set, dev_set = open_sets(training.config, open_pipe, index)
    regenerate = training.regeneration(train_set, open_pipe)
    return _Sets(
        training.complete("train", train_set, index),
        training.complete("dev", dev_set, index),
        index,
        regenerate,
    )


def _build_state(
    training: TaskTraining,
    sets: _Sets,
    run: RunDirectory,
    saved: Mapping[str, Any],
    begin: Sequence[Transfer],
    device: torch.device,
    versions: Mapping[str, Any],
) -> TrainState:
    """The state before the first step; saved: a checkpoint, whose weights are not yet taken."""
    config = training.config
    architecture = components.plan_network(config, sets.train)
    if saved:
        find("train.resumed:check_sizes")(saved["architecture"], architecture, run.path)
        if training.task.recogniser == "decode":  # of another model it has learnt other pdfs
            group.broadcast(lambda: find("train.runs.run_model:locate_model")(run.path, config))
    own_code = find("nn.units.external:hash_files")(architecture)
    inputs, surveys = group.broadcast(lambda: _fingerprint_data(saved, sets, own_code))
    # Weights are drawn right after the seed is set, so that they depend on it alone.
    torch.manual_seed(config.seed)
    model = components.draw_network(config.model, architecture).to(device)
    if saved:
        find("train.resumed:check_weights")(saved["model"], model, run.path)
    group.pool_statistics(model)
    heads = list(architecture["heads"])
    initialization = _initialize(run, saved, begin, model, sets.train)
    speakers: SpeakerActivations | None = None
    if config.train.speaker_adaptive:
        speakers = find(ON_DEMAND["speaker_adaptive"])(model, sets.train)
    counted, auxiliary_log_priors = group.broadcast(
        lambda: count_log_priors(sets.train, heads, sets.index)
    )
    inherited = initialization.log_priors.get(heads[0])
    trained = heads[0] in initialization.parts
    network = TrainedNetwork(
        model,
        build_front_ends(sets.train, {**surveys, **initialization.front_ends}),
        training.choose_log_priors(counted, inherited, trained=trained),
        auxiliary_log_priors,
        classes=sets.train.targets[heads[0]].names,
    )
    origin = {
        "config": config.yaml,
        "versions": versions,
        "inputs": inputs,
        "begun_from": initialization.hashes,
    }
    optimizer = components.build_optimizer(config.train, model)
    progress = TrainProgress(config.train.learning_rate)
    return TrainState(network, optimizer, progress, origin, speakers)


def _initialize(
    run: RunDirectory,
    saved: Mapping[str, Any],
    begin: Sequence[Transfer],
    model: AcousticModel,
    data: LabelledSet,
) -> Initialization:
    """The values that the first head and all else begin with: of the run's own checkpoint, of other
    runs, or none.
    """
    if saved:
        front_ends = unpack_front_ends(saved["front_ends"])
        head = model.outputs[0]
        hashes, log_priors = saved.get("begun_from", {}), {head: saved["log_priors"]}
        return Initialization({head: str(run.path)}, front_ends, hashes, log_priors)
    return find(ON_DEMAND["init_from"])(begin, model, data) if begin else Initialization()


def _fingerprint_data(
    saved: Mapping[str, Any], opened: _Sets, inputs: dict[str, str]
) -> tuple[dict[str, str], dict[str, Survey]]:
    """Hashes of the sets beside those of other `inputs`, which all must be those that a saved run
    was started on, and the surveys of the streams of the training set.
    """
    sets = {"dev": opened.dev, "train": opened.train}
    # Hashes of the tables come first: they cost little, and a change ends the run before the
    # features are read.
    stream_hashes = {
        name: {stream: hash_stream(labelled, stream) for stream in labelled.streams}
        for name, labelled in sets.items()
    }
    for name, labelled in sets.items():
        for hashes in (*stream_hashes[name].values(), hash_further_labels(labelled)):
            inputs = inputs | hashes
    expected = saved.get("inputs", inputs)
    check_same(expected, {**expected, **inputs})
    surveys: dict[str, dict[str, Survey]] = {}
    for name, labelled in sets.items():
        surveys[name] = {
            stream: survey_stream(name, labelled, stream, hashes, opened.index, new=not saved)
            for stream, hashes in stream_hashes[name].items()
        }
        for stream, survey in surveys[name].items():
            directories = " and ".join(map(str, labelled.streams[stream].directories))
            inputs[f"{directories} (frames of {name})"] = survey.digest
    if saved:
        check_same(expected, inputs)
    return inputs, surveys["train"]
