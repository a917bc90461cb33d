"""Transducers of graph building: FSTs of arcs, and their arcs sorted and relabelled."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.openfst import Fst

EPSILON, BACKOFF, START, END = "<eps>", "#0", "<s>", "</s>"  # of words.txt, beside the words
RESERVED = (EPSILON, BACKOFF, START, END)
NO_PHONE = -1  # of an arc of a PhoneAcceptor that reads nothing
MOST_BACKOFFS = 30  # in a row, of an n-gram of as many words and one
Arc = tuple[int, int, int, float, int]  # source, input label, output label, cost, next state
PhoneArc = tuple[int, int, float, int]  # source, phone-id, cost, next state


@dataclass(frozen=True)
class PhoneAcceptor:
    """A deterministic acceptor of phones from state 0: its arcs, the costs of its final states."""

    arcs: Sequence[PhoneArc]
    final: Mapping[int, float]


def check_words(fst: Fst, words: Collection[int], path: Path) -> None:
    """InputError where an FST writes what is none of `words`, the numbers of words.txt."""
    strange = fst.olabel[~np.isin(fst.olabel, [0, *words])]
    if len(strange):
        raise InputError(
            f"{path}: word {strange.min()} is not in the words.txt of {len(words)} symbols beside"
            " it; take both from one folder"
        )


def build_fst(arcs: Sequence[Arc], final: Mapping[int, float], start: int = 0) -> Fst:
    """Return the FST of `arcs` (in any order) whose states are all those named; `final`: costs."""
    source, ilabel, olabel, weight, nextstate = (
        np.array(column) for column in zip(*arcs, strict=True)
    )
    states = int(max(source.max(), nextstate.max(), *final, start)) + 1
    costs = np.full(states, np.inf, np.float32)
    for state, cost in final.items():
        costs[state] = cost
    return sort_arcs(source, ilabel, olabel, weight, nextstate, costs, start)


def sort_arcs(
    source: np.ndarray,
    ilabel: np.ndarray,
    olabel: np.ndarray,
    weight: np.ndarray,
    nextstate: np.ndarray,
    final: np.ndarray,
    start: int,
) -> Fst:
    """The FST of A arcs [A] in any order; the arcs of a state keep theirs."""
    order = np.argsort(source, kind="stable")  # arcs of a state next to each other
    counts = np.bincount(source, minlength=len(final))
    return Fst(
        start=start,
        final=final.astype(np.float32),
        offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        ilabel=ilabel[order].astype(np.int32),
        olabel=olabel[order].astype(np.int32),
        weight=weight[order].astype(np.float32),
        nextstate=nextstate[order].astype(np.int32),
    )


def sources(fst: Fst) -> np.ndarray:
    """The source state of each arc, int64 [A]."""
    return np.repeat(np.arange(fst.num_states), np.diff(fst.offsets))


def sort_by_output(fst: Fst) -> Fst:
    """Sort the arcs of each state by output label, those of one label as they were (fstarcsort)."""
    # By source first, so that the offsets stay; lexsort is stable.
    order = np.lexsort((fst.olabel, sources(fst)))
    columns = ("ilabel", "olabel", "weight", "nextstate")
    return replace(fst, **{name: getattr(fst, name)[order] for name in columns})


def drop_labels(fst: Fst, labels: Sequence[int]) -> Fst:
    """Turn the input `labels` into epsilons (fstrmsymbols)."""
    return replace(
        fst, ilabel=np.where(np.isin(fst.ilabel, labels), 0, fst.ilabel).astype(np.int32)
    )
