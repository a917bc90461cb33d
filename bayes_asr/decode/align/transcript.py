"""The graph of a transcript: every way to say its words, as one HMM.

It is what Kaldi's compile-train-graphs makes, but built straight from the phones.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from bayes_asr.base.elementary import log_scalar
from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.assembly import Hmms, assemble, expand_context
from bayes_asr.decode.graph.hmm import iter_hmm_arcs
from bayes_asr.decode.graph.lang import Lang, find_phones_file, fit_lexicon, read_lang
from bayes_asr.decode.graph.lexicon import build_lexicon_fst, number_words
from bayes_asr.decode.graph.transcript_acceptors import LexiconTransducer
from bayes_asr.decode.graph.transducers import PhoneAcceptor
from bayes_asr.decode.graph.transition_index import Transitions, transition_costs, window_pdfs
from bayes_asr.kaldi_io.mdl import TransitionModel, read_transition_model
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.text import read_symbols
from bayes_asr.kaldi_io.tree import Tree, read_tree


@dataclass(frozen=True)
class Speech:
    """What turns words into HMMs: lexicon, phone table, transition model and tree."""

    lang: Lang
    phones: Mapping[str, int]
    model: TransitionModel
    tree: Tree

    @cached_property
    def pronunciations(self) -> dict[str, list[tuple[float, list[int]]]]:
        """The ways to say each word: cost and phone-ids."""
        ways: dict[str, list[tuple[float, list[int]]]] = defaultdict(list)
        for entry in fit_lexicon(self.lang.lexicon, self.phones, self.model):
            labels = [self.phones[phone] for phone in entry.phones]
            ways[entry.word].append((-log_scalar(entry.probability), labels))
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

    @cached_property
    def word_ids(self) -> dict[str, int]:
        """The words of the lexicon, numbered."""
        return number_words(self.lang.lexicon)

    @cached_property
    def lexicon(self) -> LexiconTransducer:
        """The lexicon as a transducer, with pauses before, between and after words."""
        said = fit_lexicon(self.lang.lexicon, self.phones, self.model)
        pause = (self.lang.silence or "",) if self.silence else ()
        share = self.lang.silence_probability
        fst = build_lexicon_fst(said, self.phones, self.word_ids, pause, share, backoff=False)
        return LexiconTransducer(fst)

    @cached_property
    def hmms(self) -> Hmms:
        """The HMMs of phones in context."""
        return Hmms(self.model, self.tree)

    def find_word(self, word: str) -> str:
        """Return `word`, or the word for unknown ones; InputError if there is none."""
        for known in (word, self.lang.unknown):
            if known in self.pronunciations:
                return known
        raise InputError(f"the word {word} is not in the lexicon")

    def pronounce(self, word: str) -> list[tuple[float, list[int]]]:
        """The ways to say `word`, or the word for unknown ones; InputError if there is none."""
        return self.pronunciations[self.find_word(word)]


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
    word_ids = [speech.word_ids[speech.find_word(word)] for word in words]
    acceptor = speech.lexicon.transcript_acceptor(word_ids)
    graph = assemble(*expand_context(acceptor, speech.tree), speech.hmms)
    scales = transition_scale, self_loop_scale
    costs = transition_costs(speech.model, speech.hmms.transitions, *scales)
    return replace(graph, weight=graph.weight + costs[graph.ilabel])


def align_evenly(words: Sequence[str], frames: int, speech: Speech) -> np.ndarray:
    """A first alignment int32 [frames]: each state of the transcript lasts as long as the others.

    Words are said in their most probable way, with a pause before the first and after the last if
    there is room. InputError where there are more states than frames. In Kaldi: align-equal.
    """
    phones = [p for word in words for p in min(speech.pronounce(word))[1]]
    for edge in ([speech.silence], []):
        tids = _walk_through([p for p in (*edge, *phones, *edge) if p], speech)
        if 0 < len(tids) <= frames:
            return _spread_frames(tids, frames, speech.hmms.transitions)
    raise InputError(f"{frames} frames, but the transcript has {len(tids)} states")


def _walk_through(phones: Sequence[int], speech: Speech) -> list[int]:
    """The transition-ids, without self-loops, of the way through the states of `phones`."""
    chain = PhoneAcceptor([(i, p, 0.0, i + 1) for i, p in enumerate(phones)], {len(phones): 0.0})
    tids: list[int] = []
    for _, window, _, _ in expand_context(chain, speech.tree)[0]:
        if not window:
            continue
        phone, pdfs = window[speech.tree.center], window_pdfs(window, speech.model, speech.tree)
        onward: dict[int, tuple[int, int]] = {}
        for state, tid, _, _, target in iter_hmm_arcs(
            phone, pdfs, speech.model, speech.hmms.transitions, 1.0, 0
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
