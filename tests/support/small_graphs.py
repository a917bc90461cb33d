"""Small random denominator graphs, and the sum over their paths by enumeration."""

from itertools import product

import numpy as np

from bayes_asr.tasks.chain.denominator_graph import DenominatorGraph


def random_graph(seed: int, states: int = 3, pdfs: int = 4, arcs: int = 7) -> DenominatorGraph:
    """A graph in which every state is left; some may be entered only at the beginning."""
    rng = np.random.default_rng(seed)
    source = np.sort(np.concatenate([np.arange(states), rng.integers(0, states, arcs - states)]))
    prob = rng.random(arcs) + 0.1
    prob /= np.bincount(source, prob, states)[source]
    target, pdf = rng.integers(0, states, arcs), rng.integers(0, pdfs, arcs)
    initial = rng.dirichlet(np.ones(states))
    ends = (x.astype(np.int32) for x in (source, target, pdf))
    return DenominatorGraph(states, pdfs, *ends, prob, initial)


def enumerate_sum(graph: DenominatorGraph, leak: float, scores: np.ndarray) -> float:
    """The log of the sum over every sequence of arcs, with or without a leak before each."""
    jump = np.eye(graph.num_states) + leak * graph.initial
    total = 0.0
    for arcs in product(range(len(graph.source)), repeat=len(scores)):
        path = list(arcs)
        source, target = graph.source[path], graph.target[path]
        weight = (graph.initial @ jump)[source[0]] * jump[target[-1]].sum()
        weight *= jump[target[:-1], source[1:]].prod() * graph.prob[path].prod()
        total += weight * np.exp(scores[np.arange(len(path)), graph.pdf[path]].sum())
    return float(np.log(total))
