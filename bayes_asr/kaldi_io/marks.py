"""Differences of words that few see: white space and invisible marks in them, Unicode forms, case.

Kaldi's validators refuse the white space and the control characters among them. What is left are
formats that nobody sees, so that two words look alike and are not.
"""

import unicodedata
from collections.abc import Set
from pathlib import Path

from bayes_asr.base.errors import JOINERS, InputError
from bayes_asr.kaldi_io.binary import iter_lines

CATEGORIES = ("Cc", "Cf", "Zl", "Zp", "Zs")  # Unicode's controls, formats and separators


def find_mark(field: str) -> str | None:
    """The first such character of a field, as `U+00A0 NO-BREAK SPACE`, or None."""
    if field.isprintable():
        return None
    marks = (c for c in field if unicodedata.category(c) in CATEGORIES and c not in JOINERS)
    mark = next(marks, None)
    return mark and f"U+{ord(mark):04X} {unicodedata.name(mark, 'control character')}"


def refuse_marks(path: Path) -> None:
    """Raise InputError with the first line of a table that has such a character, and how many."""
    marked = [
        (number, field, mark)
        for number, fields in iter_lines(path)
        for field in fields
        if (mark := find_mark(field))
    ]
    if marked:
        number, field, mark = marked[0]
        further = f" (and {len(marked) - 1} more)" * (len(marked) > 1)
        raise InputError(
            f"{path}, line {number}: {field} holds {mark}{further}; write a space in its place, or"
            " take it out"
        )


def explain_differences(reference: Set[str], hypothesis: Set[str]) -> list[str]:
    """Words of one side alone that may look like those of the other, and why they are not."""
    alone = {word for word in reference ^ hypothesis if not (word.isascii() and word.isprintable())}
    marked = [f"{word} holds {mark}" for word in sorted(alone) if (mark := find_mark(word))]
    composed = {unicodedata.normalize("NFC", word) for word in alone & reference}
    return marked + [
        f"{word} is there in another Unicode form"
        for word in sorted(alone & hypothesis)
        if unicodedata.normalize("NFC", word) in composed
    ]


def find_cased(reference: Set[str], hypothesis: Set[str]) -> list[str]:
    """Words of the hypothesis that the reference has in another case alone, sorted."""
    folded = {word.casefold() for word in reference}
    return sorted(word for word in hypothesis - reference if word.casefold() in folded)
