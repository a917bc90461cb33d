"""Hotwords: words and phrases that cost less in the search than the language model says.

All occurrences of a phrase in a path lower its cost by the weight of the phrase, once for each
word. The search sees that word by word: what a phrase that has begun would gain is granted in
advance, and taken back where another word follows (Aho & Corasick 1975; the look-ahead as in
icefall's ContextGraph).
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.decode.graph.transducers import RESERVED
from bayes_asr.decode.search import compiled
from bayes_asr.decode.search.search_graph import DecodingGraph, HotwordArcs
from bayes_asr.kaldi_io.binary import iter_lines, split_words
from bayes_asr.kaldi_io.byte_reader import parse_real
from bayes_asr.kaldi_io.marks import find_cased

WEIGHT = 3.0
MOST = 100.0  # of a weight, in natural logarithms: more would only lose digits of other costs
MOST_STATES = 10_000
# slashes in a word are of the word
PRONUNCIATION = re.compile(r"(?<!\S)/(?P<phones>.*)/(?!\S)", re.ASCII)


@dataclass(frozen=True)
class Hotword:
    """A word or phrase, by how much each of its words costs less, and the phones of a new word."""

    words: tuple[str, ...]
    weight: float = WEIGHT
    phones: tuple[str, ...] = ()


def read_hotwords(path: Path) -> list[Hotword]:
    """Read lines `WORD... [:WEIGHT] [/PHONES/]`; InputError names the line that is none.

    All lines of a phrase have the weight that one of them gives; InputError where they give two.
    """
    hotwords, weights = list[Hotword](), dict[tuple[str, ...], tuple[float, int]]()
    for number, fields in iter_lines(path):
        if not fields:
            continue
        hotword, weight = _parse(path, number, fields)
        hotwords.append(hotword)
        if weight is None:
            continue
        other, line = weights.setdefault(hotword.words, (weight, number))
        if other != weight:
            raise InputError(
                f"{path}: {' '.join(hotword.words)} has weight {other:g} in line {line} and"
                f" {weight:g} in line {number}; keep one of them"
            )
    if not hotwords:
        raise InputError(f"{path}: has no word; write one a line")
    return [replace(h, weight=weights.get(h.words, (WEIGHT, 0))[0]) for h in hotwords]


def _parse(path: Path, number: int, fields: Sequence[str]) -> tuple[Hotword, float | None]:
    """The hotword of a line, and the weight that it gives, if any."""
    place = f"{path}, line {number}"
    line = " ".join(fields)
    match = PRONUNCIATION.search(line)
    phones = tuple(split_words(match["phones"])) if match else ()
    if match and (not phones or line[match.end() :]):
        raise InputError(
            f"{place}: write it as WORD :WEIGHT /PHONES/, and nothing behind the phones"
        )
    *words, last = split_words(line[: match.start()] if match else line) or [""]
    weight = None
    if last.startswith(":") and len(last) > 1:
        try:
            weight = parse_real(last[1:])
        except ValueError:
            raise InputError(f"{place}: {last!r} is no weight; write it as :2.5") from None
        if not abs(weight) <= MOST:
            raise InputError(f"{place}: weight {weight:g}; take -{MOST:g} to {MOST:g}")
    elif last:
        words.append(last)
    if not words:
        raise InputError(f"{place}: has no word before its weight or its phones")
    if phones and len(words) > 1:
        raise InputError(f"{place}: gives phones to {len(words)} words; give each word a line")
    if reserved := [word for word in words if word in RESERVED]:
        raise InputError(f"{place}: {reserved[0]} is reserved and no word; take the line out")
    return Hotword(tuple(words), phones=phones), weight


@dataclass
class _Node:
    """A begin of phrases: what it is followed by, the longest end of it that begins a phrase too.

    granted: the gain of the phrases that it begins, so far; gain: of those that end here.
    """

    depth: int = 0
    children: dict[int, int] = field(default_factory=dict)
    failure: int = 0
    granted: float = 0.0
    gain: float = 0.0


def build_automaton(phrases: Mapping[tuple[int, ...], float], num_words: int) -> HotwordArcs:
    """Return the automaton of phrases of word-ids, each with its weight."""
    nodes = [_Node()]
    for phrase, weight in phrases.items():
        state = 0
        for depth, word in enumerate(phrase, 1):
            if word not in nodes[state].children:
                nodes[state].children[word] = len(nodes)
                nodes.append(_Node(depth))
            state = nodes[state].children[word]
            if depth < len(phrase):
                nodes[state].granted = max(nodes[state].granted, weight * depth)
        nodes[state].gain += weight * len(phrase)
    if len(nodes) > MOST_STATES:
        raise InputError(f"hotwords of {len(nodes)} words in all; take up to {MOST_STATES}")
    words = sorted({word for phrase in phrases for word in phrase})
    column = {word: number for number, word in enumerate(words, 1)}
    word_class = np.zeros(num_words, np.int32)
    word_class[words] = np.arange(1, len(words) + 1)
    nextstate = np.zeros((len(nodes), len(words) + 1), np.int32)
    # By depth, so that the row of the state that a failure leads to is complete.
    queue = deque([0])
    while queue:
        state = queue.popleft()
        node = nodes[state]
        if state:
            nextstate[state] = nextstate[node.failure]
            node.gain += nodes[node.failure].gain
        for word, child in node.children.items():
            nodes[child].failure = int(nextstate[state, column[word]]) if state else 0
            queue.append(child)
        for word, child in node.children.items():
            nextstate[state, column[word]] = child
    granted = np.array([node.granted for node in nodes])
    gain = np.array([node.gain for node in nodes])
    # Gains lower costs; what was granted before the word is taken back, and granted anew.
    weight = granted[:, None] - granted[nextstate] - gain[nextstate]
    return HotwordArcs(word_class, nextstate, weight.astype(np.float32), granted.astype(np.float32))


def attach_hotwords(
    graph: DecodingGraph, hotwords: Sequence[Hotword], words: Mapping[str, int], name: str
) -> DecodingGraph:
    """Return the graph with hotwords; words: of the graph; name: of the file of hotwords.

    InputError for words that no arc of the graph writes, for a graph that is composed with its
    grammar while it is searched, and without the compiled decoder.
    """
    if graph.grammar is not None:
        raise InputError(
            f"{name}: hotwords go with an HCLG.fst, and {graph.name} is composed while it is"
            " searched; build the graph without --apart"
        )
    if not compiled.LIBRARY.usable:
        raise InputError(
            f"{name}: only the compiled decoder knows hotwords; reinstall with a compiler"
        )
    # words.txt has words of the lexicon, too, that the language model lacks.
    spoken = [arcs.olabel for arcs in (graph.emitting, graph.epsilon)]
    is_written = np.zeros(1 + max(*words.values(), *(int(a.max(initial=0)) for a in spoken)), bool)
    for labels in spoken:
        is_written[labels] = True
    is_written[0] = False
    phrases: dict[tuple[int, ...], float] = {}
    for hotword in hotwords:
        lacking = [word for word in hotword.words if not is_written[words.get(word, 0)]]
        if lacking:
            cased = find_cased({*lacking}, {word for word, n in words.items() if is_written[n]})
            remedy = "bayes-asr graph --hotwords makes a graph that has them"
            if cased:
                remedy = f"it has {name_some(cased)}: write it so"
            raise InputError(f"{name}: {graph.name} lacks {', '.join(lacking)}; {remedy}")
        phrases[tuple(words[word] for word in hotword.words)] = hotword.weight
    return replace(graph, hotwords=build_automaton(phrases, len(is_written)))
