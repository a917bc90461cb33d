"""Words as sequences of letters: those of a lexicon, and the rows that a network reads."""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.dialects import MARK
from bayes_asr.decode.graph.lexicon import Pronunciation, read_lexicon
from bayes_asr.kaldi_io.marks import fold_case

HELD_OUT = 0.05  # of the words
LETTERS = "letters.txt"  # of a model: its letters, and their columns in the rows that it reads

Words = dict[str, list[tuple[str, ...]]]
"""Pronunciations by words."""


def read_words(lexicon: Path) -> Words:
    """The words of a lexicon; marks such as <UNK> are none. InputError where there are few."""
    words = group_words(read_lexicon(lexicon))
    if len(words) < 1 / HELD_OUT:
        raise InputError(f"{lexicon}: {len(words)} words; take {1 / HELD_OUT:.0f} or more to learn")
    return words


def group_words(entries: Iterable[Pronunciation]) -> Words:
    """Pronunciations by words; words of the same letters are one."""
    words: Words = {}
    for entry in entries:
        if not MARK.fullmatch(entry.word):
            phones = words.setdefault(fold_case(entry.word), [])
            phones += [entry.phones] * (entry.phones not in phones)
    return words


def hold_out(words: Words) -> tuple[Words, Words]:
    """The words to learn, and those to judge by: a share of all, drawn by a hash.

    Each letter and each phone stays among the words to learn.
    """
    # A phone is a tuple, so that one is no letter of the same name.
    symbols: dict[str, set[object]] = {
        word: {*fold_case(word), *((phone,) for phones in words[word] for phone in phones)}
        for word in words
    }
    remaining = Counter(symbol for those in symbols.values() for symbol in those)
    held: Words = {}
    for word in sorted(words, key=lambda w: (zlib.crc32(w.encode()), w)):
        if len(held) >= HELD_OUT * len(words):
            break
        if all(remaining[symbol] > 1 for symbol in symbols[word]):
            remaining -= Counter(symbols[word])
            held[word] = words[word]
    return {word: words[word] for word in words if word not in held}, held


def encode(word: str, letters: Mapping[str, int]) -> np.ndarray:
    """One row for each letter, 1 in its column [T, F]."""
    return np.eye(len(letters), dtype=np.float32)[[letters[x] for x in fold_case(word)]]
