"""Criteria that training minimises, and the errors that go with them.

A criterion is made of the weights of its targets, and called with outputs and targets by name and
the number of labels of the batch. It is a class here and a line in `catalogue.CRITERIA`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from bayes_asr.nn.kernels.cpu import library
from bayes_asr.nn.kernels.cpu.cross_entropy import CompiledCrossEntropy


class Cost(NamedTuple):
    """The cost of the outputs of a batch."""

    objective: Tensor
    """The weighted sum over targets, which is minimised."""
    loss: Tensor
    """The loss of the first target alone, which is reported."""
    errors: Tensor | None
    """Number of labels of the first target that count as wrong; None: nothing is right or wrong."""


Criterion = Callable[[Mapping[str, Tensor], Mapping[str, Any], float], Cost]
"""(outputs by name, targets by name, number of labels in all processes) -> their cost.

A target is a tensor of labels, or a list of other values of utterances that the criterion reads.

Outputs may be bfloat16, and a process may have no frame of a batch.
"""


class Loss(NamedTuple):
    """The cost of the outputs of one head."""

    mean: Tensor
    """The sum over labels, divided by a number of labels; of cross entropy in nats."""
    errors: Tensor
    """The number of labels that are not the argmax of their outputs; of equal ones the first is."""


class CrossEntropy:
    """The cross entropy of each target and the softmax of the output of its name, weighted.

    weights: of the losses by target; the first is 1. Its errors are frames in which another output
    than that of the label is the largest.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights = dict(weights)

    def __call__(
        self, outputs: Mapping[str, Tensor], targets: Mapping[str, Tensor], num_labels: float
    ) -> Cost:
        """Return the cost of outputs [N, P] for targets [N].

        num_labels: those of the batch in all processes, by which sums are divided.
        """
        losses = [cross_entropy(outputs[name], targets[name], num_labels) for name in self.weights]
        # The first weight is 1: its loss is added up as it is.
        reported, objective = losses[0], losses[0].mean
        for weight, loss in zip(list(self.weights.values())[1:], losses[1:], strict=True):
            objective = objective + weight * loss.mean
        return Cost(objective, reported.mean, reported.errors)


def cross_entropy(logits_NP: Tensor, labels_N: Tensor, num_labels: float) -> Loss:
    """Return the cross entropy of labels and the softmax of outputs, divided by `num_labels`.

    ValueError for a label without an output, but on a GPU, where torch finds it.
    """
    on_cpu, P = logits_NP.device.type == "cpu", logits_NP.shape[1]
    if on_cpu and len(labels_N) and not 0 <= labels_N.min() <= labels_N.max() < P:
        raise ValueError(
            f"labels are from {labels_N.min()} to {labels_N.max()}; there are {P} outputs"
        )
    if library.runs_on(logits_NP.device) and logits_NP.dtype in library.STORAGES:
        return Loss(*CompiledCrossEntropy.apply(library.path(), logits_NP, labels_N, num_labels))
    # torch's argmax of bfloat16 is slow.
    logits = logits_NP.float() if logits_NP.dtype == torch.bfloat16 else logits_NP
    mean = functional.cross_entropy(logits, labels_N, reduction="sum") / num_labels
    return Loss(mean, (logits.argmax(1) != labels_N).sum())
