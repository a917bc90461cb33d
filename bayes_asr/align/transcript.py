"""The graph of a transcript: every way to say its words, as one HMM.

It is what Kaldi's compile-train-graphs makes, but built straight from the phones. Nothing is made
deterministic, so that the cheapest path through it is exactly that.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bayes_asr.errors import InputError
from bayes_asr.graph.hmm import (
    Transitions,
    add_self_loops,
    index_transitions,
    iter_hmm_arcs,
    window_pdfs,
)
from bayes_asr.graph.lang import Lang, find_phones_file, fit_lexicon, read_lang
from bayes_asr.graph.transducers import Arc, build_fst
from bayes_asr.tables.fst import Fst
from bayes_asr.tables.mdl import TransitionModel, read_transition_model
from bayes_asr.tables.text import read_symbols
from bayes_asr.tables.tree import Tree, read_tree

PhoneArc = tuple[int, int, float, int]  # source, phone-id, cost, next state
WindowArc = tuple[int, tuple[int, ...], float, int]  # source, phone in context, cost, next state


@dataclass(frozen=True)
class Speech:
    """What turns words into HMMs: lexicon, phone table, transition model and tree."""

    lang: Lang
    phones: Mapping[str, int]
    model: TransitionModel
    tree: Tree

    @cached_property
    def transitions(self) -> Transitions:
        """The index of the model's transitions."""
        return index_transitions(self.model)

    @cached_property
    def pronunciations(self) -> dict[str, list[tuple[float, list[int]]]]:
        """The ways to say each word: cost and phone-ids."""
        ways: dict[str, list[tuple[float, list[int]]]] = defaultdict(list)
        for entry in fit_lexicon(self.lang.lexicon, self.phones, self.model):
            labels = [self.phones[phone] for phone in entry.phones]
            ways[entry.word].append((-math.log(entry.probability), labels))
        return ways

    @property
    def silence(self) -> int:
        """The phone-id of pauses, 0 where words have none between them."""
        if not self.lang.silence_probability:
            return 0
        phone = self.phones.get(self.lang.silence or "", 0)
        if phone not in self.model.topology:
            raise InputError(f"the silence phone {self.lang.silence} is not one of the model's")
        return phone

    def pronounce(self, word: str) -> list[tuple[float, list[int]]]:
        """The ways to say `word`, or the word for unknown ones; InputError if there is none."""
        for known in (word, self.lang.unknown):
            if known in self.pronunciations:
                return self.pronunciations[known]
        raise InputError(f"the word {word} is not in the lexicon")


def read_speech(lang: Path, model: Path, unknown: str | None = None) -> Speech:
    """Read a lang, dict or graph folder, and `model` (final.mdl) with the tree beside it.

    `unknown`: the word that stands for words without pronunciation, if not as oov.txt says.
    """
    return Speech(
        read_lang(lang, unknown),
        read_symbols(find_phones_file(lang, model)),
        read_transition_model(model),
        read_tree(model.parent / "tree"),
    )


def build_transcript_fst(
    words: Sequence[str],
    speech: Speech,
    transition_scale: float = 1.0,
    self_loop_scale: float = 0.1,
) -> Fst:
    """Return the graph of `words`: transition-ids on input labels, no output labels.

    Raises InputError for a word that the lexicon lacks and for a transcript that nobody can say.
    """
    arcs: list[Arc] = []
    spoken, final = expand_context(*list_phone_arcs(words, speech), speech.tree)
    states = 1 + max(target for *_, target in spoken) if spoken else 0
    for source, window, cost, target in spoken:
        if not window:
            arcs.append((source, 0, 0, cost, target))
            continue
        phone, pdfs = window[speech.tree.center], window_pdfs(window, speech.model, speech.tree)
        arcs.append((source, 0, 0, cost, states))
        arcs += iter_hmm_arcs(
            phone, pdfs, speech.model, speech.transitions, transition_scale, states
        )
        states += len(speech.model.topology[phone])
        arcs.append((states - 1, 0, 0, 0.0, target))
    if not arcs:
        raise InputError("the transcript is empty, and there is no optional silence")
    whole = build_fst(arcs, final)
    return add_self_loops(whole, speech.model, self_loop_scale, speech.transitions)


def list_phone_arcs(
    words: Sequence[str], speech: Speech
) -> tuple[list[PhoneArc], dict[int, float]]:
    """All ways to say `words`, from state 0: their arcs, and the costs of the states they end in.

    A pause may stand before, between and after the words, as in `lexicon.lexicon_fst`.
    """
    arcs: list[PhoneArc] = []
    states, ready = _append_pause(arcs, 0, speech)
    for word in words:
        after = states
        states += 1
        for cost, labels in speech.pronounce(word):
            chain = [*range(states, states + len(labels) - 1), after]
            states += len(labels) - 1
            arcs += [(s, labels[0], cost + waited, chain[0]) for s, waited in ready.items()]
            arcs += [(s, p, 0.0, t) for s, p, t in zip(chain, labels[1:], chain[1:], strict=False)]
        states, ready = _append_pause(arcs, after, speech, states)
    return arcs, ready


def _append_pause(
    arcs: list[PhoneArc], here: int, speech: Speech, states: int = 1
) -> tuple[int, dict[int, float]]:
    """Append an optional pause after state `here`; the states to go on from, and their costs."""
    if not speech.silence:
        return states, {here: 0.0}
    probability = speech.lang.silence_probability
    arcs.append((here, speech.silence, -math.log(probability), states))
    return states + 1, {here: -math.log(1.0 - probability), states: 0.0}


def expand_context(
    arcs: Sequence[PhoneArc], final: Mapping[int, float], tree: Tree
) -> tuple[list[WindowArc], dict[int, float]]:
    """Split states by the phones before them, and read each phone when those after it are known.

    An arc without a window reads nothing yet. Beyond an end phones are 0, as in Kaldi's
    compose-context.
    """
    leaving: dict[int, list[tuple[int, float, int]]] = defaultdict(list)
    for source, phone, cost, target in arcs:
        leaving[source].append((phone, cost, target))
    late = tree.width - 1 - tree.center  # phones that are read beyond the end
    for state, cost in final.items() if late else ():
        leaving[state].append((0, cost, -1))
    for beyond in range(1, late):
        leaving[-beyond].append((0, 0.0, -beyond - 1))
    ends = {-late: 0.0} if late else final
    start = (0, (0,) * (tree.width - 1))
    number, open_, found = {start: 0}, [start], []
    for state, before in open_:  # which grows
        for phone, cost, target in leaving[state]:
            window = (*before, phone)
            there = (target, window[1:])
            if there not in number:
                number[there] = len(number)
                open_.append(there)
            seen = window if window[tree.center] else ()
            found.append((number[state, before], seen, cost, number[there]))
    return found, {n: ends[state] for (state, _), n in number.items() if state in ends}


def align_evenly(words: Sequence[str], frames: int, speech: Speech) -> np.ndarray:
    """A first alignment int32 [frames]: each state of the transcript lasts as long as the others.

    Words are said in their most probable way, with a pause before the first and after the last if
    there is room. InputError where there are more states than frames. In Kaldi: align-equal.
    """
    phones = [p for word in words for p in min(speech.pronounce(word))[1]]
    for edge in ([speech.silence], []):
        tids = _walk_through([p for p in (*edge, *phones, *edge) if p], speech)
        if 0 < len(tids) <= frames:
            return _spread_frames(tids, frames, speech.transitions)
    raise InputError(f"{frames} frames, but the transcript has {len(tids)} states")


def _walk_through(phones: Sequence[int], speech: Speech) -> list[int]:
    """The transition-ids, without self-loops, of the way through the states of `phones`."""
    chain = [(i, phone, 0.0, i + 1) for i, phone in enumerate(phones)]
    tids: list[int] = []
    for _, window, _, _ in expand_context(chain, {len(phones): 0.0}, speech.tree)[0]:
        if not window:
            continue
        phone, pdfs = window[speech.tree.center], window_pdfs(window, speech.model, speech.tree)
        onward: dict[int, tuple[int, int]] = {}
        for state, tid, _, _, target in iter_hmm_arcs(
            phone, pdfs, speech.model, speech.transitions, 1.0, 0
        ):
            if target > state:
                onward[state] = min((target, tid), onward.get(state, (target, tid)))
        state = 0
        while state in onward:
            state, tid = onward[state]
            tids += [tid] if tid else []
    return tids


def _spread_frames(tids: Sequence[int], frames: int, transitions: Transitions) -> np.ndarray:
    """Spread `frames` evenly over the states that `tids` leave; self-loops follow, as in Kaldi."""
    loop = transitions.loop[transitions.state[tids]]
    lasting = np.flatnonzero(loop)
    extra = frames - len(tids)
    if extra and not len(lasting):
        raise InputError(f"{frames} frames, but the {len(tids)} states have no self-loops")
    counts = np.ones(len(tids), np.int64)
    counts[lasting] += np.diff(np.arange(len(lasting) + 1) * extra // max(len(lasting), 1))
    aligned = np.repeat(loop, counts).astype(np.int32)
    aligned[np.cumsum(counts) - counts] = tids
    return aligned
