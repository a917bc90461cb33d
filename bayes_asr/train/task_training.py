"""The training of a task: sets with targets, the criterion, log priors, errors on dev."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from bayes_asr.config.catalogue import CRITERIA, find
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.nn.criteria import Criterion
from bayes_asr.nn.network import AcousticModel
from bayes_asr.tasks.task import Task
from bayes_asr.train.batch import Batch
from bayes_asr.train.trainer import Trainer

Regenerate = Callable[[Trainer], LabelledSet]
"""Function that makes the training set of the epoch that a trainer begins."""


class TaskTraining:
    """The training of a task by the labels of a set; subclasses override what is different."""

    def __init__(self, task: Task) -> None:
        """Take the task of a configuration."""
        self.task, self.config = task, task.config

    def complete_options(self, begun: Config | None = None) -> Config:
        """The configuration with the options that follow from other keys, or from the data.

        begun: configuration of the run that goes on, whose values are kept.
        """
        return self.config

    def complete(self, name: str, data: LabelledSet, index: Index) -> LabelledSet:
        """The set `name` (train or dev) with all targets that the criterion reads."""
        return data

    def declare(self, data: LabelledSet) -> LabelledSet:
        """A set with the sizes of these targets, none of which is built or checked."""
        return data

    def regeneration(self, train_set: LabelledSet, open_pipe: OpenPipe | None) -> Regenerate | None:
        """Function that makes a training set for each epoch after the first; None: it stays.

        train_set: before `complete`.
        """
        return None

    def build_criterion(self, log_priors: Tensor) -> Criterion:
        """The training criterion; log_priors [P]: of the labels of the first head."""
        criterion = find(CRITERIA[self.config.train.criterion].function)
        built: Criterion = criterion(self.task.weights, *self._criterion_arguments(log_priors))
        return built

    def _criterion_arguments(self, log_priors: Tensor) -> tuple[Any, ...]:
        """Arguments of the criterion behind the weights."""
        return ()

    def choose_log_priors(
        self, counted: Tensor, inherited: Tensor | None, *, trained: bool
    ) -> Tensor:
        """Log priors [P] of the labels of the first head.

        counted: of the training set; inherited: of the run or network that the training goes on
        from, where they are known; trained: whether its outputs are taken from there.
        """
        return counted

    def count_errors(self, model: AcousticModel, batch: Batch) -> int | None:
        """Errors of a batch of dev; None: those that the criterion counts."""
        return None
