"""Forced alignment: the best path of an utterance through the HMM of its transcript."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayes_asr.decode.embedded import Engine
from bayes_asr.decode.network import build_network, check_loglikes
from bayes_asr.decode.options import DecodeOptions
from bayes_asr.decode.transcript import Speech, transcript_fst
from bayes_asr.errors import InputError

NARROW = 0.01  # lattice beam: only the best path is asked for


@dataclass(frozen=True)
class AlignOptions:
    """Options of Kaldi's steps/align_si.sh; the beams are in units of scaled costs."""

    acoustic_scale: float = 0.1
    beam: float = 10.0
    retry_beam: float = 40.0
    transition_scale: float = 1.0
    self_loop_scale: float = 0.1


@dataclass(frozen=True)
class Alignment:
    """Transition-ids int32 [T] of the best path, its scaled cost, and whether it was retried."""

    transition_ids: np.ndarray
    cost: float
    retried: bool


def align_utterance(
    utt: str,
    words: Sequence[str],
    loglikes: np.ndarray,
    speech: Speech,
    options: AlignOptions,
    engine: Engine,
) -> Alignment:
    """Align unscaled log-likelihoods [T, P] with `words`, a second time at a wider beam if need be.

    Raises InputError, naming the utterance, for what cannot be aligned.
    """
    try:
        graph = transcript_fst(words, speech, options.transition_scale, options.self_loop_scale)
    except InputError as error:
        raise InputError(f"{utt}: {error}") from None
    network = build_network(graph, speech.model, utt)
    frames = np.float32(options.acoustic_scale) * check_loglikes(network, utt, loglikes)
    for beam in (options.beam, options.retry_beam):
        search = DecodeOptions(options.acoustic_scale, beam, min_active=20, lattice_beam=NARROW)
        lattice, reached = engine.search(network, frames, search)
        if lattice is not None and reached:
            arcs, last = engine.best_arcs(lattice)
            costs = lattice.graph[arcs].astype(np.float64) + lattice.acoustic[arcs]
            tids = lattice.ilabel[arcs]
            cost = float(costs.sum() + lattice.final_graph[last])
            return Alignment(tids[tids > 0], cost, beam != options.beam)
    raise InputError(
        f"{utt}: no path of its {len(words)} words through {len(frames)} frames within the beam"
        f" {options.retry_beam:g}; look at its transcript, or try a wider beam"
    )
