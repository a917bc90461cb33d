"""Regeneration of the lattices of the training set by the network of each epoch."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.installed import advise_new_run
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.fingerprints import hash_further_labels
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.decode.search.search_record import read_record, read_search
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.side_files import LAST
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.directory import LATTICES
from bayes_asr.train.runs.trained_network import TrainedNetwork
from bayes_asr.train.trainer import Trainer

EPOCH = "epoch"
"""Key in the record of lattices: the epoch of the network that made them."""


def find_initial_lattices(config: Config) -> Path:
    """Folder of the lattices of the first epoch, whose graph and search all later ones have.

    InputError unless its record says these, and where later lattices could bring other speakers
    than those that have activations of their own.
    """
    if config.train.speaker_adaptive:
        raise InputError(
            "train.sequence.lattices is each-epoch, but lattices of a later epoch may bring a"
            " speaker to whom train.speaker_adaptive has given no activations; set it to once"
        )
    (directory,) = config.data.train.lattices
    read_search(Path(config.data.dir) / directory)
    return Path(config.data.dir) / directory


class _EndRequestedError(Exception):
    """A signal has come while lattices are made."""


@dataclass(frozen=True)
class LatticeRegeneration:
    """Maker of the lattices of each epoch after the first.

    decode: decodes the training set, as `denlats.write_denlats_of_epoch`; reopen: opens it with the
    lattices of a configuration, packed forms of which an index keeps.
    """

    decode: Callable[..., object]
    reopen: Callable[[Config, Index], LabelledSet]
    open_pipe: OpenPipe | None = None

    def regenerate(self, trainer: Trainer) -> LabelledSet:
        """Return the training set with the lattices of the network of the epoch before.

        They replace those of another epoch once all are there. A run that goes on in the middle of
        an epoch finds those of that epoch.
        StoppedError, with everything saved, once a signal is noticed.
        """
        directory = trainer.run.path.absolute() / LATTICES
        if not group.broadcast(lambda: self._make(trainer, directory)):
            trainer.stop_if_asked()
        data = trainer.config.data
        data_config = replace(data, train=replace(data.train, lattices=(str(directory),)))
        config = replace(trainer.config, data=data_config)
        index = Index(directory / "index")  # which goes with the lattices
        try:
            train_set = group.rank0_first(lambda: self.reopen(config, index))
        except InputError as error:
            raise InputError(
                f"{error} (this run made {directory}: remove it, and the same command makes it"
                " again)"
            ) from None
        # An epoch that is resumed must read the lattices that its first batches were trained on.
        digest = hash_further_labels(train_set)[str(directory)]
        progress = trainer.progress
        if progress.totals.position and progress.lattices != digest:
            raise InputError(
                f"{directory}: has changed since epoch {trainer.epoch} was begun; remove it, and"
                " the same command makes it again"
            )
        progress.lattices = digest
        return train_set

    def _make(self, trainer: Trainer, directory: Path) -> bool:
        """Make lattices, unless they are there; false: a signal asks for an end."""
        completed = trainer.epoch - 1
        if (read_record(directory) or {}).get(EPOCH) == completed:
            return True
        # An unfinished checkpoint is of later weights; the lattices are of a complete epoch.
        run = trainer.run.path
        complete = checkpoint.read_newest(run, (LAST, checkpoint.PREVIOUS))
        if len(complete["dev_errors"]) != completed:
            raise InputError(
                f"{run / LAST}: the network of epoch {completed}, which makes"
                f" the lattices of epoch {completed + 1}, cannot be read; restore it, or"
                f" {advise_new_run()}"
            )
        network = TrainedNetwork.of_content(complete)

        def check_signal() -> None:
            if trainer.notice.number:
                raise _EndRequestedError

        LOGGER.info("epoch %d: lattices by the network of epoch %d", completed + 1, completed)
        template = find_initial_lattices(trainer.config)
        try:
            self.decode(
                run,
                network,
                template,
                directory,
                {EPOCH: completed},
                check_signal,
                self.open_pipe,
            )
        except _EndRequestedError:
            return False
        except InputError:
            if trainer.notice.number:  # which may have ended processes that decode, too
                return False
            raise
        return True
