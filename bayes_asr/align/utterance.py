"""Forced alignment: the best path of an utterance through the HMM of its transcript."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from bayes_asr.align.transcript import Speech, build_transcript_fst, read_speech
from bayes_asr.decode.embedded import ENGINES, Engine
from bayes_asr.decode.loading import build_network, check_loglikes
from bayes_asr.decode.options import DecodeOptions
from bayes_asr.decode.search_graph import Network
from bayes_asr.errors import InputError

NARROW = 0.01  # lattice beam: only the best path is asked for
Source = tuple[Path, Path, str | None]  # the arguments of read_speech
_speech_of = cache(read_speech)  # once in each process


@dataclass(frozen=True)
class AlignOptions:
    """Options of Kaldi's steps/align_si.sh; the beams are in units of scaled costs.

    min_active: how many states stay in the search, whatever the beam; strict: as of the search.
    """

    acoustic_scale: float = 0.1
    beam: float = 10.0
    retry_beam: float = 40.0
    transition_scale: float = 1.0
    self_loop_scale: float = 0.1
    min_active: int = DecodeOptions.min_active
    strict: bool = False


@dataclass(frozen=True)
class Alignment:
    """Transition-ids int32 [T] of the best path, its scaled cost, and whether it was retried."""

    transition_ids: np.ndarray
    cost: float
    retried: bool


Result = tuple[str, Alignment | InputError]


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
    network = build_network(graph, speech.model, utt)
    loglikes, said = check_loglikes(network, utt, loglikes), f"its {len(words)} words"
    return find_path(utt, network, loglikes, options, engine, said)


def find_path(
    utt: str,
    network: Network,
    loglikes: np.ndarray,
    options: AlignOptions,
    engine: Engine,
    said: str = "its transcript",
) -> Alignment:
    """Search unscaled log-likelihoods [T, P] for the best path to an end of a network.

    said: what the network is of. Raises InputError, naming the utterance, where no path is within
    the wider beam.
    """
    frames = np.float32(options.acoustic_scale) * loglikes
    beams = sorted({options.beam, max(options.beam, options.retry_beam)})
    for beam in beams:
        lattice, reached = engine.search(network, frames, _search_of(options, beam))
        if lattice is not None and reached:
            arcs, last = engine.best_arcs(lattice)
            costs = lattice.graph[arcs].astype(np.float64) + lattice.acoustic[arcs]
            tids = lattice.ilabel[arcs]
            cost = float(costs.sum() + lattice.final_graph[last])
            return Alignment(tids[tids > 0], cost, beam != options.beam)
    raise InputError(
        f"{utt}: no path of {said} through {len(frames)} frames within the beam"
        f" {beams[-1]:g}; look at its transcript, or try a wider beam"
    )


@cache
def _search_of(options: AlignOptions, beam: float) -> DecodeOptions:
    return DecodeOptions(
        options.acoustic_scale,
        beam,
        min_active=options.min_active,
        lattice_beam=NARROW,
        strict=options.strict,
    )


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
