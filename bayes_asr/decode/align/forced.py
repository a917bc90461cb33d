"""Forced alignment of an utterance: the best path through the HMM of its transcript, and the frames
of its words.
"""

from collections.abc import Sequence

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.align.best_path import Alignment, AlignOptions, find_best_path
from bayes_asr.decode.align.pronouncer import Pronouncer, build_transcript_fst
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.inputs import build_decoding_graph, check_loglikes
from bayes_asr.kaldi_io.transition_model import phone_spans


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


def word_spans(
    words: Sequence[str], transition_ids: np.ndarray, pronouncer: Pronouncer
) -> list[tuple[int, int]]:
    """The first frame of each word, and the first after it, in an alignment of these words.

    Where phones can be shared among words in several ways, one is taken.
    """
    phones, begins, _ = (x.tolist() for x in phone_spans(pronouncer.model, transition_ids))
    # For each word, by the place in `phones` where it ends: the end of the word before it, and the
    # place where it begins, which differ by a pause.
    backpointers: list[dict[int, tuple[int, int]]] = []
    ends = {0: (0, 0)}
    for word in words:
        reached: dict[int, tuple[int, int]] = {}
        for place in ends:
            pause = place < len(phones) and phones[place] == pronouncer.silence
            for start in (place, place + 1) if pause else (place,):
                for _, phone_ids in pronouncer.pronounce(word):
                    if phones[start : start + len(phone_ids)] == phone_ids:
                        reached.setdefault(start + len(phone_ids), (place, start))
        backpointers.append(reached)
        ends = reached
    # One phone may be left after the last word: a pause.
    if not ends or max(ends) < len(phones) - 1:
        raise InputError(f"the alignment is not of its {len(words)} words")
    frames = [*begins, len(transition_ids)]
    # Backwards from the end that covers most phones.
    place, spans = max(ends), []
    for reached in reversed(backpointers):
        earlier, start = reached[place]
        spans.append((frames[start], frames[place]))
        place = earlier
    return spans[::-1]
