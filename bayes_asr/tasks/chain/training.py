"""Training by lattice-free MMI."""

from torch import Tensor

from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.nn.criteria import Criterion
from bayes_asr.tasks.chain.criterion import LatticeFree
from bayes_asr.tasks.chain.targets import add_numerators, declare_targets, read_chain
from bayes_asr.train.task_training import TaskTraining


class ChainTraining(TaskTraining):
    """Numerators of the alignments, against the denominator graph of `data.chain`."""

    def complete(self, name: str, data: LabelledSet, index: Index) -> LabelledSet:
        """The set `name` with numerators as its only targets; InputError without any."""
        return add_numerators(self.config, name, data, index)

    def declare(self, data: LabelledSet) -> LabelledSet:
        """A set with these targets; InputError where tree, graph and alignments disagree."""
        return declare_targets(self.config, data)

    def build_criterion(self, log_priors: Tensor) -> Criterion:
        """The criterion of both heads."""
        graph = read_chain(self.config).graph
        return LatticeFree(self.task.weights, self.config.train.chain, graph)
