"""Training by the squared error."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.nn.criteria import Cost
from bayes_asr.train.task_training import TaskTraining


class SquaredError:
    """The squared error of the first target."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        (self.name,) = weights

    def __call__(
        self, outputs: Mapping[str, Tensor], targets: Mapping[str, Tensor], frames: float
    ) -> Cost:
        """Return the cost of outputs [N, 1] for targets [N]."""
        loss = (outputs[self.name][:, 0].float() - targets[self.name]).square().sum() / frames
        return Cost(loss, loss.detach(), torch.tensor(0))


class RegressionTraining(TaskTraining):
    """Numbers have no priors."""

    def count_log_priors(
        self, data: LabelledSet, heads: Sequence[str], index: Index
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Zeros."""
        return torch.zeros(1, dtype=torch.float64), {}
