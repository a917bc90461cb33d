"""Forced alignment: the best path of an utterance through the HMM of its transcript."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.align.best_path import Alignment, AlignOptions, Result, find_best_path
from bayes_asr.decode.align.transcript import Pronouncer, build_transcript_fst, read_pronouncer
from bayes_asr.decode.search.embedded import ENGINES
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.inputs import build_decoding_graph, check_loglikes

PronouncerFiles = tuple[Path, Path, str | None]  # the arguments of read_pronouncer
_read_once = cache(read_pronouncer)  # once in each process


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


def align_item(
    files: PronouncerFiles,
    options: AlignOptions,
    engine: str,
    utt: str,
    inputs: tuple[list[str] | None, np.ndarray],
) -> Result:
    """Align the words and log-likelihoods [T, P] of one utterance, here or in a worker process."""
    words, loglikes = inputs
    try:
        if words is None:
            raise InputError(f"{utt}: there is no transcript")
        pronouncer = _read_once(*files)
        return utt, align_utterance(utt, words, loglikes, pronouncer, options, ENGINES[engine])
    except InputError as error:
        return utt, error
