"""Alignments: the HMM state of each frame, at equal lengths or by Gaussian mixtures."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.align.best_path import Alignment, AlignOptions, Result, find_best_path
from bayes_asr.decode.graph.transducers import sources
from bayes_asr.decode.graph.transition_index import index_transitions, transition_costs
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.inputs import build_decoding_graph, check_loglikes
from bayes_asr.gmm.likelihood import log_likelihoods
from bayes_asr.gmm.randomness import Random
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.transition_model import TransitionModel

MAX_WALKS = 10  # through a graph, to find one that is short enough
HASH_BASE = 7853  # Kaldi's StringHasher
# The search of Kaldi's FasterDecoder, which fails on what has little to do with its transcript.
ALIGN_SI = AlignOptions(min_active=20, strict=True)


@dataclass(frozen=True)
class Aligner:
    """Viterbi aligner of utterances by a model.

    It adds the transition probabilities, which the graphs of `graphs.GraphCompiler` lack.
    """

    model: TransitionModel
    mixtures: Mixtures
    engine: Engine
    options: AlignOptions = ALIGN_SI

    @cached_property
    def costs(self) -> np.ndarray:
        """The cost of each transition-id, scaled, float32 [N + 1]."""
        options = self.options
        scales = options.transition_scale, options.self_loop_scale
        return transition_costs(self.model, index_transitions(self.model), *scales)

    def align(self, utt: str, graph: Fst, x: np.ndarray) -> Alignment:
        """Return the best path of frames x [T, D] through a graph (Kaldi's gmm-align-compiled).

        Only the pdfs of the graph are scored. InputError, naming the utterance, where there is no
        path within the wider beam. The cost is that of the scaled log-likelihoods and the graph.
        """
        if graph.ilabel.max(initial=0) >= len(self.costs):
            raise InputError(f"{utt}: its graph is of another model; compile the graphs again")
        graph = replace(graph, weight=graph.weight + self.costs[graph.ilabel])
        network = build_decoding_graph(graph, self.model, utt)
        # The columns of the log-likelihoods are those of the pdfs in this graph, without gaps.
        pdfs, column = np.unique(network.column, return_inverse=True)
        network = replace(network, column=column.astype(np.int32), num_pdfs=len(pdfs))
        loglikes = check_loglikes(network, utt, log_likelihoods(self.mixtures, x, pdfs))
        return find_best_path(utt, network, loglikes, self.options, self.engine)


class FeatureReader(Protocol):
    """The features [T, D] of utterances."""

    def __getitem__(self, utt: str, /) -> np.ndarray: ...


def align_all(
    aligner: Aligner, graphs: Iterable[tuple[str, Fst]], features: FeatureReader
) -> Iterator[Result]:
    """Align utterances in the order of their graphs; the result is an error where that fails."""
    for utt, graph in graphs:
        try:
            yield utt, aligner.align(utt, graph, features[utt])
        except InputError as error:
            yield utt, error


def boost_silence(
    mixtures: Mixtures, model: TransitionModel, phones: Iterable[int], factor: float
) -> Mixtures:
    """Multiply the weights of all pdfs of silence `phones` (Kaldi's gmm-boost-silence).

    A pdf that they share with others is boosted too.
    """
    pdfs = np.unique(model.pdf[1:][np.isin(model.phone[1:], [*phones])])
    boosted = np.isin(mixtures.pdfs, pdfs)
    weights = np.where(boosted, np.float32(factor) * mixtures.weights, mixtures.weights)
    return replace(mixtures, weights=weights)


def align_equal_compiled(utt: str, graph: Fst, frames: int, seed: int = 0) -> np.ndarray:
    """Return transition-ids int32 [frames] of a random path, with states of equal lengths.

    As Kaldi's align-equal-compiled, whose random numbers these are with seed 0; the paths of both
    are equal where the graph has only one. InputError where none of ten paths has so few states.
    """
    random = Random(_hash(utt) + seed)
    for _ in range(MAX_WALKS):
        states, arcs = _walk(graph, random)
        tids = graph.ilabel[arcs]
        emitting = int(np.count_nonzero(tids))
        if emitting <= frames:
            break
    else:
        raise InputError(
            f"{utt}: {frames} frames, but its transcript has {emitting} states; look whether the"
            " transcript is that of the recording"
        )
    loop = _find_loops(graph)[states]
    looping = np.flatnonzero(loop)
    if emitting < frames and not len(looping):
        raise InputError(f"{utt}: {frames} frames, but none of its {emitting} states can last")
    # Self-loops share the frames that are left; the first states get one more.
    counts = np.zeros(len(states), np.int64)
    if len(looping):
        shortest, remainder = divmod(frames - emitting, len(looping))
        counts[looping] = shortest
        counts[looping[:remainder]] += 1
    # After the loops of a state comes the arc that leaves it; no arc leaves the last one.
    labels = np.stack([loop, np.append(tids, 0)], axis=1).reshape(-1)
    times = np.stack([counts, np.append(tids > 0, 0)], axis=1).reshape(-1)
    return np.repeat(labels, times).astype(np.int32)


def _walk(graph: Fst, random: Random) -> tuple[np.ndarray, np.ndarray]:
    """The states and arcs of a random path, each arc or end as likely as the others."""
    states: list[int] = [graph.start]
    arcs: list[int] = []
    while True:
        begin, end = graph.offsets[states[-1] : states[-1] + 2].tolist()
        # Ending here is one choice more, numbered behind the arcs; one choice draws no number.
        choices = end - begin + bool(np.isfinite(graph.final[states[-1]]))
        arc = begin + (int(random.integers(1)[0]) % choices if choices > 1 else 0)
        if arc == end:
            return np.array(states), np.array(arcs, np.int64)
        # A self-loop is drawn and passed over, as in Kaldi: `align_equal_compiled` adds the loops.
        if graph.nextstate[arc] != states[-1]:
            arcs.append(arc)
            states.append(int(graph.nextstate[arc]))


def _find_loops(graph: Fst) -> np.ndarray:
    """The transition-id of the self-loop of each state, 0 where it has none."""
    source = sources(graph)
    loops = np.flatnonzero((graph.nextstate == source) & (graph.ilabel > 0))
    loop_of = np.zeros(graph.num_states, np.int64)
    loop_of[source[loops[::-1]]] = graph.ilabel[loops[::-1]]  # the first of several
    return loop_of


def _hash(utt: str) -> int:
    """Kaldi's seed for an utterance: its bytes as digits, in an int32."""
    number = 0
    for byte in np.frombuffer(utt.encode(), np.int8).tolist():
        number = number * HASH_BASE + byte
    return (number + 2**31) % 2**32 - 2**31
