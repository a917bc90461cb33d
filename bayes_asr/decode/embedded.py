"""Decode one utterance with the embedded search."""

import numpy as np

from bayes_asr.decode.lattice import best_arcs, raw_lattice
from bayes_asr.decode.network import Network, check_loglikes
from bayes_asr.decode.options import DecodeOptions, DecodeResult
from bayes_asr.decode.tokens import Search, finish
from bayes_asr.tables.lattice import Lattice


def find_lattice(
    network: Network, loglikes: np.ndarray, options: DecodeOptions
) -> tuple[Lattice | None, bool]:
    """Search log-likelihoods [T, num_pdfs]: the lattice (scaled costs), final state reached?"""
    search = Search(network, options)
    for frame in np.float32(options.acoustic_scale) * loglikes:
        search.advance(frame)
        if not len(search.frames[-1].state):
            return None, False
    ending, reached = finish(network, search.frames, options.lattice_beam)
    return raw_lattice(network, search.frames, ending), reached


def decode_utterance(
    network: Network, utt: str, loglikes: np.ndarray, options: DecodeOptions
) -> DecodeResult:
    """Decode unscaled log-likelihoods [T, num_pdfs]: best path with costs, lattice.

    Without a surviving path, or with a partial one that is not allowed, words are empty.
    """
    lattice, reached = find_lattice(network, check_loglikes(network, utt, loglikes), options)
    if lattice is None or not (reached or options.allow_partial):
        return DecodeResult(utt, [], np.empty(0, np.int32), np.inf, np.inf, reached, None)
    arcs, last = best_arcs(lattice)
    words, tids = lattice.olabel[arcs], lattice.ilabel[arcs]
    graph = float(lattice.graph[arcs].sum(dtype=np.float64) + lattice.final_graph[last])
    acoustic = float(lattice.acoustic[arcs].sum(dtype=np.float64)) / options.acoustic_scale
    return DecodeResult(
        utt, words[words > 0].tolist(), tids[tids > 0], graph, acoustic, reached, lattice
    )
