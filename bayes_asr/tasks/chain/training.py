"""Training by lattice-free MMI: its criterion over a batch, and the sets that it reads."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bayes_asr.config.training_keys import ChainConfig
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.nn.criteria import Cost
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.tasks.chain.denominator_graph import DenominatorGraph
from bayes_asr.tasks.chain.leaky_hmm import LeakyHmm
from bayes_asr.tasks.chain.objective import Regularization, compute_lfmmi
from bayes_asr.tasks.chain.targets import add_numerators, declare_targets, read_chain
from bayes_asr.train.task_training import TaskTraining


class LatticeFreeCriterion:
    """LF-MMI of the first target, and the cross entropy of the second, if there is one.

    Its loss is the log-likelihood of the denominator less that of the numerators, in nats an output
    frame. Errors are output frames whose largest output the numerator does not allow.
    weights: by target; the second has `xent_regularize`.
    """

    def __init__(
        self, weights: Mapping[str, float], options: ChainConfig, graph: DenominatorGraph
    ) -> None:
        self.weights = dict(weights)
        self._denominator = LeakyHmm(graph, options.leaky_hmm_coefficient)
        self._regularization = Regularization(options.xent_regularize, options.l2_regularize)

    def __call__(
        self, outputs: Mapping[str, Tensor], targets: Mapping[str, Any], num_labels: float
    ) -> Cost:
        """Return what outputs [M, P] cost for targets: a `Numerator` of each utterance.

        num_labels: output frames of the batch in all processes, by which sums are divided.
        """
        main, *auxiliary = self.weights
        numerators = targets[main]
        layout = PackedFrames(tuple(len(numerator) for numerator in numerators))
        # Outputs stand frame by frame, but the sums go utterance by utterance: bring all frames of
        # an utterance together, in time.
        order = torch.argsort(layout.sequence, stable=True)
        rows = [
            outputs[name].float()[order.to(outputs[name].device)] for name in (main, *auxiliary)
        ]
        objective = compute_lfmmi(
            rows[0], numerators, self._denominator, self._regularization, *rows[1:]
        )
        mmi = torch.tensor(objective.mmi / num_labels, dtype=torch.float64)
        return Cost(objective.loss / num_labels, mmi, torch.tensor(objective.errors))


class ChainTraining(TaskTraining):
    """Training on the numerators of alignments, against the denominator graph of `data.chain`."""

    def complete(self, name: str, data: LabelledSet, index: Index) -> LabelledSet:
        """The set `name` with numerators as its only targets; InputError without any."""
        return add_numerators(self.config, name, data, index)

    def declare(self, data: LabelledSet) -> LabelledSet:
        """A set with these targets; InputError where tree, graph and alignments disagree."""
        return declare_targets(self.config, data)

    def _criterion_arguments(self, log_priors: Tensor) -> tuple[ChainConfig, DenominatorGraph]:
        return self.config.train.chain, read_chain(self.config).graph
