"""Words that a lexicon of graphemes lacks, by their letters, as the lexicon spells its own."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.decode.align.transcript import Pronouncer
from bayes_asr.decode.graph.lang import Lang
from bayes_asr.decode.graph.lexicon import Pronunciation


def spell_words(pronouncer: Pronouncer, words: Iterable[str]) -> Pronouncer:
    """Return a pronouncer that has all `words`: those of the lexicon and spelled ones.

    Words become the word for unknown ones where there is one. InputError names those that cannot be
    spelled: the lexicon is of phones, or lacks a letter.
    """
    unknown = [w for w in dict.fromkeys(words) if w not in pronouncer.pronunciations]
    if not unknown or pronouncer.lang.unknown:
        return pronouncer
    remedy = "add them to its lexicon.txt, or give --oov WORD"
    spelled = spell(pronouncer.lang, unknown, remedy)
    lang = replace(pronouncer.lang, lexicon=[*pronouncer.lang.lexicon, *spelled])
    return replace(pronouncer, lang=lang)


def spell(lang: Lang, words: Sequence[str], remedy: str) -> list[Pronunciation]:
    """Return words that a lexicon lacks by their letters; remedy: what else a user may do.

    InputError where the lexicon is of phones, or lacks a letter.
    """
    phone_of = learn_graphemes(lang)
    if phone_of is None:
        raise InputError(
            f"the lexicon lacks {name_some(words)}, and is not of letters, by which they could be"
            f" spelled: {remedy}"
        )
    spelled = []
    for word in words:
        phones = [phone_of.get(letter) for letter in split_letters(word)]
        if None in phones or not phones:
            letter = split_letters(word)[phones.index(None)] if phones else word
            raise InputError(f"the lexicon lacks {word}, and spells no word with {letter!r}")
        spelled.append(Pronunciation(word, 1.0, tuple(filter(None, phones))))
    return spelled


def learn_graphemes(lang: Lang) -> dict[str, str] | None:
    """The phone of each letter, where all words have a phone for each letter, always the same.

    None for a lexicon of phones. A word of one phone of its own, such as silence, says nothing.
    """
    uses: dict[str, int] = {}
    for entry in lang.lexicon:
        for phone in entry.phones:
            uses[phone] = uses.get(phone, 0) + 1
    phone_of: dict[str, str] = {}
    for entry in lang.lexicon:
        letters = split_letters(entry.word)
        if len(entry.phones) == 1 < len(letters) and uses[entry.phones[0]] == 1:
            continue
        if len(letters) != len(entry.phones):
            return None
        for letter, phone in zip(letters, entry.phones, strict=True):
            if phone_of.setdefault(letter, phone) != phone:
                return None
    return phone_of


def split_letters(word: str) -> list[str]:
    """The letters and digits of a word in lower case, composed, each with the marks after it."""
    letters: list[str] = []
    for character in unicodedata.normalize("NFC", word.casefold()):
        category = unicodedata.category(character)[0]
        if category == "M" and letters:
            letters[-1] += character
        elif category in "LN":
            letters.append(character)
    return letters
