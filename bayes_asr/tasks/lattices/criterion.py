"""Sequence-discriminative criteria on lattices: MMI, boosted MMI, MPE and state-level MBR.

Vesely, Ghoshal, Burget & Povey 2013. The sums over paths are those of
`decode.lattices.expectation`, at the acoustic scores of the network as it is. The normalisation of
a softmax is the same for all paths through a frame, so outputs stand for log-posteriors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from bayes_asr.config.training_keys import SequenceConfig
from bayes_asr.decode.lattices.expectation import expect
from bayes_asr.decode.lattices.reference import OF_ACCURACY
from bayes_asr.nn.criteria import Cost, cross_entropy
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.tasks.lattices.targets import DENOMINATORS, Denominator

ABSENT = 1e-20  # share of the paths below which a pdf is not in a lattice, as in Kaldi


class LatticeCriterion:
    """A criterion of the first target, and the cross entropy of the others, weighted.

    mpe, smbr: the share of frames in which a path is wrong, in the mean over the paths of the
    lattice. mmi, bmmi: log-likelihood of all paths less that of the alignment, which has no graph
    costs, in nats a frame. Both are divided by the frames of the batch. Errors are frames in which
    another output than that of the alignment is the largest.

    weights: of the losses by target; the first is 1. options: with an acoustic scale. log_priors
    [P]: of the labels of the first.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        criterion: str,
        options: SequenceConfig,
        log_priors: Tensor,
    ) -> None:
        if options.acoustic_scale is None:
            raise ValueError("a criterion of whole utterances needs an acoustic scale")
        self.weights, self.options, self._scale = dict(weights), options, options.acoustic_scale
        self._of_accuracy = criterion in OF_ACCURACY
        self._drop_frames = options.drop_frames and not self._of_accuracy
        self._log_priors = log_priors.double().cpu().numpy()

    def __call__(
        self, outputs: Mapping[str, Tensor], targets: Mapping[str, Any], num_labels: float
    ) -> Cost:
        """Return the cost of outputs [N, P] by labels [N] and the `Denominator` of each utterance.

        num_labels: those of the batch in all processes, by which sums are divided.
        """
        main, *auxiliary = self.weights
        logits_NP, labels_N = outputs[main], targets[main]
        smoothing = self.options.xent_regularize
        # F-smoothing (Su et al. 2013) adds a share of the cross entropy. Without it that is only
        # computed for its count of errors, so it needs no gradient.
        frame_loss = cross_entropy(
            logits_NP if smoothing else logits_NP.detach(), labels_N, num_labels
        )
        loss = self._batch_loss(logits_NP, labels_N, targets[DENOMINATORS]) / num_labels
        objective = loss + smoothing * frame_loss.mean
        for name in auxiliary:
            auxiliary_loss = cross_entropy(outputs[name], targets[name], num_labels)
            objective = objective + self.weights[name] * auxiliary_loss.mean
        return Cost(objective, loss.detach(), frame_loss.errors)

    def _batch_loss(
        self, logits_NP: Tensor, labels_N: Tensor, denominators: Sequence[Denominator]
    ) -> Tensor:
        """The loss of all utterances, not divided, float64; its gradient is exact.

        Only logits that a path uses are read: of the alignment [N], then of the cells of the
        lattices [C], each at a flat index frame * P + pdf.
        """
        N, P = logits_NP.shape
        layout = PackedFrames(tuple(utterance.lattice.num_frames for utterance in denominators))
        starts = np.array(layout.starts, np.int64)
        labels = labels_N.cpu().numpy()
        # Frames of utterance b lie at starts[t] + b: packed frames are sorted by time, and within
        # a frame by falling length.
        rows = [starts[:n] + place for place, n in enumerate(layout.lengths)]
        places = [
            utterance_rows[utterance.lattice.frame] * P + utterance.pdf
            for utterance_rows, utterance in zip(rows, denominators, strict=True)
        ]
        flat_index = np.concatenate([np.arange(N) * P + labels, *places])
        index = torch.from_numpy(flat_index).to(logits_NP.device)
        used_logits = logits_NP.reshape(-1).index_select(0, index).double()
        scores = used_logits.detach().cpu().numpy() - self._log_priors[flat_index % P]
        # log p(x|s) = log P(s|x) - log P(s) + const; the constant of a frame cancels in the loss.
        scores *= self._scale
        # The first N scores are of the alignment; then come the cells of each lattice.
        ends = np.cumsum([N, *(len(utterance.pdf) for utterance in denominators)])
        total_loss, gradient = 0.0, np.zeros(len(flat_index))
        for utterance_rows, utterance, begin, end in zip(
            rows, denominators, ends[:-1], ends[1:], strict=True
        ):
            utterance_loss, by_path, by_cells = self._utterance_loss(
                utterance, labels[utterance_rows], scores[utterance_rows], scores[begin:end]
            )
            total_loss += utterance_loss
            gradient[utterance_rows], gradient[begin:end] = by_path, by_cells
        gradient *= self._scale
        constants = (torch.tensor(total_loss, dtype=torch.float64), torch.from_numpy(gradient))
        result: Tensor = _KnownGradient.apply(
            used_logits, *(x.to(used_logits.device) for x in constants)
        )
        return result

    def _utterance_loss(
        self, utterance: Denominator, labels: np.ndarray, path: np.ndarray, cells: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the loss of an utterance, and its derivatives by the scaled scores of the pdfs of
        the alignment [T] and of the cells of the lattice [C].
        """
        lattice = replace(
            utterance.lattice, weight=self.options.lm_scale * utterance.lattice.weight
        )
        expectation = expect(lattice, cells + utterance.boost, utterance.accuracy)
        if self._of_accuracy:
            return lattice.num_frames - expectation.gain, np.zeros(len(path)), -expectation.slope
        # MMI: the derivative is -1 at the alignment, and at a cell the posterior of its arcs. Where
        # the pdf of the alignment is not in the lattice, the frame may be dropped.
        frame_weights = np.ones(len(path))
        if self._drop_frames:
            on_path = np.where(utterance.pdf == labels[lattice.frame], expectation.share, 0.0)
            frame_weights[np.bincount(lattice.frame, on_path, len(path)) < ABSENT] = 0.0
        return (
            expectation.log_total - path.sum(),
            -frame_weights,
            expectation.share * frame_weights[lattice.frame],
        )


class _KnownGradient(torch.autograd.Function):
    """`apply(x, value, gradient)`: a value of which the gradient by `x` is known."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, by_value: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return gradient * by_value, None, None
