"""Scoring by time, as NIST's hubscr does it: CTM words against the segments of an STM."""

import logging
import math
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.evaluate.score.counts import tally
from bayes_asr.evaluate.score.glm import Glm, filter_words
from bayes_asr.evaluate.score.phones import PhoneMap, fold
from bayes_asr.evaluate.score.scores import UtteranceScore
from bayes_asr.evaluate.score.word_network import align_marked
from bayes_asr.kaldi_io.binary import iter_lines, split_words
from bayes_asr.kaldi_io.byte_reader import parse_real

LOG = logging.getLogger(__name__)
ALTERNATION = {"<ALT_BEGIN>": "{", "<ALT>": "/", "<ALT_END>": "}"}
"""Marks of a CTM that stand where a word does, and what they are in an STM."""
TAGS = re.compile(r"(?<!\\);.*", re.S)
CONFIDENCE, TYPE = 5, 6  # of the fields of a CTM; types are of the RT evaluations
LATEST = 1e9  # seconds
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(nan|inf)|na", re.ASCII | re.I)
TRN_NAME = re.compile(r"\([^()]*\d[^()]*\)")
TIMED_LINES = {
    "an RTTM": re.compile(r"SPEAKER \S+ \S+ [\d.]+ [\d.]+( \S+){3,5}", re.ASCII),
    "an STM": re.compile(r"\S+ \S+ \S+ [\d.]+ [\d.]+( .*)?", re.ASCII),
    "a CTM": re.compile(r"\S+ \S+ [\d.]+ [\d.]+( \S+){1,4}", re.ASCII),
    "a text with times": re.compile(r"\S+ [\d.]+ [\d.]+( .*)?", re.ASCII),
}
FRACTION = re.compile(r" \d*\.\d+ ", re.ASCII)
"""A time of such lines, as no words have it: digits that are spoken have no point."""
CELLS = re.compile(r'[^\s,;|]+[,;|]\S+|[\[{]*"[^"]*"[:,].*|[\[{]+"\S*|[\[{}\]]+,?$')
"""How a line of CSV or JSON begins, where a name and a space are due."""
WHOLE = re.compile(r"\S+ [12ab] ([^\d\s]\S* )?\d+ \d+( [^\d\s].*)?", re.ASCII | re.I)
"""A line of an STM or a CTM whose times have no point either, by its channel before them."""
IGNORED = ("ignore_time_segment_in_scoring", "ignoretimesegmentinscoring")
Channel = tuple[str, str]
"""Recording and channel."""


@dataclass(frozen=True)
class Segment:
    """A stretch of one speaker in a channel, in seconds, and what was said."""

    channel: Channel
    speaker: str
    begin: float
    end: float
    text: str


@dataclass(frozen=True)
class Word:
    """A recognised word, or an alternation `{ a / b }` and its latest word, in seconds."""

    channel: Channel
    begin: float
    duration: float
    text: str


Timed = TypeVar("Timed", Segment, Word)


@dataclass(frozen=True)
class TimedTokens:
    """Tokens that stay together, a word or an alternation, and the time of their middle."""

    channel: Channel
    middle: float
    tokens: tuple[str, ...]


def iter_stm_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and `recording channel speaker begin end word word ...` of an STM.

    Labels `<O,M>` before the words and `;;` comments are left out. A word such as <unk> is taken
    for a label too, as by sclite, and said where other lines have none.
    """
    labels: Counter[str] = Counter()
    has_plain = False
    for number, fields in _iter_lines(path):
        if len(fields) < 5:
            raise InputError(
                f"{path}, line {number}: {len(fields)} fields, an STM has 5 or more; correct it"
            )
        labelled = len(fields) > 5 and fields[5].startswith("<") and fields[5].endswith(">")
        labels.update(fields[5:6] if labelled and "," not in fields[5] else [])
        has_plain |= len(fields) > 5 and not labelled and not fields[5].lower().startswith(IGNORED)
        yield number, [*fields[:5], *fields[6 if labelled else 5 :]]
    del labels["<>"]
    if labels and has_plain:
        LOG.warning(
            "%s: the first word is taken for a label in %d lines, as by sclite: %s; write <> before"
            " it where it is a word",
            path,
            labels.total(),
            name_some(sorted(labels)),
        )


def refuse_formats_of_nist(
    path: Path,
    remedy: str = "a CTM is counted against an STM: --ref FILE.stm --hyp FILE.ctm",
) -> None:
    """Raise InputError for an RTTM, CTM, STM or trn in the place of a Kaldi text."""
    lines = [" ".join(fields) for _, fields in _iter_lines(path)]
    is_whole = len(lines) > 1 and all(map(WHOLE.fullmatch, lines))
    is_timed = is_whole or any(map(FRACTION.search, lines))
    for name, line in TIMED_LINES.items():
        if is_timed and all(map(line.fullmatch, lines)):
            raise InputError(
                f"{path}: each line is of {name}, not of a text, which has an utterance and its"
                f" words; {remedy}"
            )
    _refuse_trn(path)


def _refuse_trn(path: Path) -> None:
    """Raise InputError for a transcript of sclite's, whose lines end with `(utterance)`."""
    ends = [(number, fields[-1]) for number, fields in iter_lines(path)]
    names = [last for _, last in ends if TRN_NAME.fullmatch(last)]
    if len(names) <= len(ends) / 2:
        return
    lines = "each line ends with its utterance"
    if len(names) < len(ends):
        number = next(number for number, last in ends if not TRN_NAME.fullmatch(last))
        lines = (
            f"{len(names)} of {len(ends)} lines, but not line {number}, end with their utterance"
        )
    raise InputError(
        f"{path}: {lines}, {names[0]} in the first, as in sclite's trn;"
        r" put it in front: sed -E 's/^(.*)\(([^()]*)\)\s*$/\2 \1/'"
    )


def refuse_cells(path: Path) -> None:
    """Raise InputError for CSV and JSON, of which the first word would belong to the name."""
    cells = [CELLS.match(" ".join(fields)) for _, fields in iter_lines(path)]
    if all(cells) and (first := next(iter(cells), None)):
        raise InputError(
            f"{path}: {first[0]!r} is no name, but a cell of a table or JSON, as in all lines;"
            " write names without such marks, a space and words"
        )


def describe_alternatives(path: Path) -> str:
    """The lines of a Kaldi text with alternatives such as { a / b }; empty where none has them."""
    lines = [
        number for number, fields in iter_lines(path) if {*ALTERNATION.values()} <= {*fields[1:]}
    ]
    if not lines:
        return ""
    return (
        f"{path}, line {lines[0]}: {{, / and }} are words here, as in {len(lines)} lines; sclite"
        " takes alternatives out of an STM or a CTM: give these, or write one of the words"
    )


def read_stm(path: Path) -> list[Segment]:
    """Read `recording channel speaker begin end [<labels>] words`; `;;` comments are skipped."""
    segments: list[Segment] = []
    lines: dict[Segment, int] = {}
    for number, (recording, channel, speaker, *fields) in iter_stm_lines(path):
        begin, end = (_parse_seconds(field, path, number) for field in fields[:2])
        if end < begin:
            raise InputError(
                f"{path}, line {number}: a segment from {begin} to {end} s; correct it"
            )
        # sclite keeps these times in single precision, so a tie of a word with an end goes its way.
        rounded = float(np.float32(end))
        text = " ".join(fields[2:])
        segments.append(Segment((recording, channel), speaker, begin, rounded, text))
        earliest = lines.setdefault(segments[-1], number)
        if earliest < number:
            raise InputError(
                f"{path}, line {number}: is line {earliest} again, and its words would count twice;"
                " keep one"
            )
    return _sort_by_time(segments)


def read_ctm(path: Path) -> list[Word]:
    """Read `recording channel begin duration word [confidence [type [speaker]]]`.

    `;;` comments are skipped. Words of all types count, as under sclite. Alternations stand between
    `<ALT_BEGIN>`, `<ALT>` and `<ALT_END>`.
    """
    words: list[Word] = []
    types: Counter[str] = Counter()
    # The lines of the open alternation, its marks turned into tokens of an STM.
    open_tokens: list[str] = []
    inside: list[Word] = []
    for number, fields in _iter_lines(path):
        where = f"{path}, line {number}"
        if not 5 <= len(fields) <= 8:
            raise InputError(f"{where}: {len(fields)} fields, a CTM has 5 to 8; correct it")
        mark = ALTERNATION.get(fields[4].upper())
        if mark and (mark == "{") == bool(open_tokens):
            raise InputError(f"{where}: {fields[4]} where none is due; alternations do not nest")
        if mark:
            open_tokens.append(mark)
        else:
            word = _parse_word(fields, path, number)
            types.update(fields[TYPE : TYPE + 1])
            (inside if open_tokens else words).append(word)
            open_tokens += [word.text] * bool(open_tokens)
        if mark == "}":
            words.append(_join_alternatives(inside, open_tokens, where))
            open_tokens, inside = [], []
    if open_tokens:
        raise InputError(f"{path}: the last <ALT_BEGIN> has no <ALT_END>: the CTM is truncated")
    if types.keys() - {"lex"}:
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(types.items()))
        LOG.warning(
            "%s: words of all types count, as under sclite (%s); hubscr -h rt-stt takes lex alone",
            path,
            listed,
        )
    return _sort_by_time(words)


def _parse_word(fields: Sequence[str], path: Path, number: int) -> Word:
    begin, duration = (_parse_seconds(field, path, number) for field in fields[2:4])
    if duration < 0:
        raise InputError(f"{path}, line {number}: {fields[4]} lasts {duration} s; correct it")
    for confidence in fields[CONFIDENCE : CONFIDENCE + 1]:
        if not NUMBER.fullmatch(confidence):
            raise InputError(
                f"{path}, line {number}: {confidence!r} stands where a confidence does, a number or"
                " NA; a line has one word"
            )
    return Word((fields[0], fields[1]), begin, duration, fields[4])


def _join_alternatives(inside: Sequence[Word], tokens: Sequence[str], where: str) -> Word:
    """The alternation as a word at the place of the latest in it."""
    if len({_fold_case(word.channel) for word in inside}) != 1:
        raise InputError(f"{where}: an alternation holds words, all of one recording and channel")
    latest = max(inside, key=lambda word: word.begin)
    return replace(latest, text=" ".join(tokens))


def _fold_case(channel: Channel) -> Channel:
    """The channel as sclite compares it: it reads all lines in lower case."""
    return channel[0].lower(), channel[1].lower()


def _sort_by_time(items: Sequence[Timed]) -> list[Timed]:
    """Sort by recording, channel and begin; spellings of a channel are the same channel."""
    first: dict[Channel, Channel] = {}
    for channel in sorted({item.channel for item in items}):
        first.setdefault(_fold_case(channel), channel)
    return sorted(items, key=lambda item: (first[_fold_case(item.channel)], item.begin))


def _iter_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    return (
        (number, fields)
        for number, fields in iter_lines(Path(path))
        if not fields[0].startswith(";;")
    )


def _parse_seconds(field: str, path: Path, number: int) -> float:
    try:
        seconds = parse_real(field)
    except ValueError:
        seconds = math.nan
    if not abs(seconds) <= LATEST:
        raise InputError(f"{path}, line {number}: {field!r} is not a time in seconds; correct it")
    return seconds


def filter_ctm(words: Sequence[Word], glm: Glm | None) -> list[TimedTokens]:
    """Apply the rules to the words one by one; the words that one becomes share its time.

    An alternation stands at the middle of the latest word in it. A word that a rule deletes is
    gone; there csrfilt would leave its confidence in its place.
    """
    filtered: dict[str, list[str]] = {}
    for word in words:
        if word.text not in filtered:
            filtered[word.text] = filter_words(word.text, glm)
    return [timed for word in words for timed in _spread_tokens(word, filtered[word.text])]


def _spread_tokens(word: Word, tokens: Sequence[str]) -> Iterator[TimedTokens]:
    if "{" in tokens:
        # csrfilt cuts the word into as many parts as the longest alternative has words.
        longest = max(1, *(len(split_words(a)) for a in re.split(r"[{}/]", " ".join(tokens))))
        # One that the CTM has itself stands at the whole of its latest word.
        parts = 1 if word.text.startswith("{ ") else longest
        yield TimedTokens(word.channel, _middle(word, parts - 1, parts), tuple(tokens))
        return
    for i, token in enumerate(tokens):
        yield TimedTokens(word.channel, _middle(word, i, len(tokens)), (token,))


def _middle(word: Word, i: int, parts: int) -> float:
    """The middle of the i-th part of a word, of times in milliseconds as csrfilt writes them."""
    duration = word.duration / parts
    # Begin and duration are rounded each, as they stand in a CTM.
    return round(word.begin + i * duration, 3) + round(duration, 3) / 2


def assign_to_segments(
    segments: Sequence[Segment], timed: Sequence[TimedTokens]
) -> list[list[str]]:
    """The tokens of each segment: those left whose middle is before its end, as sclite deals them.

    So a word between two segments belongs to the later one, and what follows the last segment of
    a channel belongs to that. Both must be sorted by channel and begin. Raises InputError for
    words in a channel without segments.
    """
    waiting: dict[Channel, deque[TimedTokens]] = {}
    for tokens in timed:
        waiting.setdefault(_fold_case(tokens.channel), deque()).append(tokens)
    last = {_fold_case(segment.channel): segment for segment in segments}
    strange = sorted(waiting.keys() - last.keys())
    if strange:
        recording, channel = waiting[strange[0]][0].channel
        raise InputError(
            f"{len(waiting[strange[0]])} words in recording {recording}, channel {channel}, which"
            f" has no reference segment; there are {name_some(sorted(map(' '.join, last)))}"
        )
    dealt: list[list[str]] = []
    for segment in segments:
        segment_tokens: list[str] = []
        key = _fold_case(segment.channel)
        queue = waiting.get(key, deque())
        # The last segment takes all that is left, and others only what lies before their end.
        while queue and (segment is last[key] or queue[0].middle < segment.end):
            segment_tokens.extend(queue.popleft().tokens)
        dealt.append(segment_tokens)
    return dealt


def score_segments(
    segments: Sequence[Segment],
    words: Sequence[Word],
    name: str | Path,
    ref_glm: Glm | None = None,
    hyp_glm: Glm | None = None,
    optional: frozenset[str] = frozenset(),
    phone_map: PhoneMap | None = None,
) -> list[UtteranceScore]:
    """Score every segment that is not marked to be ignored, with sclite's costs.

    Rules apply to the whole text of a segment, but to recognised words one by one. Reference
    tokens `(x)` and those in `optional` may be missing. Utterances are named `speaker-000`, ...,
    in the order of their times; speakers that differ by case alone are one, as under sclite. Texts
    keep alternations and marks, so that aligned again they give the same errors. `name` says in
    errors whose words they are.
    """
    scored: list[UtteranceScore] = []
    numbers: dict[str, int] = {}
    speakers: dict[str, str] = {}  # as they are first spelled, by small letters
    try:
        dealt = assign_to_segments(segments, filter_ctm(words, hyp_glm))
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    # Scored by segment; ignored ones have taken their words, so that these are nobody's insertions.
    for segment, recognised in zip(segments, dealt, strict=True):
        if segment.text.lower().startswith(IGNORED):
            continue
        # Ignored segments get no number, so that names are those of sclite.
        speaker = speakers.setdefault(segment.speaker.lower(), segment.speaker)
        number = numbers[speaker] = numbers.get(speaker, -1) + 1
        utterance = f"{speaker}-{number:03d}"
        ref = _fold_all(_strip_tags(filter_words(segment.text, ref_glm)), phone_map)
        hyp = _fold_all(_strip_tags(recognised), phone_map)
        try:
            edits = align_marked(ref, hyp, optional)
        except InputError as error:
            raise InputError(f"{name}, segment {utterance}: {error}") from error
        scored.append(UtteranceScore(utterance, speaker, tally(edits), tuple(ref), tuple(hyp)))
    return scored


def _strip_tags(tokens: Sequence[str]) -> list[str]:
    """Words without the tags `word;tag;tag` of sclite, in which `\\;` is a semicolon."""
    return [TAGS.sub("", token).replace("\\;", ";") or token for token in tokens]


def _fold_all(tokens: Sequence[str], phone_map: PhoneMap | None) -> list[str]:
    """Fold phones, also those in parentheses."""
    if phone_map is None:
        return list(tokens)
    marked = {f"({a})": b if b is None else f"({b})" for a, b in phone_map.items()}
    return fold(tokens, {**phone_map, **marked})
