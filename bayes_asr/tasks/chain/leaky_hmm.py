"""Sums over all paths of a leaky HMM: the denominator of LF-MMI, and its derivatives.

Between frames a path leaks, with a small probability, from its state to any other, by their initial
probabilities. Kaldi: version 3 in chain/chain-denominator.h.
"""

import math

import numpy as np
import torch
from torch import Tensor

from bayes_asr.tasks.chain import compiled
from bayes_asr.tasks.chain.denominator_graph import DenominatorGraph


class LeakyHmm:
    """A graph with a leak, laid out for the sums; leak: Kaldi's leaky-hmm-coefficient, above 0."""

    def __init__(self, graph: DenominatorGraph, leak: float) -> None:
        if not leak > 0:
            raise ValueError(f"a leak of {leak}: it is above 0")
        self.graph, self.leak = graph, leak
        self._arcs = compiled.CompiledHmm(graph) if compiled.LIBRARY.usable else None

    def sum_paths(self, scores: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log of the sum over all paths, and its derivatives by the scores [T, P].

        scores: log-likelihoods of pdfs, not clipped. Computed in double precision, by C++ where
        that is built. Where the log is not finite, as for scores that are not, derivatives are 0.
        """
        if scores.shape[1:] != (self.graph.num_pdfs,):
            raise ValueError(f"scores {scores.shape} for {self.graph.num_pdfs} pdfs")
        if self._arcs is not None:
            return self._arcs.sum_paths(scores, self.leak)
        leaf = torch.from_numpy(scores.astype(np.float64)).requires_grad_()
        with torch.enable_grad():
            log_total = sum_paths_in_torch(self.graph, self.leak, leaf)
        if not math.isfinite(log_total.item()):
            return log_total.item(), np.zeros(scores.shape)  # autograd would give NaN
        (share,) = torch.autograd.grad(log_total, leaf)
        return log_total.item(), share.numpy()


def sum_paths_in_torch(graph: DenominatorGraph, leak: float, scores_TP: Tensor) -> Tensor:
    """The log of the sum over all paths at scores [T, P] by its definition, differentiable."""
    source, target, pdf = (
        torch.from_numpy(x.astype(np.int64)) for x in (graph.source, graph.target, graph.pdf)
    )
    log_prob, log_initial = (torch.from_numpy(np.log(x)) for x in (graph.prob, graph.initial))
    entered, place = torch.unique(target, return_inverse=True)

    # After each frame: alpha'(s) = alpha(s) + leak * initial(s) * sum over s' of alpha(s').
    def add_leak(alpha_S: Tensor) -> Tensor:
        leaked = alpha_S.logsumexp(0) + math.log(leak) + log_initial
        return torch.logaddexp(alpha_S, leaked)

    alpha_S = add_leak(log_initial)
    for frame_P in scores_TP:
        arcs_A = alpha_S[source] + log_prob + frame_P[pdf]
        # A log-sum-exp over the arcs into each state: subtract the largest score of a state first.
        # States that no arc enters are left out, whose largest score would be -inf.
        maxima = torch.full((len(entered),), -math.inf, dtype=arcs_A.dtype)
        maxima = maxima.scatter_reduce(0, place, arcs_A.detach(), "amax")
        sums = torch.zeros_like(maxima).index_add(0, place, (arcs_A - maxima[place]).exp())
        never = torch.full_like(alpha_S, -math.inf)
        alpha_S = add_leak(never.index_copy(0, entered, sums.log() + maxima))
    return alpha_S.logsumexp(0)
