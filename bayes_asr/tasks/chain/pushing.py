"""Weight pushing of cyclic acceptors, until all their states sum to the same.

Hannemann, Povey & Zweig 2013, "Combining forward and backward search in decoding"; Kaldi:
fstext/push-special.cc.
"""

from dataclasses import replace

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.base.log import LOGGER
from bayes_asr.decode.graph.transducers import sources
from bayes_asr.kaldi_io.openfst import Fst

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
    eigenvector = np.full(fst.num_states, 1 / np.sqrt(fst.num_states))
    for step in range(LONGEST):
        outgoing = np.bincount(source, prob * eigenvector[target], fst.num_states)
        outgoing += ends * eigenvector[fst.start]
        if step % BETWEEN == 1 and step > 1:
            sums = outgoing / eigenvector
            if elementary.log(sums.max() / sums.min()) <= PRECISION:
                break
        eigenvector = outgoing + INERTIA * eigenvector
        eigenvector /= np.sqrt((eigenvector * eigenvector).sum())
    else:
        LOGGER.warning("pushing of %d states has not converged", fst.num_states)
    # The eigenvector gives the potentials. A path from the start to an end keeps its weight, since
    # the potentials of its states cancel.
    potential = -elementary.log(eigenvector)
    weight = fst.weight + potential[target] - potential[source]
    final = fst.final + potential[fst.start] - potential
    return replace(fst, weight=weight.astype(np.float32), final=final.astype(np.float32))
