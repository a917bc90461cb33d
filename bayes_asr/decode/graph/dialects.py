"""Layouts of lexicons: numbers before the phones, and what other programs write between them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.kaldi_io.marks import find_mark

DECIMAL = re.compile(r"\d*\.\d+([eE][+-]?\d+)?|\d+(\.\d*)?[eE][+-]?\d+", re.ASCII)
NUMBER = re.compile(rf"{DECIMAL.pattern}|\d+", re.ASCII)
NO_PHONE = re.compile(rf"[-+]?({DECIMAL.pattern}|\d+,\d+)%?|[-+]\d+|\d+%", re.ASCII)
SILPROB = ("P(word)", "P(pause)", "F(pause)", "F(no-pause)")  # of lexiconp_silprob.txt
IN_TABLES = (",", ";", "|", ":", "=", "\\")
SEPARATORS = (*IN_TABLES, "->", "=>", "-", "/")
SPLIT_MARKS = frozenset((*SEPARATORS, ".", "//", "'", "ˈ", "ˌ", "ː", ";;"))
"""What stands between phones, or before them for stress, in dictionaries for readers."""
COMMENT_MARKS = frozenset(("#", "//", "%", "%%", ";", ";;", "--"))
ENCLOSED = re.compile(r"[/\[({].*[/\])}]", re.S)
MARK = re.compile(r"<.*>|\[.*\]|!?sil|spn", re.I)  # <UNK>, [noise]: no word of a language
FEWEST = 3  # lines of which all are alike by no chance

Lines = Sequence[Sequence[str]]
"""The fields of each line, the word first."""


def count_probabilities(lines: Lines, *, always: bool) -> list[int]:
    """The number of fields after the word that are probabilities, in each line.

    always: each line has one. Otherwise a decimal number tells, and in a file with such lines a
    whole number does too, or where all lines have one and not all phones are numbers.
    """
    counted = [(fields, _count_numbers(fields[1:])) for fields in lines]
    # Some writers have 1 for 1.0; words spelled by digits have no point.
    if any(n == len(SILPROB) and sum("." in f for f in fields[1:5]) > 1 for fields, n in counted):
        most = len(SILPROB)
    elif any(DECIMAL.fullmatch(field) for fields in lines for field in fields[1:2]):
        most = 1
    else:
        kept = [fields[1:] for fields in _keep_words(lines)]
        before_phones = any(not NUMBER.fullmatch(field) for fields in kept for field in fields)
        most = int(len(kept) >= FEWEST and before_phones and all(map(_count_numbers, kept)))
    return [
        most if 1 < most == numbers else int(always or bool(most and numbers))
        for _, numbers in counted
    ]


def _keep_words(lines: Lines) -> Lines:
    """The lines of words, or all where there are none: not `SIL SIL` or `<UNK> SPN`, which people
    put before a dictionary that has a layout of its own.
    """
    return [
        fields
        for fields in lines
        if len(fields) != 2 or not (fields[0] == fields[1] or MARK.fullmatch(fields[0]))
    ] or lines


def _count_numbers(fields: Sequence[str]) -> int:
    """The fields in front that are numbers, four at most."""
    for count, field in enumerate(fields[: len(SILPROB)]):
        if not NUMBER.fullmatch(field):
            return count
    return min(len(fields), len(SILPROB))


def refuse_other_layouts(path: Path, lines: Lines) -> None:
    """Raise InputError where words or phones are set apart otherwise than by spaces, or have what
    HTK's and Julius's dictionaries have.

    lines: without probabilities.
    """
    for fields in lines:
        output = fields[1] if len(fields) > 2 else ""
        word = fields[0].casefold()
        if output[:1] == "[" and output[-1:] == "]" and word.startswith(output[1:-1].casefold()):
            raise InputError(
                f"{path}: {fields[0]} has an output symbol {output} before its phones, as HTK's and"
                r" Julius's dictionaries have: take these out, sed 's/ \[[^]]*\]//'"
            )
    paused = sum(fields[-1].lower() == "sp" for fields in lines)
    if len(lines) >= FEWEST and 2 * paused > len(lines):
        raise InputError(
            f"{path}: most words end in sp, a pause of HTK's, and pauses come between words by"
            " themselves: take them out, sed -E 's/ sp$//'"
        )
    kept = _keep_words(lines)
    if len(kept) >= FEWEST and (problem := next(_iter_problems(kept), "")):
        raise InputError(f"{path}: {problem}: write `word phone phone ...`, with spaces alone")


def _iter_problems(lines: Lines) -> Iterator[str]:
    """What all lines have in common that is no phone."""
    for mark in SEPARATORS:
        if mark in IN_TABLES and all(mark in fields[0][1:] for fields in lines):
            yield f"all words hold {mark!r}, such as {lines[0][0]}"
        if all(mark in fields[1:2] for fields in lines):
            yield f"a {mark!r} follows all words"
    spelled = [" ".join(fields[1:]) for fields in lines]
    if all(map(ENCLOSED.fullmatch, spelled)):
        yield f"all pronunciations are enclosed, such as {spelled[0]}"


def _iter_doubts_of_few(lines: Lines) -> Iterator[str]:
    """What would be refused, or taken for probabilities, if more lines had it."""
    yield from _iter_problems(lines)
    if all(fields[-1].lower() == "sp" for fields in lines):
        yield "words end in sp, a pause of HTK's"
    if all(len(fields) > 2 and fields[1].isdigit() for fields in lines):
        yield f"the phone {lines[0][1]} is a number, and may be a probability"


def describe_doubts(lines: Lines) -> Counter[str]:
    """What of a lexicon may not be meant, and in how many lines; lines: without probabilities."""
    doubts: Counter[str] = Counter()
    if len(kept := _keep_words(lines)) < FEWEST:
        for doubt in _iter_doubts_of_few(kept):
            doubts[f"what may not be meant: {doubt}"] = len(kept)
    single = {fields[1] for fields in lines if len(fields) == 2 and len(fields[1]) > 2}
    unsplit = single - {fields[0] for fields in lines}
    if 2 * len(unsplit) > len(lines):
        doubts[
            f"one phone of several letters, such as {min(unsplit)}, where spaces may be missing"
        ] = len(unsplit)
    marks = sorted({phone for fields in lines for phone in fields[1:]} & SPLIT_MARKS)
    if marks:
        doubts[f"phones that may stand between others or for stress: {name_some(marks)}"] = sum(
            not SPLIT_MARKS.isdisjoint(fields[1:]) for fields in lines
        )
    if comments := sum(fields[0] in COMMENT_MARKS for fields in lines):
        doubts["a word that may begin a comment, which ;;; or ## do"] = comments
    if hidden := [mark for fields in lines for field in fields if (mark := find_mark(field))]:
        doubts[f"white space or a mark that nobody sees, such as {hidden[0]}"] = len(hidden)
    return doubts
