"""Forced alignment: the best path of an utterance through the HMM of its transcript."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.align.best_path import Alignment, AlignOptions, Result, find_path
from bayes_asr.decode.align.transcript import Speech, build_transcript_fst, read_speech
from bayes_asr.decode.search.embedded import ENGINES
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.inputs import build_decoding_graph, check_loglikes

Source = tuple[Path, Path, str | None]  # the arguments of read_speech
_speech_of = cache(read_speech)  # once in each process


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
        scales = options.transition_scale, options.self_loop_scale
        graph = build_transcript_fst(words, speech, *scales)
    except InputError as error:
        raise InputError(f"{utt}: {error}") from None
    network = build_decoding_graph(graph, speech.model, utt)
    loglikes, said = check_loglikes(network, utt, loglikes), f"its {len(words)} words"
    return find_path(utt, network, loglikes, options, engine, said)


def align_one(
    source: Source,
    options: AlignOptions,
    engine: str,
    utt: str,
    given: tuple[list[str] | None, np.ndarray],
) -> Result:
    """Align the words and log-likelihoods [T, P] of one utterance, here or in a worker process."""
    words, loglikes = given
    try:
        if words is None:
            raise InputError(f"{utt}: there is no transcript")
        speech = _speech_of(*source)
        return utt, align_utterance(utt, words, loglikes, speech, options, ENGINES[engine])
    except InputError as error:
        return utt, error


def word_spans(
    words: Sequence[str], transition_ids: np.ndarray, speech: Speech
) -> list[tuple[int, int]]:
    """The first frame of each word, and the first after it, in an alignment of these words.

    Where phones can be shared among words in several ways, one is taken.
    """
    model, tids = speech.model, transition_ids
    begins = np.flatnonzero((model.hmm_state[tids] == 0) & ~model.self_loop[tids])
    phones = model.phone[tids[begins]].tolist()
    before: list[dict[int, tuple[int, int]]] = []  # for each word, by its end: places before, of it
    ends = {0: (0, 0)}
    for word in words:
        found: dict[int, tuple[int, int]] = {}
        for place in ends:
            pause = place < len(phones) and phones[place] == speech.silence
            for start in (place, place + 1) if pause else (place,):
                for _, said in speech.pronounce(word):
                    if phones[start : start + len(said)] == said:
                        found.setdefault(start + len(said), (place, start))
        before.append(found)
        ends = found
    if not ends or max(ends) < len(phones) - 1:
        raise InputError(f"the alignment is not of its {len(words)} words")
    frames = [*begins.tolist(), len(tids)]
    place, spans = max(ends), []
    for found in reversed(before):
        earlier, start = found[place]
        spans.append((frames[start], frames[place]))
        place = earlier
    return spans[::-1]
