"""Backoff n-gram models: Witten-Bell and Kneser-Ney estimates, ARPA files, and the grammar G."""

import logging
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from sys import intern

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import updating
from bayes_asr.decode.graph.dialects import MARK
from bayes_asr.decode.graph.transducers import (
    BACKOFF,
    END,
    EPSILON,
    MOST_BACKOFFS,
    START,
    Arc,
    build_fst,
)
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.byte_reader import parse_real
from bayes_asr.kaldi_io.marks import fold_case
from bayes_asr.kaldi_io.openfst import Fst

LOG = logging.getLogger(__name__)
NUMBER = re.compile(r"\d{1,9}", re.ASCII)
NO_END = f"without a sentence end {END} no word of the lexicon can be recognised; add its n-grams"
LN_10 = 2.302585092994046
ROUNDING = 1e-4  # of log10 probabilities: so far above 0 they stand for 1
UNSEEN_START = -99.0  # ARPA's log10 probability of <s>, which nothing ever predicts
LARGEST = 1000  # log10 of a probability or a backoff weight; determinization would not end
LEAST_ONCE = 0.001  # n-grams seen once: without any the discount would be 0, and its logarithm
ALL_SEEN = 1e-12  # of the probability that is left: rounding errors, nothing to back off to
Ngram = tuple[str, ...]


@dataclass(frozen=True)
class NgramModel:
    """Natural-log probabilities of n-grams, and backoff weights of histories, up to `order`.

    A history without an entry in `backoff` has the weight log 1. `name`: for messages, the file.
    """

    order: int
    log_prob: Mapping[Ngram, float]
    backoff: Mapping[Ngram, float]
    name: str = field(default="the language model", compare=False)

    def score(self, word: str, history: Ngram) -> float:
        """log p(word | history), backing off through ever shorter histories."""
        history = history[max(0, len(history) - self.order + 1) :]
        cost = 0.0
        while (*history, word) not in self.log_prob:
            if not history:
                return -math.inf
            cost += self.backoff.get(history, 0.0)
            history = history[1:]
        return cost + self.log_prob[*history, word]


def estimate_witten_bell(
    sentences: Iterable[Sequence[str]], order: int, vocabulary: Iterable[str] = ()
) -> NgramModel:
    """Estimate an interpolated Witten-Bell model (Witten & Bell 1991, method C).

    p(w|h) = (c(hw) + t(h) p(w|h')) / (c(h) + t(h)), where t(h) counts the distinct words after h
    and h' is h without its first word; below the unigrams lies a uniform distribution over all
    words, those of `vocabulary` included, and the sentence end. The backoff weight of h is
    t(h)/(c(h) + t(h)), so every history sums to one.
    Raises InputError for an order below 1 and for no sentences.
    """
    counts = _count_ngrams(sentences, order)
    words = sorted({ngram[-1] for ngram in counts} | set(vocabulary) | {END})
    followers: defaultdict[Ngram, list[tuple[str, int]]] = defaultdict(list)
    for ngram, count in counts.items():
        followers[ngram[:-1]].append((ngram[-1], count))
    prob: dict[Ngram, float] = {}
    backoff: dict[Ngram, float] = {}
    # Shorter histories first: each interpolates with the one below it.
    for history in sorted(followers, key=lambda h: (len(h), h)):
        word_counts = dict(followers[history])
        total, types = sum(word_counts.values()), len(word_counts)
        for word in words if not history else word_counts:
            lower = prob[(*history[1:], word)] if history else 1.0 / len(words)
            prob[*history, word] = (word_counts.get(word, 0) + types * lower) / (total + types)
        if history:
            backoff[history] = types / (total + types)
    return NgramModel(order, _take_logs(prob), _take_logs(backoff))


def estimate_kneser_ney(
    sentences: Iterable[Sequence[str]], order: int, *, interpolated: bool = True
) -> NgramModel:
    """Estimate a Kneser-Ney model with one discount D = n1/(n1 + 2 n2) for each order above one.

    Below the highest order a count is that of the distinct words before an n-gram (Kneser & Ney
    1995), except after <s>. p(w|h) = (c(hw) - D)/c(h), to which `interpolated` adds the backoff
    weight times p(w|h') (Chen & Goodman 1999); without it the model is that of Kaldi's
    make_kn_lm.py. Only words that are seen have a probability.
    Raises InputError for an order below 1 and for no sentences.
    """
    counts = _count_ngrams(sentences, order)
    contexts = Counter(ngram[1:] for ngram in counts if len(ngram) > 1)
    ranks = Counter((len(ngram), count) for ngram, count in counts.items() if count <= 2)
    followers: defaultdict[Ngram, dict[str, int]] = defaultdict(dict)
    for ngram, count in counts.items():
        # Nothing stands before <s>, so its n-grams have no contexts to count.
        raw = len(ngram) == order or ngram[0] == START
        followers[ngram[:-1]][ngram[-1]] = count if raw else contexts[ngram]
    prob: dict[Ngram, float] = {}
    backoff: dict[Ngram, float] = {}
    for history in sorted(followers, key=len):
        word_counts, discount = followers[history], 0.0
        total = sum(word_counts.values())
        if history:
            # n1 and n2 count the n-grams of this order seen once and twice.
            once, twice = (ranks[len(history) + 1, count] for count in (1, 2))
            discount = max(once, LEAST_ONCE) / max(once + 2 * twice, 1)
        backoff_mass = discount * len(word_counts) / total
        for word, count in word_counts.items():
            below = backoff_mass * prob[*history[1:], word] if history and interpolated else 0.0
            prob[*history, word] = (count - discount) / total + below
        if history:
            # Not interpolated: the mass is spread over words that this history has not seen.
            unseen = 1.0 - reduce(add, (prob[*history[1:], word] for word in word_counts))
            weight = backoff_mass if interpolated or unseen < ALL_SEEN else backoff_mass / unseen
            backoff[history] = weight
    # A discount of 1 leaves n-grams seen once without probability.
    unlikely = UNSEEN_START * LN_10  # as Kaldi has it where the discount is the whole count
    return NgramModel(order, _take_logs(prob, of_zero=unlikely), _take_logs(backoff))


def _take_logs(values: Mapping[Ngram, float], of_zero: float = -math.inf) -> dict[Ngram, float]:
    """The logarithm of each value; `of_zero`: that of 0."""
    numbers = np.array([*values.values()], float)
    least = numbers.min(initial=1.0)
    if least < 0 or (least == 0 and of_zero == -math.inf):
        raise ValueError(f"a probability of {least}")
    logs = np.where(numbers == 0, of_zero, elementary.log(numbers))
    return dict(zip(values, logs.tolist(), strict=True))


def _count_ngrams(sentences: Iterable[Sequence[str]], order: int) -> Counter[Ngram]:
    """Counts of all n-grams of orders 1 to `order` that predict something (not those of <s>)."""
    if order < 1:
        raise InputError(f"an n-gram model has an order of at least 1, not {order}")
    # Each word, and the end, predicted by up to order - 1 before it.
    counts: Counter[Ngram] = Counter()
    for sentence in sentences:
        if START in sentence or END in sentence:
            raise InputError(f"{START} and {END} are added to every sentence: {' '.join(sentence)}")
        if EPSILON in sentence or BACKOFF in sentence:
            raise InputError(f"{EPSILON} and {BACKOFF} are no words: {' '.join(sentence)}")
        padded = (START, *sentence, END)
        for end in range(1, len(padded)):
            for begin in range(max(0, end - order + 1), end + 1):
                counts[padded[begin : end + 1]] += 1
    if not counts:
        raise InputError("no sentence to estimate a language model from")
    return counts


def write_arpa(model: NgramModel, path: Path) -> None:
    """Write `model` in ARPA format (log10, six decimals), as `updating` does."""
    orders: list[list[Ngram]] = [[] for _ in range(model.order)]
    for ngram in {(START,), *model.log_prob}:
        orders[len(ngram) - 1].append(ngram)
    with updating(Path(path)) as temporary, temporary.open("w", encoding="utf-8") as file:
        print("\\data\\", file=file)
        for n, ngrams in enumerate(orders, 1):
            print(f"ngram {n}={len(ngrams)}", file=file)
        for n, ngrams in enumerate(orders, 1):
            print(f"\n\\{n}-grams:", file=file)
            for ngram in sorted(ngrams):
                log10 = model.log_prob.get(ngram, UNSEEN_START * LN_10) / LN_10
                fields = [f"{log10:.6f}", " ".join(ngram)]
                if ngram in model.backoff:
                    fields.append(f"{model.backoff[ngram] / LN_10:.6f}")
                print("\t".join(fields), file=file)
        print("\n\\end\\", file=file)


def read_arpa(path: Path) -> NgramModel:
    """Read an ARPA file; InputError names the line that is not what its section promises.

    Text before `\\data\\` is passed over, as by Kaldi; -inf is SRILM's -99, and log probabilities
    that rounding put above 0 are 0.
    """
    announced: dict[int, int] = {}
    log_prob: dict[Ngram, float] = {}
    backoff: dict[Ngram, float] = {}
    order = 0  # of the section that we are in; 0: \data\
    lines = iter_lines(Path(path))
    _skip_preface(lines, path)
    for number, fields in lines:
        try:
            if fields[0].startswith("\\") and len(fields) == 1:
                if fields[0] == "\\end\\":
                    break
                order = _begin_section(fields[0], order)
                if order not in announced:
                    raise InputError(f"{fields[0]}, but no 'ngram {order}=COUNT' above")
            elif order == 0:
                n, count = _parse_announcement(fields)
                announced[n] = count
            else:
                ngram, log10, weight = _parse_entry(fields, order)
                if ngram in log_prob:
                    raise InputError(f"the n-gram {' '.join(ngram)} is repeated")
                log_prob[ngram] = log10 * LN_10
                if weight:
                    backoff[ngram] = weight * LN_10
        except InputError as error:
            raise InputError(f"{path}, line {number}: {error}") from error
    else:
        raise InputError(f"{path}: no \\end\\ line: the ARPA file is truncated")
    if second := next((number for number, fields in lines if fields == ["\\data\\"]), 0):
        raise InputError(f"{path}, line {second}: a second model begins; take them apart")
    held = Counter(len(ngram) for ngram in log_prob)
    if not announced or held != Counter(announced):
        raise InputError(
            f"{path}: announces {announced} n-grams by order, holds {dict(sorted(held.items()))}"
        )
    return NgramModel(max(announced), log_prob, backoff, str(path))


def _skip_preface(lines: Iterable[tuple[int, list[str]]], path: Path) -> None:
    """Go behind \\data\\; a toolkit may explain the format before it, titles included."""
    fault = f"{path}: no \\data\\ line: no ARPA file, or truncated"
    for number, fields in lines:
        if fields == ["\\data\\"]:
            return
        if fields[0].endswith("-grams:") and f"{path}, line" not in fault:
            fault = f"{path}, line {number}: {fields[0]} where \\data\\ is due"
    raise InputError(fault)


def _begin_section(title: str, order: int) -> int:
    due = f"\\{order + 1}-grams:"
    if title != due:
        raise InputError(f"{title} where {due} is due")
    return order + 1


def _parse_announcement(fields: Sequence[str]) -> tuple[int, int]:
    n, _, count = "".join(fields[1:]).partition("=")
    if fields[0] != "ngram" or not (NUMBER.fullmatch(n) and NUMBER.fullmatch(count)):
        raise InputError(f"not 'ngram ORDER=COUNT': {' '.join(fields)}")
    if int(n) > MOST_BACKOFFS + 1:
        raise InputError(f"n-grams of {n} words, {MOST_BACKOFFS + 1} at most")
    return int(n), int(count)


def _parse_entry(fields: Sequence[str], order: int) -> tuple[Ngram, float, float]:
    ngram = tuple(map(intern, fields[1 : order + 1]))  # a word has one string in all n-grams
    try:
        log10, weight = parse_real(fields[0]), 0.0
        if len(fields) > order + 1:
            (weight,) = map(parse_real, fields[order + 1 :])
        elif len(ngram) < order:
            raise ValueError
    except ValueError as error:
        raise InputError(
            f"not a log probability, {order} words and perhaps a backoff weight: {' '.join(fields)}"
        ) from error
    log10, weight = (UNSEEN_START if x == -math.inf else x for x in (log10, weight))
    if not (-LARGEST <= log10 <= ROUNDING and abs(weight) <= LARGEST):
        raise InputError(
            f"no log10 probability and backoff weight within {LARGEST}: {' '.join(fields)}"
        )
    if EPSILON in ngram or BACKOFF in ngram:
        raise InputError(f"{BACKOFF} and {EPSILON} are no words: {' '.join(fields)}")
    return ngram, min(log10, 0.0), weight


def build_grammar_fst(
    model: NgramModel, words: Mapping[str, int], backoff: int
) -> tuple[Fst, set[str]]:
    """Return G, an acceptor of words, and the words of the model that `words` lacks.

    N-grams with unknown words are left out, and what `select_ngrams` leaves out. A history is a
    state; its backoff arc reads the word-id `backoff` (#0); <s> and </s> become the start and the
    final costs (Kaldi's arpa2fst --disambig-symbol=#0). Histories from which only the backoff leads
    away are skipped over.
    InputError where G can say no word, or only marks such as <UNK> of a lexicon of words.
    """
    # words.txt of Kaldi's older lang folders lacks <s> and </s>, of which G has no arc.
    symbols = {*words, START, END}
    ngrams = select_ngrams(model, symbols)
    # States are histories that begin some n-gram; the backoff leads to ever shorter ones.
    starts = _first_histories(model)
    histories = starts | {n for n in ngrams if len(n) < model.order and n[-1] != END}
    useful = {n[:-1] for n in ngrams} | starts
    states = {h: i for i, h in enumerate(sorted(histories & useful, key=lambda h: (len(h), h)))}

    # A history with no arc but its backoff is no state: its weight is paid on the way to it.
    def state_after(ngram: Ngram) -> tuple[int, float]:
        cost = 0.0
        while ngram not in states:
            if ngram in histories:
                cost -= model.backoff.get(ngram, 0.0)
            ngram = ngram[1:]
        return states[ngram], cost

    arcs: list[Arc] = []
    final: dict[int, float] = {}
    for ngram, log_prob in ngrams.items():
        source = states[ngram[:-1]]
        if ngram[-1] == END:  # </s> is no arc but a final cost
            final[source] = -log_prob
        else:
            target, cost = state_after(ngram)
            label = words[ngram[-1]]
            arcs.append((source, label, label, cost - log_prob, target))
    for history, source in states.items():
        if history:
            target, cost = state_after(history[1:])
            arcs.append((source, backoff, 0, cost - model.backoff.get(history, 0.0), target))
    labels = {label for _, label, *_ in arcs} - {backoff}
    modelled = {ngram[0] for ngram in model.log_prob if len(ngram) == 1}
    refuse_mute(model.name, modelled, {word for word in words if words[word] in labels}, words)
    if not final:
        raise InputError(f"{model.name}: {NO_END}")
    unknown = {word for ngram in model.log_prob for word in ngram} - symbols
    return build_fst(arcs, final, states.get((START,), states[()])), unknown


def select_ngrams(model: NgramModel, words: Set[str]) -> dict[Ngram, float]:
    """The log probabilities of the n-grams of these words of which Kaldi's arpa2fst makes G.

    Others are those with <s> behind a word or </s> before one, and those without a history: what is
    before the last word is no such n-gram itself. Warnings count both.
    """
    known = {n: p for n, p in model.log_prob.items() if {*n} <= words and n != (START,)}
    ordered = {n: p for n, p in known.items() if START not in n[1:] and END not in n[:-1]}
    _warn_left_out(model, "with <s> or </s> in their midst", known.keys() - ordered.keys())
    placed: dict[Ngram, float] = {}
    starts = _first_histories(model)
    for ngram in sorted(ordered, key=len):
        if ngram[:-1] in placed or ngram[:-1] in starts:
            placed[ngram] = ordered[ngram]
    _warn_left_out(model, "without a history", ordered.keys() - placed.keys())
    return placed


def _first_histories(model: NgramModel) -> set[Ngram]:
    """The histories with which all others begin."""
    return {(), (START,)} if model.order > 1 else {()}


def _warn_left_out(model: NgramModel, kind: str, ngrams: Collection[Ngram]) -> None:
    if ngrams:
        example = " ".join(min(ngrams))
        LOG.warning(
            "%s: %d n-grams %s are left out, such as %s", model.name, len(ngrams), kind, example
        )


def refuse_mute(
    name: str | Path, modelled: Set[str], spoken: Set[str], lexicon: Iterable[str]
) -> None:
    """InputError where `spoken` has no word of the lexicon, or more words of it are `modelled` in
    another case or Unicode form than are spoken as they are.

    name: of the model, or of the text that it is estimated from; `spoken`: by its arcs.
    """
    symbols = {EPSILON, BACKOFF, START, END}
    pronounced = [word for word in lexicon if word not in symbols]
    # <UNK> may be all that two spellings share; a lexicon of nothing but marks is a user's will.
    due = [word for word in pronounced if not MARK.fullmatch(word)] or pronounced
    common = sum(word in spoken for word in due)
    if not common:
        raise InputError(
            f"{name}: has no word of the lexicon, whose {len(due)} words are such as"
            f" {name_some(due)}; those there are such as {name_some(sorted(modelled - symbols))}:"
            " spell them alike, also in upper and lower case and in one Unicode form"
        )
    unlike = {fold_case(word): word for word in modelled - {*pronounced, *symbols}}
    pairs = [
        f"{unlike[fold_case(word)]} for {word}"
        for word in due
        if fold_case(word) in unlike and word not in modelled
    ]
    if len(pairs) > common:
        raise InputError(
            f"{name}: has {len(pairs)} words of the lexicon in another case or Unicode form,"
            f" such as {name_some(pairs)}, and only {common} as they are: spell them alike"
        )
