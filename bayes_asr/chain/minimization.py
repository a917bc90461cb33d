"""Fewer states and arcs for acceptors that go round: pushed both ways, minimized both ways.

Kaldi: chain-den-graph.cc, DenGraphMinimizeWrapper; fstext/push-special.cc.
"""

from dataclasses import replace

import numpy as np

from bayes_asr.graph.transducers import from_kaldifst, load_kaldifst, sources, to_kaldifst
from bayes_asr.log import LOGGER
from bayes_asr.tables.fst import Fst

PASSES = 3
DELTA = 1 / 1024  # OpenFst's kDelta
QUANTUM = DELTA * 10  # costs nearer than about this are one
PRECISION = DELTA * 0.01  # of pushing: of the log of what states sum to
LONGEST = 200  # steps of pushing
BETWEEN = 5  # steps from one test of the precision to the next
INERTIA = 0.1  # so that acceptors whose eigenvalues are of one size converge


def minimize(fst: Fst) -> Fst:
    """Return an acceptor without epsilons whose complete paths sum to about the same."""
    kaldifst = load_kaldifst()
    for _ in range(PASSES):
        for _ in ("backwards", "forwards"):
            turned = from_kaldifst(kaldifst.reverse(to_kaldifst(fst, "ilabel")))
            pushed = to_kaldifst(push(turned), "ilabel")
            kaldifst.minimize_encoded(pushed, QUANTUM)
            fst = from_kaldifst(pushed)
    smallest = to_kaldifst(fst, "ilabel")
    kaldifst.rmepsilon(smallest)
    return push(from_kaldifst(smallest))


def push(fst: Fst) -> Fst:
    """Move weights along paths until what leaves a state, or ends there, sums to one number for all.

    The whole of a path keeps its weight. That number is the largest eigenvalue of the transitions,
    where ends lead to the start.
    """
    source, target = sources(fst), fst.nextstate
    prob, ends = (np.exp(-costs.astype(np.float64)) for costs in (fst.weight, fst.final))
    worth = np.full(fst.num_states, 1 / np.sqrt(fst.num_states))
    for step in range(LONGEST):
        leaving = np.bincount(source, prob * worth[target], fst.num_states)
        leaving += ends * worth[fst.start]
        if step % BETWEEN == 1 and step > 1:
            sums = leaving / worth
            if np.log(sums.max() / sums.min()) <= PRECISION:
                break
        worth = leaving + INERTIA * worth
        worth /= np.sqrt(worth @ worth)
    else:
        LOGGER.warning("pushing of %d states has not converged", fst.num_states)
    height = -np.log(worth)
    weight = fst.weight + height[target] - height[source]
    final = fst.final + height[fst.start] - height
    return replace(fst, weight=weight.astype(np.float32), final=final.astype(np.float32))
