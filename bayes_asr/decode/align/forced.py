"""Forced alignment: the best path of an utterance through the HMM of its transcript."""

from collections.abc import Sequence

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.align.best_path import Alignment, AlignOptions, find_best_path
from bayes_asr.decode.align.transcript import Pronouncer, build_transcript_fst
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.inputs import build_decoding_graph, check_loglikes


def align_utterance(
    utt: str,
    words: Sequence[str],
    loglikes: np.ndarray,
    pronouncer: Pronouncer,
    options: AlignOptions,
    engine: Engine,
) -> Alignment:
    """Align unscaled log-likelihoods [T, P] with `words`, a second time at a wider beam if need be.

    Raises InputError, naming the utterance, for what cannot be aligned.
    """
    try:
        scales = options.transition_scale, options.self_loop_scale
        graph = build_transcript_fst(words, pronouncer, *scales)
    except InputError as error:
        raise InputError(f"{utt}: {error}") from None
    decoding_graph = build_decoding_graph(graph, pronouncer.model, utt)
    loglikes, description = check_loglikes(decoding_graph, utt, loglikes), f"its {len(words)} words"
    return find_best_path(utt, decoding_graph, loglikes, options, engine, description)
