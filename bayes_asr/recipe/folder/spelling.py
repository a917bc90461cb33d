"""Spelling: one Unicode form, letters of a word, language models of another spelling.

Also marks that nobody sees and characters that were misread, which no table of words shall have.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from bayes_asr.base.errors import InputError, count_of, name_some
from bayes_asr.decode.graph.ngram import NgramModel
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.marks import (
    LOST,
    find_mark,
    fold_case,
    has_dotless,
    list_unspelled,
    split_letters,
    take_dotless,
)
from bayes_asr.recipe.folder.folding import trim

UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{5,}")
"""Five letters of Thai, Lao, Burmese, Khmer, Japanese or Chinese, whose words are shorter."""

CLICKS = tuple("!|")  # as ǃ and ǀ are typed

Spell = Callable[[str], str]


def describe_unspaced(words: Sequence[str]) -> str:
    """The words that may be sentences, of languages without spaces; empty where these are few."""
    sentences = {word for word in words if UNSPACED.search(word)}
    count = sum(word in sentences for word in words)
    if count <= len(words) / 2:
        return ""
    return (
        f"{count} of {len(words)} words have no space within five or more letters of a language"
        f" that writes none, such as {name_some(sorted(sentences))}; each is one word here: write"
        " spaces between words, or between characters"
    )


def respell(model: NgramModel, spell: Spell) -> NgramModel:
    """A language model with its words as `spell` has them.

    InputError where two n-grams become one, whose probabilities cannot be told.
    """

    def respell_all(
        values: Iterable[tuple[tuple[str, ...], float]],
    ) -> dict[tuple[str, ...], float]:
        return {tuple(map(spell, ngram)): value for ngram, value in values}

    log_prob = respell_all(model.log_prob.items())
    if len(log_prob) < len(model.log_prob) or ("",) in log_prob:
        raise InputError(
            f"{model.name}: some of its words are spelled alike once folded, so that"
            f" {len(model.log_prob)} n-grams would be {len(log_prob)}; estimate it from folded text"
        )
    return replace(model, log_prob=log_prob, backoff=respell_all(model.backoff.items()))


def spell_by_letters(
    words: Collection[str], text: Path, find: Callable[[str], str] = lambda word: ""
) -> list[tuple[str, tuple[str, ...]]]:
    """Words and their letters; InputError names those of `text` that have none.

    find: where in `text` a word is, as `, line 3`.
    """
    lower = take_dotless if has_dotless(words) else str
    spelled = [(word, tuple(split_letters(lower(word)))) for word in words]
    digits = [word for word, letters in spelled if any(map(str.isdigit, letters))]
    if digits:
        print(
            f"{text}: {count_of(len(digits), 'word is', 'words are')} spelled by digits, such as"
            f" {name_some(digits)}; write numbers as they are said"
        )
    mute = [word for word, letters in spelled if not letters]
    if mute:
        further = f" (nor {name_some(mute[1:])})" * (len(mute) > 1)
        raise InputError(
            f"{text}{find(mute[0])}: {mute[0]} has no letter{further}: take it out, or give a"
            " lexicon.txt"
        )
    if unspelled := _describe_unspelled(spelled):
        print(f"{text}: {unspelled}")
    return spelled


def _describe_unspelled(spelled: Sequence[tuple[str, tuple[str, ...]]]) -> str:
    """The characters of words that are no letters, and words that differ by them alone; or ""."""
    by_sign: dict[str, list[str]] = {}
    by_letters: dict[tuple[str, ...], dict[str, str]] = {}
    for word, letters in spelled:
        spoken = _trim_but_clicks(word)
        by_letters.setdefault(letters, {}).setdefault(fold_case(spoken), word)
        for sign in dict.fromkeys(list_unspelled(spoken)):
            by_sign.setdefault(sign, []).append(word)
    if not by_sign:
        return ""
    alike = [
        " and ".join(words.values())
        for words in by_letters.values()
        if len(words) > 1 and any(map(list_unspelled, words))
    ]
    which = [
        f"{sign} in {count_of(len(words), 'word')} ({name_some(words)})"
        for sign, words in by_sign.items()
    ]
    also = f"; {name_some(alike)} are spelled alike" if alike else ""
    return (
        f"characters that are no letters are not spelled: {', '.join(which)}{also}; where one is a"
        " sound, write a letter for it, such as ʼ (U+02BC) or ǃ (U+01C3), or give a lexicon.txt"
    )


def _trim_but_clicks(word: str) -> str:
    """A word without punctuation at its ends, but for what may be a click at its beginning."""
    trimmed = trim(word)
    return word[0] + trimmed if word[:1] in CLICKS and trimmed[:1] != word[0] else trimmed


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
        remedy = "write a space in its place, or take it out"
        if LOST in field:
            remedy = "a letter was lost in a conversion: convert the file again"
        raise InputError(f"{path}, line {number}: {field} holds {mark}{further}; {remedy}")


def refuse_misread(path: Path) -> None:
    """Raise InputError for a table whose UTF-8 was read as Latin-1, and written as UTF-8 again."""
    places: dict[str, int] = {}
    for number, fields in iter_lines(path):
        for field in fields:
            if not field.isascii():
                places.setdefault(field, number)
    misread = {field: meant for field in places if (meant := _read_again(field))}
    if len(misread) > len(places) / 2:
        field, meant = next(iter(misread.items()))
        raise InputError(
            f"{path}, line {places[field]}: {field} is UTF-8 that was read as Latin-1, as are"
            f" {len(misread)} of {len(places)} words that are not ASCII: convert the file again,"
            f" so that it has {meant}"
        )


def _read_again(field: str) -> str | None:
    """The word whose bytes in UTF-8 were read as Latin-1 (that of Windows), or None."""
    try:
        return field.encode("cp1252").decode()
    except UnicodeError:
        return None
