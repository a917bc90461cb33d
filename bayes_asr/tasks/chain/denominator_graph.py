"""Denominator graph of LF-MMI: all phone sequences, on arcs that emit one pdf each.

Povey et al. 2016, "Purely sequence-trained neural networks for ASR based on lattice-free MMI".
"""

from dataclasses import dataclass

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.transducers import sources
from bayes_asr.kaldi_io.openfst import Fst

STEPS = 100  # over which initial probabilities are averaged


@dataclass(frozen=True)
class DenominatorGraph:
    """Arcs [A] between S states, sorted by source; paths may begin and end anywhere.

    `source`, `target`, `pdf` int32 [A]; `prob` float64 [A], of which those of a state sum to about
    1; `initial` float64 [S], which sum to 1.
    """

    num_states: int
    num_pdfs: int
    source: np.ndarray
    target: np.ndarray
    pdf: np.ndarray
    prob: np.ndarray
    initial: np.ndarray

    @classmethod
    def of_fst(cls, fst: Fst, num_pdfs: int) -> "DenominatorGraph":
        """Graph of an acceptor of pdf-ids plus one, such as Kaldi's den.fst.

        InputError where it reads nothing somewhere, other pdfs than P `num_pdfs`, or where a state
        cannot be reached.
        """
        if not len(fst.ilabel):
            raise InputError("the denominator graph has no arcs; make it of more alignments")
        pdf = fst.ilabel - 1
        if pdf.min() < 0:
            raise InputError("the denominator graph has arcs that emit nothing; remove epsilons")
        if pdf.max() >= num_pdfs:
            raise InputError(
                f"the denominator graph emits pdf {pdf.max()}, but the model has {num_pdfs};"
                " take the graph of this model"
            )
        source = sources(fst).astype(np.int32)
        prob, ends = (elementary.exp(-costs) for costs in (fst.weight, fst.final))
        states = len(fst.final)
        initial = _average_occupancy(fst.start, source, fst.nextstate, prob, ends)
        if not (initial > 0).all():
            raise InputError(
                f"the denominator graph has states that are not reached within {STEPS} frames, such"
                f" as {int(np.argmin(initial))}; remove them"
            )
        return cls(states, num_pdfs, source, fst.nextstate, pdf, prob, initial)


def _average_occupancy(
    start: int, source: np.ndarray, target: np.ndarray, prob: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Mean occupancy of each state over the first STEPS frames, float64 [S].

    Kaldi: chain-den-graph.cc, SetInitialProbs. `ends` [S]: the probabilities of final states.
    """
    states = len(ends)
    total_prob = np.bincount(source, prob, states) + ends
    # Each state is normalised with its final probability, and ended paths leave the sum.
    transition_prob = prob / total_prob[source]
    occupancy: np.ndarray = np.eye(1, states, start)[0]
    mean = np.zeros(states)
    for _ in range(STEPS):
        mean += occupancy / STEPS
        occupancy = np.bincount(target, occupancy[source] * transition_prob, states)
        occupancy = occupancy / occupancy.sum()
    return mean
