"""Word lattices under another n-gram model of language.

Kaldi: lattice-lmrescore with the scale -1 and the model of the graph, then
lattice-lmrescore-const-arpa with the new one.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import real_path
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes.pool import map_utterances
from bayes_asr.base.progress import follow
from bayes_asr.decode.graph.ngram import Ngram, NgramModel, read_arpa, select_ngrams
from bayes_asr.decode.graph.transducers import END, START
from bayes_asr.decode.lattices.rescore import count_decoded, iter_word_lattices
from bayes_asr.kaldi_io.lattice import CompactLattice, take_rows
from bayes_asr.kaldi_io.lattice_files import write_lattices
from bayes_asr.kaldi_io.symbols import WordSymbols

TOLERANCE = 1e-4  # of the digits of an ARPA file
Histories = tuple[Ngram, Ngram]  # states of the old model and of the new one


class Grammar:
    """An n-gram model as a deterministic acceptor, whose states are histories."""

    def __init__(self, path: Path) -> None:
        """Read an ARPA file, of which it has the n-grams that a graph would have."""
        self.path, read = path, read_arpa(path)
        log_prob = select_ngrams(read, {word for ngram in read.log_prob for word in ngram})
        histories = log_prob.keys() | {(START,)}
        backoff = {h: weight for h, weight in read.backoff.items() if h in histories}
        self.model = replace(read, log_prob=log_prob, backoff=backoff)
        self._histories = {ngram[:-1] for ngram in self.model.log_prob} | {*self.model.backoff}
        self._steps: dict[tuple[str, Ngram], tuple[float, Ngram]] = {}
        self.start = self._shorten((START,))

    def follow(self, word: str, history: Ngram) -> tuple[float, Ngram]:
        """The cost of a word after a history, and the history after both.

        InputError for a word that the model lacks.
        """
        step = self._steps.get((word, history))
        if step is None:
            cost = -self.model.score(word, history)
            if not np.isfinite(cost):
                raise InputError(
                    f"{self.path}: lacks {word}, which is in the lattices; give a language model of"
                    " all words of the graph"
                )
            step = self._steps[word, history] = cost, self._shorten((*history, word))
        return step

    def _shorten(self, history: Ngram) -> Ngram:
        """The longest end of a history from which the model tells any word apart."""
        # Histories of equal futures are one state: this keeps the composed lattice small.
        history = history[max(0, len(history) - self.model.order + 1) :]
        while history and history not in self._histories:
            history = history[1:]
        return history


def replace_lm(
    words: WordSymbols, old: Grammar, new: Grammar, lattice: CompactLattice
) -> CompactLattice:
    """The lattice with graph costs in which `new` has taken the place of `old`.

    Its states are those of the lattice, each once for every pair of histories that lead to it.
    """

    def follow_both(word: str, histories: Histories) -> tuple[float, Histories]:
        old_cost, old_history = old.follow(word, histories[0])
        new_cost, new_history = new.follow(word, histories[1])
        return new_cost - old_cost, (old_history, new_history)

    offsets, nextstate = lattice.offsets.tolist(), lattice.nextstate.tolist()
    labels, ends = lattice.word.tolist(), np.isfinite(lattice.final_graph).tolist()
    numbers: list[dict[Histories, int]] = [{} for _ in ends]
    numbers[0][old.start, new.start] = 0
    states: list[int] = []
    arcs: list[int] = []
    counts, changes, final_changes = [], [], []
    targets: list[tuple[int, Histories]] = []
    # Composition of the lattice with both models: a state is a state of it and a pair of histories.
    for state, reached in enumerate(numbers):  # sorted: all that leads here has been seen
        leaving = range(offsets[state], offsets[state + 1])
        for histories in reached:
            reached[histories] = len(states)
            states.append(state)
            counts.append(len(leaving))
            final_changes.append(follow_both(END, histories)[0] if ends[state] else 0.0)
            for arc in leaving:
                change, next_histories = 0.0, histories
                if labels[arc]:
                    change, next_histories = follow_both(words[labels[arc]], histories)
                # Numbered when its state comes up, so that states stay sorted.
                numbers[nextstate[arc]].setdefault(next_histories, -1)
                arcs.append(arc)
                changes.append(change)
                targets.append((nextstate[arc], next_histories))
    composed = _select(lattice, np.array(states), counts, np.array(arcs, dtype=np.int64))
    return replace(
        composed,
        nextstate=np.array([numbers[state][pair] for state, pair in targets], dtype=np.int32),
        graph=(composed.graph + np.array(changes)).astype(np.float32),
        final_graph=(composed.final_graph + np.array(final_changes)).astype(np.float32),
    )


def _select(
    lattice: CompactLattice, states: np.ndarray, counts: Sequence[int], arcs: np.ndarray
) -> CompactLattice:
    """States and arcs of a lattice, as they are there; counts: of the arcs of each such state."""
    tids, tid_offsets = take_rows(lattice.tid_offsets, arcs)
    final_tids, final_tid_offsets = take_rows(lattice.final_tid_offsets, states)
    return CompactLattice(
        offsets=np.cumsum([0, *counts]),
        word=lattice.word[arcs],
        graph=lattice.graph[arcs],
        acoustic=lattice.acoustic[arcs],
        nextstate=lattice.nextstate[arcs],
        tid_offsets=tid_offsets,
        tids=lattice.tids[tids],
        final_graph=lattice.final_graph[states],
        final_acoustic=lattice.final_acoustic[states],
        final_tid_offsets=final_tid_offsets,
        final_tids=lattice.final_tids[final_tids],
    )


def count_undercut(model: NgramModel) -> int:
    """Return how many n-grams cost more than backing off, by which a graph gets around them."""
    return sum(
        log_prob < model.backoff.get(history, 0.0) + model.score(word, history[1:]) - TOLERANCE
        for (*context, word), log_prob in model.log_prob.items()
        if (history := tuple(context))
    )


def replace_lm_in(
    lattices: Sequence[Path], words: Path, old: Path, new: Path, out: Path, *, nj: int = 1
) -> int:
    """Write word lattices (lat.N.gz) under another language model to out/lat.1.gz; their number.

    words: the words.txt of the graph; old: the ARPA file that it was made of; new: another one.
    """
    # Old archives beside the new lat.1.gz would be read with it.
    held = {real_path(path) for path in out.glob("*")}
    if both := [path for path in lattices if real_path(path) in held]:
        raise InputError(f"{out}: holds {both[0]}, which is read here; name another folder")
    model = _grammar(old).model
    if undercut := count_undercut(model):
        LOGGER.warning(
            "%s: %d of %d n-grams cost more than backing off, as of a model that is not"
            " interpolated; where the graph went that way, costs are wrong by the difference:"
            " decode with the graph of the new model instead",
            *(old, undercut, len(model.log_prob)),
        )
    replace = partial(_replace_by_files, words, old, new)
    changed = map_utterances(replace, iter_word_lattices(lattices), nj)
    shown = follow(changed, "lmrescore", total=count_decoded(lattices))
    count = write_lattices(shown, out / "lat.1.gz")
    if not count:
        raise InputError(f"{', '.join(map(str, lattices))}: hold no lattice; decode anew")
    return count


_spelling, _grammar = cache(WordSymbols), cache(Grammar)  # each process reads them once


def _replace_by_files(
    words: Path, old: Path, new: Path, utt: str, lattice: CompactLattice
) -> tuple[str, CompactLattice]:
    return utt, replace_lm(_spelling(words), _grammar(old), _grammar(new), lattice)
