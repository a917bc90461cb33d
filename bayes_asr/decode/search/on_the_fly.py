"""HCL and G, composed while they are searched: for language models whose HCLG would be too large.

HCL writes #0 where G may back off, as L_disambig.fst of Kaldi does, but once for all steps of a
backoff. So a path through pairs of states is one through the graph that is composed in advance,
with the same words and costs. What the search compares with its beam is a cost and what G will add
until the next word, -log of the sum over all words that can still follow (Allauzen, Riley &
Schalkwyk 2009). Nothing leads to a pair whose words to come G does not have.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.base.errors import InputError, count_of, name_some
from bayes_asr.base.log import LOGGER
from bayes_asr.decode.graph.transducers import BACKOFF, MOST_BACKOFFS, sort_arcs, sources
from bayes_asr.decode.search import compiled
from bayes_asr.decode.search.search_graph import (
    Arcs,
    DecodingGraph,
    GrammarArcs,
    has_cycle,
    select_arcs,
)
from bayes_asr.kaldi_io.openfst import Fst


def check_grammar(grammar: Fst, words: dict[str, int], name: str) -> None:
    """Refuse what is no acceptor of these words with one backoff arc #0 a state, without cycles."""
    backoff, highest = words[BACKOFF], max(words.values())
    if grammar.start < 0 or not grammar.num_states:
        raise InputError(f"{name}: the grammar has no start state")
    if (grammar.ilabel == 0).any():
        raise InputError(
            f"{name}: has arcs that read nothing; a grammar backs off by {BACKOFF}: make it by"
            f" arpa2fst --disambig-symbol={BACKOFF}"
        )
    word = int(grammar.ilabel.max(initial=0))
    if word > highest:
        raise InputError(
            f"{name}: has word {word}, but words.txt of the graph ends at {highest}; take a grammar"
            " of the same words"
        )
    backs_off = grammar.ilabel == backoff
    if (grammar.olabel != grammar.ilabel)[~backs_off].any():
        raise InputError(f"{name}: writes other words than it reads; a grammar must not")
    rows = sources(grammar)
    if (np.bincount(rows[backs_off], minlength=1) > 1).any():
        raise InputError(
            f"{name}: a state has several arcs {BACKOFF}; a grammar has one to back off"
        )
    if has_cycle(select_arcs(grammar, rows, backs_off)):
        raise InputError(f"{name}: arcs {BACKOFF} form a cycle; the search would not end")


def attach_grammar(
    graph: DecodingGraph, fst: Fst, words: Mapping[str, int], name: str
) -> DecodingGraph:
    """Return HCL with G as its grammar; words: of both, with #0, which is not written any more.

    Words of G that HCL lacks are named and left out. InputError where that leaves nothing, and
    without the compiled decoder.
    """
    backoff = words[BACKOFF]
    if not compiled.LIBRARY.usable:
        raise InputError(
            f"{graph.name}: only the compiled decoder composes with a grammar; reinstall with a"
            " compiler, or build the graph with its language model"
        )
    label_sets = compiled.number_labels(graph, 1 + max(words.values()))
    numbers = label_sets.pop("number")
    closed = close_backoffs(fst, backoff, name)
    # Labels of G in HCL's new numbers, 0 for words that HCL lacks; sorted, for binary search.
    label, rows = numbers[closed.ilabel], sources(closed)
    if len(foreign := np.unique(closed.ilabel[label == 0])):
        spelled = {word_id: word for word, word_id in words.items()}
        warn_left_out(name, graph.name, [spelled.get(int(x), str(x)) for x in foreign])
    order = np.lexsort((label, rows))
    order = order[label[order] > 0]
    if (closed.ilabel[order] == backoff).all():
        raise InputError(f"{name}: has no word of {graph.name}; spell both alike")
    chance, ahead = look_ahead(closed, order, backoff)
    counts = np.bincount(rows[order], minlength=closed.num_states)
    grammar = GrammarArcs(
        start=int(closed.start),
        everything=find_full_set(label_sets, int(numbers.max())),
        final=closed.final,
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        label=label[order],
        weight=closed.weight[order],
        nextstate=closed.nextstate[order],
        chance=chance,
        ahead=ahead,
        emitting=numbers[graph.emitting.olabel],
        epsilon=numbers[graph.epsilon.olabel],
        **label_sets,
    )
    # #0 has done its work in `numbers`; written, it would be a word.
    return replace(
        graph,
        emitting=_erase_label(graph.emitting, backoff),
        epsilon=_erase_label(graph.epsilon, backoff),
        grammar=grammar,
    )


def warn_left_out(grammar: str, lacking: str, words: Collection[str]) -> None:
    """Name the words of a grammar that something lacks, where there are any."""
    if words:
        LOGGER.warning(
            "%s: left out: %s that %s lacks: %s",
            *(grammar, count_of(len(words), "word"), lacking, name_some(sorted(words))),
        )


def _erase_label(arcs: Arcs, label: int) -> Arcs:
    """The same arcs, which write nothing where they wrote `label`."""
    return replace(arcs, olabel=np.where(arcs.olabel == label, 0, arcs.olabel).astype(np.int32))


def close_backoffs(fst: Fst, backoff: int, name: str) -> Fst:
    """G with a backoff arc to every state that can be reached by backoff arcs alone.

    InputError where these are more than MOST_BACKOFFS in a row.
    """
    rows, backs_off = sources(fst), fst.ilabel == backoff
    source, target = rows[backs_off], fst.nextstate[backs_off].astype(np.int64)
    weight = fst.weight[backs_off]
    # By state: its one backoff arc, -1 where it has none.
    backoff_state = np.full(fst.num_states, -1, np.int64)
    cost = np.zeros(fst.num_states, np.float32)
    backoff_state[source], cost[source] = target, weight
    # Each round adds the arcs over one more step of backoff.
    columns = [(rows, fst.ilabel, fst.weight, fst.nextstate)]
    while True:
        further = backoff_state[target] >= 0
        if not further.any():
            break
        if len(columns) == MOST_BACKOFFS:
            raise InputError(f"{name}: more than {MOST_BACKOFFS} arcs {BACKOFF} in a row")
        source, target, weight = source[further], target[further], weight[further]
        weight, target = weight + cost[target], backoff_state[target]
        columns.append((source, np.full(len(source), backoff), weight, target))
    source, label, weight, target = (np.concatenate(c) for c in zip(*columns, strict=True))
    return sort_arcs(source, label, label, weight, target, fst.final, fst.start)


def look_ahead(fst: Fst, order: np.ndarray, backoff: int) -> tuple[np.ndarray, np.ndarray]:
    """The probability of the arcs `order` of G, and -log of the sums over the arcs of its states.

    That of a backoff is its own, times the sum over words and end of the state that it leads to.
    """
    # Backoff arcs are closed, so that the sum over a backoff is that over words and end alone.
    rows, chance = sources(fst)[order], elementary.exp(-fst.weight[order])
    backs_off = fst.ilabel[order] == backoff
    total = elementary.exp(-fst.final)
    np.add.at(total, rows[~backs_off], chance[~backs_off])
    chance[backs_off] *= total[fst.nextstate[order][backs_off]]
    np.add.at(total, rows[backs_off], chance[backs_off])
    least = np.finfo(np.float64).tiny  # the logarithm of 0 would be that of a dead end
    return chance, -elementary.log(np.maximum(total, least)).astype(np.float32)


def find_full_set(label_sets: dict[str, np.ndarray], num_labels: int) -> int:
    """The number of the set of all labels and the end; -1 where there is none."""
    spans, lowest, highest = (label_sets[name] for name in ("spans", "first", "last"))
    for number in np.flatnonzero((np.diff(spans) == 1) & (label_sets["ends"] > 0)).tolist():
        if (lowest[spans[number]], highest[spans[number]]) == (1, num_labels):
            return number
    return -1
