"""Words to HMMs: pronunciations, the graph of a transcript, its alignment of equal lengths.

It is what Kaldi's compile-train-graphs makes, but built straight from the phones.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayes_asr.base.elementary import log_scalar
from bayes_asr.base.errors import InputError, count_of, name_some
from bayes_asr.base.log import LOGGER
from bayes_asr.decode.graph.assembly import Hmms, assemble, expand_context
from bayes_asr.decode.graph.hmm import iter_hmm_arcs
from bayes_asr.decode.graph.lexicon import Lang, build_lexicon_fst, fit_lexicon, number_words
from bayes_asr.decode.graph.transcript_acceptors import LexiconTransducer
from bayes_asr.decode.graph.transducers import RESERVED, PhoneAcceptor
from bayes_asr.decode.graph.transition_index import Transitions, transition_costs
from bayes_asr.decode.lattices.word_times import WordTimer
from bayes_asr.kaldi_io.context_dependency import Tree, window_pdfs
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.transition_model import TransitionModel


@dataclass(frozen=True)
class Pronouncer:
    """Lexicon, phone table, transition model and tree, which turn words into HMMs."""

    lang: Lang
    phones: Mapping[str, int]
    model: TransitionModel
    tree: Tree

    @cached_property
    def pronunciations(self) -> dict[str, list[tuple[float, list[int]]]]:
        """The ways to say each word: cost and phone-ids."""
        variants: dict[str, list[tuple[float, list[int]]]] = defaultdict(list)
        for entry in fit_lexicon(self.lang.lexicon, self.phones, self.model):
            labels = [self.phones[phone] for phone in entry.phones]
            variants[entry.word].append((-log_scalar(entry.probability), labels))
        return variants

    @cached_property
    def phone_names(self) -> dict[int, str]:
        """The name of each phone-id."""
        return {number: phone for phone, number in self.phones.items()}

    @property
    def silence(self) -> int:
        """The phone-id of pauses, 0 where words have none between them."""
        if not self.lang.silence_probability:
            return 0
        phone = self.phones.get(self.lang.silence or "", 0)
        if phone not in self.model.topology:
            raise InputError(
                f"the silence phone {self.lang.silence} is not one of the model's; give the --lang"
                " that it was trained with"
            )
        return phone

    @cached_property
    def word_ids(self) -> dict[str, int]:
        """The words of the lexicon, numbered."""
        transducer = self.lang.transducer
        return transducer.words if transducer else number_words(self.lang.lexicon)

    @cached_property
    def lexicon(self) -> LexiconTransducer:
        """The lexicon as a transducer, with pauses before, between and after words."""
        if self.lang.transducer:
            return LexiconTransducer(self.lang.transducer.fst)
        entries = fit_lexicon(self.lang.lexicon, self.phones, self.model)
        pause = (self.lang.silence or "",) if self.silence else ()
        share = self.lang.silence_probability
        fst = build_lexicon_fst(entries, self.phones, self.word_ids, pause, share, backoff=False)
        return LexiconTransducer(fst)

    @cached_property
    def hmms(self) -> Hmms:
        """The HMMs of phones in context."""
        return Hmms(self.model, self.tree)

    def find_word(self, word: str) -> str:
        """Return `word`, or the word for unknown ones; InputError if there is none."""
        for candidate in (word, self.lang.unknown):
            if candidate in self.pronunciations:
                return candidate
        raise InputError(f"the word {word} is not in the lexicon; add it there, or give --oov")

    def time_words(self, symbols: Mapping[int, str]) -> WordTimer:
        """The timer of lattices that have these words; those that the lexicon lacks, which a
        warning names, have none.
        """
        pronunciations = {
            number: [phones for _, phones in self.pronunciations.get(word, ())]
            for number, word in symbols.items()
        }
        mute = [symbols[number] for number, phones in pronunciations.items() if not phones]
        if mute := [word for word in mute if word not in RESERVED]:
            LOGGER.warning(
                "%s no pronunciation: such a word, and what follows it up to a pause, has the times"
                " of lattices, which are early: %s",
                count_of(len(mute), "word of the graph has", "words of the graph have"),
                name_some(mute),
            )
        return WordTimer(pronunciations, self.silence, self.model)

    def pronounce(self, word: str) -> list[tuple[float, list[int]]]:
        """The ways to say `word`, or the word for unknown ones; InputError if there is none."""
        return self.pronunciations[self.find_word(word)]

    def accept(self, words: Sequence[str]) -> PhoneAcceptor:
        """All ways to say `words`; InputError where there are none, or the model lacks a phone."""
        word_ids = [self.word_ids[self.find_word(word)] for word in words]
        acceptor = self.lexicon.transcript_acceptor(word_ids)
        strange = {phone for _, phone, _, _ in acceptor.arcs} - {*self.model.topology}
        if strange:
            raise InputError(
                f"L.fst says the phone {min(strange)}, which the model of"
                f" {len(self.model.topology)} phones lacks; take the lang folder of the model"
            )
        return acceptor


def build_transcript_fst(
    words: Sequence[str],
    pronouncer: Pronouncer,
    transition_scale: float = 1.0,
    self_loop_scale: float = 0.1,
) -> Fst:
    """Return the graph of `words`: transition-ids on input labels, no output labels.

    Raises InputError for a word that the lexicon lacks and for a transcript that nobody can say.
    """
    # The graph without costs depends on words alone; the model's costs are added by transition-id.
    acceptor = pronouncer.accept(words)
    graph = assemble(*expand_context(acceptor, pronouncer.tree), pronouncer.hmms)
    scales = transition_scale, self_loop_scale
    costs = transition_costs(pronouncer.model, pronouncer.hmms.transitions, *scales)
    return replace(graph, weight=graph.weight + costs[graph.ilabel])


def align_equal(words: Sequence[str], frames: int, pronouncer: Pronouncer) -> np.ndarray:
    """An alignment int32 [frames] of equal lengths: each state of a transcript lasts as long.

    Words have their most probable pronunciation, with a pause before the first and after the last
    if there is room. InputError where there are more states than frames. Kaldi: align-equal.
    """
    phones = [p for word in words for p in min(pronouncer.pronounce(word))[1]]
    # With silence at both edges if its states fit, otherwise without.
    for edge in ([pronouncer.silence], []):
        tids = _state_sequence([p for p in (*edge, *phones, *edge) if p], pronouncer)
        if 0 < len(tids) <= frames:
            return _repeat_self_loops(tids, frames, pronouncer.hmms.transitions)
    raise InputError(f"{frames} frames, but the transcript has {len(tids)} states")


def _state_sequence(phones: Sequence[int], pronouncer: Pronouncer) -> list[int]:
    """The transition-ids, without self-loops, of a path through the states of `phones`."""
    model, tree = pronouncer.model, pronouncer.tree
    chain = PhoneAcceptor([(i, p, 0.0, i + 1) for i, p in enumerate(phones)], {len(phones): 0.0})
    tids: list[int] = []
    for _, window, _, _ in expand_context(chain, tree)[0]:
        if not window:
            continue
        phone, pdfs = window[tree.center], window_pdfs(window, model, tree)
        # By state: the transition to the nearest later state, of equal ones the first.
        onward: dict[int, tuple[int, int]] = {}
        transitions = pronouncer.hmms.transitions
        for state, tid, _, _, target in iter_hmm_arcs(phone, pdfs, model, transitions, 1.0, 0):
            if target > state:
                onward[state] = min((target, tid), onward.get(state, (target, tid)))
        state = 0
        while state in onward:
            state, tid = onward[state]
            tids += [tid] if tid else []
    return tids


def _repeat_self_loops(tids: Sequence[int], frames: int, transitions: Transitions) -> np.ndarray:
    """Divide `frames` evenly among the states that `tids` leave; self-loops follow, as in Kaldi."""
    # Each state has its own frame; what remains is divided among states with a self-loop.
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
