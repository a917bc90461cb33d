"""Pronunciations, and the transducer L from phones to words (Kaldi's prepare_lang.sh)."""

import logging
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bayes_asr.base import elementary
from bayes_asr.base.errors import InputError, name_some
from bayes_asr.decode.graph.dialects import (
    NO_PHONE,
    SILPROB,
    count_probabilities,
    describe_doubts,
    refuse_other_layouts,
)
from bayes_asr.decode.graph.transducers import (
    BACKOFF,
    END,
    EPSILON,
    RESERVED,
    START,
    Arc,
    build_fst,
)
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.byte_reader import parse_real
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.transition_model import TransitionModel

LOG = logging.getLogger(__name__)
COMMENT, ALONE = "a comment behind #, which is left out", "a comment alone, which is left out"
POSITION = re.compile(r"_[BEIS]$", re.ASCII)  # at the end of a phone
VARIANT = re.compile(r"(.+)(?:\(\d+\)|\{\d+\}|\[\d+\])", re.ASCII)
MOST_UNKNOWN = 0.5  # of the words: more have transcripts in other units or of another spelling
FEWEST_WORDS = 100  # that show the units: of a few words, most may well be names


@dataclass(frozen=True)
class Pronunciation:
    """One way to say a word; `phones` may end in a disambiguation symbol (#1, #2, ...)."""

    word: str
    probability: float
    phones: tuple[str, ...]


@dataclass(frozen=True)
class LexiconFst:
    """L.fst or L_disambig.fst, from phones to words, and the symbol tables of its labels."""

    fst: Fst
    phones: dict[str, int]
    words: dict[str, int]


@dataclass(frozen=True)
class Lang:
    """A lexicon, and what may stand between its words.

    `silence`: the phone of pauses, if there is one; `silence_probability`: of a pause, 0 where
    words have none between them; `unknown`: the word that stands for words without pronunciation;
    `transducer`: the L.fst that the folder has of this lexicon.
    """

    lexicon: Sequence[Pronunciation]
    silence: str | None = None
    silence_probability: float = 0.0
    unknown: str | None = None
    transducer: LexiconFst | None = None

    def extend(self, entries: Sequence[Pronunciation]) -> "Lang":
        """Return the same with further pronunciations, which no L.fst has."""
        if not entries:
            return self
        return replace(self, lexicon=[*self.lexicon, *entries], transducer=None)


def read_lexicon(path: Path) -> list[Pronunciation]:
    """Read `word phone phone ...` lines, or `word probability phone ...` in a file `*lexiconp.txt`.

    Dialects are recognised and announced: a probability after the word, or four numbers, of which
    the other three (pauses around the word) are left out, as the Montreal Forced Aligner and
    Kaldi's lexiconp_silprob.txt have them; word(2) beside word, and comments, as CMUdict has them.
    Raises InputError for a word without phones, a reserved word, a repeated line, a probability
    outside (0, 1], a phone that is a decimal number and phones behind #.
    """
    always = Path(path).name.endswith("lexiconp.txt")
    read = [(f"{path}, line {number}", fields) for number, fields in iter_lines(Path(path))]
    entire = [(where, fields) for where, fields in read if not _is_comment(fields)]
    lines = [(where, _cut_comment(fields)) for where, fields in entire]
    columns = count_probabilities([fields for _, fields in lines], always=always)
    spelled = [
        (fields[0], *fields[1 + count :]) for (_, fields), count in zip(lines, columns, strict=True)
    ]
    refuse_other_layouts(path, spelled)
    alone = sum(fields[0].startswith("##") and _is_comment(fields) for _, fields in read)
    dialect = Counter({COMMENT: _check_comments(entire, spelled), ALONE: alone})
    listed = {word for word, *_ in spelled}
    entries: dict[tuple[str, ...], Pronunciation] = {}
    for (where, (_, *fields)), count, (word, *phones) in zip(lines, columns, spelled, strict=True):
        if variant := VARIANT.fullmatch(word):
            if variant[1] in listed:
                word = variant[1]
                dialect["further pronunciations as word(2), which are those of the word"] += 1
            else:
                dialect[
                    "a number in brackets, and no such word without: they stay as they are"
                ] += 1
        probability = _parse_probability(fields[0] if fields else "", word, where) if count else 1.0
        dialect["a probability after the word"] += count > 0 and not always
        dialect["probabilities of pauses as well, which are not used"] += count == len(SILPROB)
        _check_entry(word, phones, where)
        if (word, *phones) in entries:
            raise InputError(
                f"{where}: the pronunciation {' '.join((word, *phones))} is repeated; keep one line"
            )
        entries[word, *phones] = Pronunciation(word, probability, tuple(phones))
    if not entries:
        raise InputError(f"{path}: the lexicon is empty; write a word and its phones in each line")
    for trait, count in (+(dialect + describe_doubts(spelled))).items():
        LOG.warning("%s: %d of %d lines have %s", path, count, len(read), trait)
    return list(entries.values())


def _is_comment(fields: Sequence[str]) -> bool:
    """Whether a line is a comment of CMUdict; ##ing, with phones, is a word."""
    word, *phones = fields
    return word.startswith(";;;") or (word.startswith("##") and not (phones and word.strip("#")))


def _cut_comment(fields: list[str]) -> list[str]:
    """The fields of a line before a comment of CMUdict."""
    return fields[: fields.index("#", 1)] if "#" in fields[1:] else fields


def _check_comments(
    lines: Iterable[tuple[str, Sequence[str]]], spelled: Iterable[Sequence[str]]
) -> int:
    """Count the lines with a comment; InputError where that may be the rest of the phones.

    spelled: words and phones, without comments.
    """
    phones = {phone for _, *word in spelled for phone in word}
    count = 0
    for where, fields in lines:
        if "#" in fields[1:]:
            comment = fields[fields.index("#", 1) + 1 :]
            if comment and phones.issuperset({*comment} - {"#"}):
                raise InputError(
                    f"{where}: {fields[0]} has phones behind #, where comments are:"
                    f" {' '.join(fields)}; take the # out"
                )
            count += 1
    return count


def _check_entry(word: str, phones: Sequence[str], where: str) -> None:
    if not phones:
        raise InputError(f"{where}: the word {word} has no phones; add them, or take it out")
    if word in RESERVED or any(phone.startswith("#") for phone in phones):
        raise InputError(
            f"{where}: {', '.join(RESERVED)} and phones #... are reserved; take the line out:"
            f" {' '.join((word, *phones))}"
        )
    numbers = [phone for phone in phones if NO_PHONE.fullmatch(phone)]
    if numbers:
        raise InputError(
            f"{where}: the word {word} has a phone {numbers[0]}, which is a number: write `word"
            f" phone phone ...`, or `word probability phone ...`, or {' '.join(SILPROB)} before"
            " the phones"
        )


def _parse_probability(text: str, word: str, where: str) -> float:
    try:
        value = parse_real(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value <= 1.0:
        raise InputError(
            f"{where}: {text!r} is no probability of the word {word}; write one above 0 and at most"
            " 1, as `word probability phone ...`"
        )
    return value


def number_words(lexicon: Iterable[Pronunciation]) -> dict[str, int]:
    """Number the words as prepare_lang.sh does: <eps>, the words in byte order, #0, <s>, </s>."""
    words = sorted({entry.word for entry in lexicon}, key=str.encode)
    return {w: i for i, w in enumerate((EPSILON, *words, BACKOFF, START, END))}


def report_unknown(
    text: Path,
    transcripts: Mapping[str, Sequence[str]],
    known: Container[str],
    lexicon: Path,
    unknown: str,
) -> None:
    """Warn of words of transcripts that are not among the known ones of a lexicon.

    unknown: what stands for them. InputError where they are most of `FEWEST_WORDS` or more.
    """
    missing = {utt: [w for w in words if w not in known] for utt, words in transcripts.items()}
    names = list(dict.fromkeys(word for words in missing.values() for word in words))
    if not names:
        return
    first = next(utt for utt, words in missing.items() if words)
    count, total = (sum(map(len, words.values())) for words in (missing, transcripts))
    message = (
        f"{text}: {count} of {total} words are not in {lexicon}, the first in {first}:"
        f" {name_some(names)}"
    )
    if total >= FEWEST_WORDS and count > total * MOST_UNKNOWN:
        raise InputError(
            f"{message}; transcripts and lexicon must be of the same units: write the words of the"
            " lexicon there, or name a lang folder that has those of the transcripts"
        )
    LOG.warning("%s; %s stands for them", message, unknown)


def mark_positions(lexicon: Iterable[Pronunciation]) -> list[Pronunciation]:
    """Mark each phone by its place in the word: _B begin, _I inside, _E end, _S alone."""

    def mark(phones: Sequence[str]) -> tuple[str, ...]:
        if len(phones) == 1:
            return (f"{phones[0]}_S",)
        return (f"{phones[0]}_B", *(f"{p}_I" for p in phones[1:-1]), f"{phones[-1]}_E")

    return [Pronunciation(e.word, e.probability, mark(e.phones)) for e in lexicon]


def strip_position(phone: str) -> str:
    """A phone without its place in the word, where it bears one."""
    return POSITION.sub("", phone)


def strip_positions(lexicon: Iterable[Pronunciation]) -> list[Pronunciation]:
    """The same without the marks of `mark_positions`."""
    return [
        Pronunciation(e.word, e.probability, (*map(strip_position, e.phones),)) for e in lexicon
    ]


def bears_positions(lexicon: Iterable[Pronunciation]) -> bool:
    """Whether all phones are marked by their places in words."""
    return all(mark_positions(strip_positions([entry])) == [entry] for entry in lexicon)


def fit_lexicon(
    lexicon: Sequence[Pronunciation], phones: Mapping[str, int], model: TransitionModel
) -> list[Pronunciation]:
    """The lexicon with the phones of `model`, whose table is `phones`.

    Where the table has the variants _B _I _E _S of a phone, the lexicon is taken to be without.
    InputError for a phone that the model does not have.
    """
    if any(f"{phone}_B" in phones for entry in lexicon for phone in entry.phones):
        lexicon = mark_positions(lexicon)
    for entry in lexicon:
        for phone in entry.phones:
            if phones.get(phone) not in model.topology:
                raise InputError(
                    f"the phone {phone} of the word {entry.word} is not in phones.txt or not in "
                    f"the model, which has {len(model.topology)} phones: correct the lexicon"
                )
    return list(lexicon)


def disambiguate(lexicon: Sequence[Pronunciation]) -> tuple[list[Pronunciation], int]:
    """End with #1, #2, ... what another entry also says or begins with (add_lex_disambig.pl).

    Returns the new lexicon and the largest number used.
    """
    # Homophones, and pronunciations that begin others: without a mark L o G could not be
    # determinized.
    times = Counter(entry.phones for entry in lexicon)
    prefixes = {entry.phones[:end] for entry in lexicon for end in range(1, len(entry.phones))}
    homophones: Counter[tuple[str, ...]] = Counter()
    marked = []
    for entry in lexicon:
        phones = entry.phones
        if times[phones] > 1 or phones in prefixes:
            homophones[phones] += 1
            phones = (*phones, f"#{homophones[phones]}")
        marked.append(Pronunciation(entry.word, entry.probability, phones))
    return marked, max(homophones.values(), default=0)


def build_lexicon_fst(
    lexicon: Iterable[Pronunciation],
    phones: Mapping[str, int],
    words: Mapping[str, int],
    silence: Sequence[str] = (),
    silence_probability: float = 0.0,
    *,
    backoff: bool = True,
) -> Fst:
    """Return L: phones to words, with `silence` before, between and after words if there is any.

    `silence` is a phone and perhaps what disambiguates it. With `backoff`, the symbol #0 passes
    through between words (make_lexicon_fst.py, then fstaddselfloops).
    """
    # Words begin at `loop`. Each ends there or, by the probability of silence, at `pause`, from
    # which the phone of silence leads back.
    start, loop, pause = 0, 1, 2
    arcs: list[Arc] = []
    endings: list[tuple[int, float]]
    if silence:
        skip, take = (-elementary.log([1.0 - silence_probability, silence_probability])).tolist()
        endings = [(loop, skip), (pause, take)]
        arcs += [(start, 0, 0, skip, loop), (start, 0, 0, take, pause)]
        states = _append_path(arcs, pause, [phones[p] for p in silence], 0, 0.0, [(loop, 0.0)], 3)
    else:
        start = loop = 0
        endings = [(loop, 0.0)]
        states = 1
    costs = -elementary.log([entry.probability for entry in lexicon])
    for entry, cost in zip(lexicon, costs.tolist(), strict=True):
        labels = [phones[phone] for phone in entry.phones]
        states = _append_path(arcs, loop, labels, words[entry.word], cost, endings, states)
    # fstaddselfloops: #0 loops at the loop state and at every state that a word leaves.
    speaking = {source for source, _, word, _, _ in arcs if word} | {loop} if backoff else set()
    arcs += [(state, phones[BACKOFF], words[BACKOFF], 0.0, state) for state in sorted(speaking)]
    return build_fst(arcs, {loop: 0.0}, start)


def _append_path(
    arcs: list[Arc],
    source: int,
    labels: Sequence[int],
    word: int,
    cost: float,
    endings: Sequence[tuple[int, float]],
    states: int,
) -> int:
    """Append a path that reads `labels`, new states counting from `states`; return how many now."""
    # The first arc writes the word and bears the cost.
    for label in labels[:-1]:
        arcs.append((source, label, word, cost, states))
        source, word, cost, states = states, 0, 0.0, states + 1
    arcs += [(source, labels[-1], word, cost + extra, target) for target, extra in endings]
    return states
