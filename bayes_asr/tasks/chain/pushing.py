"""Weight pushing of cyclic acceptors, until all their states sum to the same.

Hannemann, Povey & Zweig 2013, "Combining forward and backward search in decoding"; Kaldi:
fstext/push-special.cc.
"""

from dataclasses import replace

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.base.log import LOGGER
from bayes_asr.decode.graph.transducers import sources
from bayes_asr.kaldi_io.fst import Fst

PRECISION = 1e-5  # of the log of what states sum to
LONGEST = 200  # steps of pushing
BETWEEN = 5  # steps from one test of the precision to the next
INERTIA = 0.1  # of the vector in a step: else acceptors with eigenvalues of one size oscillate


def push(fst: Fst) -> Fst:
    """Move weights along paths until the arcs and the end of each state sum to the same for all.

    A path keeps its weight. What states sum to is the largest eigenvalue of the transitions,
    where ends lead to the start. It is found by power iteration.
    """
    source, target = sources(fst), fst.nextstate
    prob, ends = (elementary.exp(-costs) for costs in (fst.weight, fst.final))
    worth = np.full(fst.num_states, 1 / np.sqrt(fst.num_states))
    for step in range(LONGEST):
        leaving = np.bincount(source, prob * worth[target], fst.num_states)
        leaving += ends * worth[fst.start]
        if step % BETWEEN == 1 and step > 1:
            sums = leaving / worth
            if elementary.log(sums.max() / sums.min()) <= PRECISION:
                break
        worth = leaving + INERTIA * worth
        worth /= np.sqrt((worth * worth).sum())
    else:
        LOGGER.warning("pushing of %d states has not converged", fst.num_states)
    # The eigenvector gives the potentials. A path from the start to an end keeps its weight, since
    # the potentials of its states cancel.
    height = -elementary.log(worth)
    weight = fst.weight + height[target] - height[source]
    final = fst.final + height[fst.start] - height
    return replace(fst, weight=weight.astype(np.float32), final=final.astype(np.float32))
