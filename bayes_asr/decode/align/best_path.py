"""The best path of an utterance through a decoding graph: its alignment."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.safe_pickle import loadable
from bayes_asr.config.decoding_keys import UNLIMITED, SearchOptions
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.search_graph import Arcs, DecodingGraph

NARROW = 0.01  # lattice beam: only the best path is asked for


@dataclass(frozen=True)
class AlignOptions:
    """Options of Kaldi's steps/align_si.sh; the beams are in units of scaled costs.

    min_active: how many states stay in the search, whatever the beam; strict: as of the search;
    rescue: what is lost even so is searched once more, with as many states as in decoding.
    """

    acoustic_scale: float = 0.1
    beam: float = 10.0
    retry_beam: float = 40.0
    transition_scale: float = 1.0
    self_loop_scale: float = 0.1
    min_active: int = SearchOptions.min_active
    strict: bool = False
    rescue: bool = False


@loadable
@dataclass(frozen=True)
class Alignment:
    """Transition-ids int32 [T] of the best path, its scaled cost, and whether it was retried."""

    transition_ids: np.ndarray
    cost: float
    retried: bool


Result = tuple[str, Alignment | InputError]


def find_best_path(
    utt: str,
    graph: DecodingGraph,
    loglikes: np.ndarray,
    options: AlignOptions,
    engine: Engine,
    description: str = "its transcript",
) -> Alignment:
    """Search unscaled log-likelihoods [T, P] for the best path to an end of a graph.

    description: of the graph, in messages. Raises InputError, naming the utterance, where no path
    is within the wider beam, or none has so few frames.
    """
    frames = np.float32(options.acoustic_scale) * loglikes
    searches = _list_searches(options)
    for search in searches:
        lattice, reached = engine.search(graph, frames, search)
        if lattice is not None and reached:
            # The graph is of one transcript: the lattice beam leaves its best path alone.
            arcs, last = engine.best_arcs(lattice)
            costs = lattice.graph[arcs].astype(np.float64) + lattice.acoustic[arcs]
            tids = lattice.ilabel[arcs]
            cost = float(costs.sum() + lattice.final_graph[last])
            return Alignment(tids[tids > 0], cost, search is not searches[0])
    least = count_least_frames(graph)
    if least is not None and least > len(frames):
        raise InputError(
            f"{utt}: no path of {description} through {len(frames)} frames, as each takes at least"
            f" {least}; look at its transcript, and at where it begins and ends"
        )
    raise InputError(
        f"{utt}: no path of {description} through {len(frames)} frames within the beam"
        f" {searches[-1].beam:g}; look at its transcript, or try a wider beam"
    )


def count_least_frames(graph: DecodingGraph) -> int | None:
    """The frames of the shortest path to an end of a graph; None where no path leads there."""
    is_reached = np.zeros(graph.num_states, bool)
    layer, frames = np.array([graph.start]), 0
    while len(layer):
        new = layer
        while len(new):  # by arcs that take no frame
            is_reached[new] = True
            new = _follow(graph.epsilon, new, is_reached)
            layer = np.concatenate([layer, new])
        if np.isfinite(graph.final[layer]).any():
            return frames
        layer, frames = _follow(graph.emitting, layer, is_reached), frames + 1
    return None


def _follow(arcs: Arcs, states: np.ndarray, is_reached: np.ndarray) -> np.ndarray:
    """The states to which arcs of `states` lead and that were not reached before."""
    ends = np.unique(arcs.nextstate[arcs.leaving(states)[1]])
    return ends[~is_reached[ends]]


@cache
def _list_searches(options: AlignOptions) -> list[SearchOptions]:
    """The searches to try, one after the other."""
    widest = max(options.beam, options.retry_beam)
    # With retry_beam, as gmm-align-compiled; then perhaps without the bounds that lost the path.
    loose = SearchOptions(options.acoustic_scale, widest, UNLIMITED, lattice_beam=NARROW)
    tight = replace(loose, min_active=options.min_active, strict=options.strict)
    searches = [replace(tight, beam=beam) for beam in sorted({options.beam, widest})]
    return [*searches, loose] if options.rescue else searches
