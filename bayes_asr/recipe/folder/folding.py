"""Words that differ only by case, punctuation or the apostrophe: their shares, and one spelling."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.decode.graph.dialects import MARK
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.marks import compose, fold_case, has_dotless, take_dotless, undot

DASHES_AND_BRACKETS = ("Pd", "Ps", "Pe", "Pi", "Pf")
STOPS = set('.,;:!?¿¡…"،؛؟۔।、。！？；：·')
APOSTROPHES = set("'’ʼ")  # of words such as dogs' and 'em
OPENING, CLOSING = set("'‘’‚‛"), set("'’")  # single quotes; some are apostrophes too
GLOTTAL = "ʼ"  # a letter of Navajo, and the apostrophe of Ukrainian
WITHIN = dict.fromkeys(map(ord, "‘’ʼ′´`"), "'")  # a word all of these are apostrophes


@dataclass(frozen=True)
class Folding:
    """A spelling of words in lower case, with one apostrophe, without punctuation at their ends.

    Marks such as <UNK> stay, and a lone apostrophe at an end does, as of 'tis and dogs'.
    """

    has_glottal: bool = False
    """Whether ʼ is a letter: some word begins or ends with it. It stays then."""
    has_dotless: bool = False
    """Whether ı is a letter, whose capital is I."""

    @classmethod
    def of(cls, words: Iterable[str]) -> "Folding":
        """The spelling of a text of these words."""
        words = [*map(compose, words)]
        has_glottal = any(GLOTTAL in (word[:1], word[-1:]) for word in map(trim, {*words}))
        return cls(has_glottal, has_dotless(words))

    def __call__(self, word: str) -> str:
        """A word as it is spelled."""
        word = compose(word)
        if MARK.fullmatch(word):
            return word
        word = _unify(trim(word), self.has_glottal)
        return compose(undot((take_dotless(word) if self.has_dotless else word).lower()))


def read_folding(text: Path) -> Folding:
    """The spelling of a text; one that cannot be read, which other checks refuse, has any."""
    try:
        lines = [fields for _, fields in iter_lines(text)] if text.is_file() else []
    except (InputError, OSError):
        lines = []
    return Folding.of(word for _, *words in lines for word in words)


def _unify(word: str, has_glottal: bool) -> str:
    """A word in which all apostrophes are those of ASCII."""
    table = {mark: "'" for mark in WITHIN if not (has_glottal and chr(mark) == GLOTTAL)}
    return f"{word[:1]}{word[1:-1].translate(table)}{word[1:][-1:]}".replace("’", "'")


def trim(word: str) -> str:
    """A word without punctuation and pairs of single quotes at its ends."""
    while word:
        if len(word) > 2 and word[0] in OPENING and word[-1] in CLOSING:
            word = word[1:-1]
        elif _is_punctuation(word[-1]):
            word = word[:-1]
        elif _is_punctuation(word[0]):
            word = word[1:]
        else:
            break
    return word


def _is_punctuation(character: str) -> bool:
    return character in STOPS or (
        character not in APOSTROPHES and unicodedata.category(character) in DASHES_AND_BRACKETS
    )


def describe_shares(words: Iterable[str]) -> str:
    """The shares of words that punctuation, case, an apostrophe or ß for ss alone sets apart.

    Empty where there are none.
    """
    words = [word for word in words if not MARK.fullmatch(word)]
    lower = take_dotless if has_dotless(words) else str
    counts = Counter(words)
    total = sum(counts.values())
    punctuated = {word for word in counts if trim(word) not in ("", word)}
    keys = {word: fold_case(lower(_unify(word, has_glottal=False))) for word in counts}
    usual: dict[str, str] = {}
    for word, _ in counts.most_common():
        usual.setdefault(keys[word], word)
    variants = {word: usual[key] for word, key in keys.items() if usual[key] != word}
    parts = []
    if punctuated:
        count = sum(counts[word] for word in punctuated)
        parts.append(
            f"{count} of {total} words ({count / total:.1%}) begin or end in punctuation, such as"
            f" {name_some(sorted(punctuated))}"
        )
    if variants:
        count = sum(counts[word] for word in variants)
        pairs = [f"{word} beside {common}" for word, common in sorted(variants.items())]
        parts.append(
            f"{count} of {total} words ({count / total:.1%}) differ from a more frequent one only"
            f" by case, apostrophe or ß, such as {name_some(pairs)}"
        )
    return "; ".join(parts)
