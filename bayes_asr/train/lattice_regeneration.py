"""Lattices of the training set that are made anew by the network of each epoch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.config import Config
from bayes_asr.data.corpus.fingerprints import hash_labels
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.decode.search.search_record import read_record, read_search
from bayes_asr.kaldi_io.binary import OpenPipe
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.record import LATTICES
from bayes_asr.train.runs.trained_network import TrainedNetwork
from bayes_asr.train.trainer import Trainer

EPOCH = "epoch"
"""In the record of lattices: of which epoch the network was that made them."""


def find_initial_lattices(config: Config) -> Path:
    """The folder of the lattices of the first epoch, as which those of all others are made.

    InputError unless it says how that was, and where later ones could bring other speakers than
    those that have activations of their own.
    """
    if config.train.speaker_adaptive:
        raise InputError(
            "train.sequence.lattices is each-epoch, but lattices of a later epoch may bring a"
            " speaker to whom train.speaker_adaptive has given no activations; set it to once"
        )
    (directory,) = config.data.train.lattices
    read_search(Path(config.data.dir) / directory)
    return Path(config.data.dir) / directory


class LatticeMaker(Protocol):
    """What decodes the training set of a run, as the room `denlats` does."""

    def __call__(
        self,
        run: Path,
        network: TrainedNetwork,
        like: Path,
        out: Path,
        entries: Mapping[str, Any],
        before_each: Callable[[], object],
        open_pipe: OpenPipe | None = None,
    ) -> object: ...


class _AskedToEndError(Exception):
    """A signal has come while lattices are made."""


@dataclass(frozen=True)
class LatticeRegeneration:
    """How the lattices of an epoch are made, those of the first one aside.

    make: decodes the training set; read: opens it with the lattices of a configuration, of which an
    index keeps what was read.
    """

    make: LatticeMaker
    read: Callable[[Config, Index], LabelledSet]
    open_pipe: OpenPipe | None = None

    def regenerate(self, trainer: Trainer) -> LabelledSet:
        """The training set with the lattices of the network of the epoch before.

        They replace those of another epoch once all are there; a run that goes on finds its own.
        StoppedError, with everything saved, once a signal is noticed.
        """
        directory = trainer.run.absolute() / LATTICES
        if not group.from_first(lambda: self._make(trainer, directory)):
            trainer.stop_if_asked()
        data = trainer.config.data
        data_config = replace(data, train=replace(data.train, lattices=(str(directory),)))
        config = replace(trainer.config, data=data_config)
        index = Index(directory / "index")  # which goes with the lattices
        try:
            renewed = group.after_first(lambda: self.read(config, index))
        except InputError as error:
            raise InputError(
                f"{error} (this run made {directory}: remove it, and the same command makes it again)"
            ) from None
        digest = hash_labels(renewed)[str(directory)]
        begun = trainer.state
        if begun.totals.position and begun.lattices != digest:
            raise InputError(
                f"{directory}: has changed since epoch {trainer.epoch} was begun; remove it, and the"
                " same command makes it again"
            )
        begun.lattices = digest
        return renewed

    def _make(self, trainer: Trainer, directory: Path) -> bool:
        """Make lattices, unless they are there; false: a signal asks for an end."""
        completed = trainer.epoch - 1
        if (read_record(directory) or {}).get(EPOCH) == completed:
            return True
        complete = checkpoint.read_newest(trainer.run, (checkpoint.LAST, checkpoint.PREVIOUS))
        if len(complete["dev_errors"]) != completed:
            raise InputError(
                f"{trainer.run / checkpoint.LAST}: the network of epoch {completed}, which makes the"
                f" lattices of epoch {completed + 1}, cannot be read; restore it, or start over with"
                " --new"
            )
        network = TrainedNetwork.of_content(complete)

        def look() -> None:
            if trainer.notice.number:
                raise _AskedToEndError

        LOGGER.info("epoch %d: lattices by the network of epoch %d", completed + 1, completed)
        like = find_initial_lattices(trainer.config)
        try:
            self.make(
                trainer.run, network, like, directory, {EPOCH: completed}, look, self.open_pipe
            )
        except _AskedToEndError:
            return False
        except InputError:
            if trainer.notice.number:  # which may have ended processes that decode, too
                return False
            raise
        return True
