"""Objective of LF-MMI: log-likelihood of numerators less that of the denominator.

Povey et al. 2016; Kaldi: chain-training.cc, ComputeChainObjfAndDeriv. Outputs of the network stand
for log-likelihoods: there is neither a softmax nor a prior.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.decode.lattices.aligned import AlignedLattice
from bayes_asr.decode.lattices.expectation import expect
from bayes_asr.tasks.chain.leaky_hmm import LeakyHmm
from bayes_asr.tasks.chain.numerator import Numerator

NEVER = -1e10  # a score whose likelihood is 0


@dataclass(frozen=True)
class Regularization:
    """Weights, by Kaldi's names: of the cross entropy of a second head, and of half the squared
    outputs.
    """

    xent_regularize: float = 0.1
    l2_regularize: float = 0.00005


@dataclass(frozen=True)
class LfMmi:
    """Sums over the output frames of a batch, none of them divided.

    `loss`: the regularised objective to minimise, differentiable by outputs; `mmi`:
    log-likelihoods of the denominator less those of numerators, 0 or more, in nats; `errors`:
    frames in which the largest output is of a pdf that no path of the numerator has there.
    """

    loss: Tensor
    mmi: float
    errors: int


def compute_lfmmi(
    outputs_NP: Tensor,
    numerators: Sequence[Numerator],
    denominator: LeakyHmm,
    regularization: Regularization,
    xent_logits_NP: Tensor | None = None,
) -> LfMmi:
    """Return LF-MMI of utterances whose outputs [N, P] stand one after the other.

    numerators: of `numerator.NumeratorBuilder`, whose frames are those of the utterances; or bool
    [T, P], the pdfs that an utterance may have in each frame, in any order of the denominator.
    xent_logits_NP: outputs of the second head before its softmax, which learns the posteriors of
    the numerators, taken as constants.

    Sums over paths are in double precision, their derivatives exact. InputError where the frames
    are not those of the numerators.
    """
    lengths = [len(numerator) for numerator in numerators]
    if sum(lengths) != len(outputs_NP):
        raise InputError(
            f"{len(outputs_NP)} outputs for numerators of {sum(lengths)} frames; make them with the"
            " frame subsampling factor of the network"
        )
    scores = outputs_NP.detach().double().cpu().numpy()
    mmi, posteriors, slope = sum_utterances(numerators, scores, denominator)
    # The derivative of the loss by an output: its posterior in the denominator less that in the
    # numerator. `linear` brings it into autograd; its own value is replaced by that of the loss.
    slope -= posteriors
    linear = (outputs_NP * _as_tensor_like(outputs_NP, slope)).sum()
    loss = linear - linear.detach() + mmi
    loss = loss + 0.5 * regularization.l2_regularize * outputs_NP.square().sum()
    if xent_logits_NP is not None:
        weighted_log_probs = xent_logits_NP.log_softmax(1) * _as_tensor_like(
            xent_logits_NP, posteriors
        )
        loss = loss - regularization.xent_regularize * weighted_log_probs.sum()
    best_posteriors = posteriors[np.arange(len(scores)), scores.argmax(1)]
    return LfMmi(loss, mmi, int((best_posteriors == 0).sum()))


def sum_utterances(
    numerators: Sequence[Numerator], scores_NP: np.ndarray, denominator: LeakyHmm
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the MMI of utterances whose scores [N, P] stand one after the other, and the
    derivatives [N, P] of the logs of numerators and denominators.
    """
    of_numerators, of_denominators = np.zeros(scores_NP.shape), np.empty(scores_NP.shape)

    def sum_one(rows: slice, numerator: Numerator) -> float:
        scores = scores_NP[rows]
        if isinstance(numerator, np.ndarray):
            log_numerator, of_numerators[rows] = sum_allowed(numerator, scores, denominator)
        else:
            log_numerator, of_numerators[rows] = sum_numerator(numerator, scores)
        log_denominator, of_denominators[rows] = denominator.sum_paths(scores)
        return log_denominator - log_numerator

    lengths = [len(numerator) for numerator in numerators]
    utterances = map(slice, np.cumsum([0, *lengths]), np.cumsum(lengths))
    mmi = 0.0
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:  # C++ lets other threads go on
        for value in pool.map(sum_one, utterances, numerators):
            mmi += value
    return mmi, of_numerators, of_denominators


def sum_numerator(numerator: AlignedLattice, scores: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the log of the sum over the paths of a numerator, and its derivatives by the scores
    [T, P], which are posteriors.
    """
    place = (numerator.frame, numerator.tid - 1)
    expectation = expect(numerator, scores[place], np.zeros(len(numerator.frame)))
    share = np.zeros(scores.shape)
    share[place] = expectation.share
    return expectation.log_total, share


def sum_allowed(
    allowed: np.ndarray, scores: np.ndarray, denominator: LeakyHmm
) -> tuple[float, np.ndarray]:
    """Return the same for the paths of the denominator through the allowed pdfs [T, P]."""
    return denominator.sum_paths(np.where(allowed, scores, NEVER))


def _as_tensor_like(like: Tensor, values: np.ndarray) -> Tensor:
    """Values as a tensor of the type and on the device of `like`."""
    return torch.from_numpy(values).to(like)
