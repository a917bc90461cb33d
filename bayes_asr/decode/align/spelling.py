"""Words that a lexicon of graphemes lacks, by their letters, as the lexicon spells its own."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.log import LOGGER
from bayes_asr.config.schema import Config
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.align.transcripts import TranscriptSource, read_pronouncer
from bayes_asr.decode.graph.lexicon import Lang, Pronunciation
from bayes_asr.kaldi_io.marks import fold_case
from bayes_asr.tasks.task import task_of


def spell_words(pronouncer: Pronouncer, words: Iterable[str]) -> Pronouncer:
    """Return a pronouncer that has all `words`: those of the lexicon and spelled ones.

    What cannot be spelled, since the lexicon is of phones or lacks a letter, becomes the word for
    unknown ones, with a warning; InputError names it where there is none.
    """
    lang = pronouncer.lang
    missing = [w for w in dict.fromkeys(words) if w not in pronouncer.pronunciations]
    phone_of = learn_graphemes(lang) or {}
    mute = [w for w in missing if lang.unknown and not _has_phones(split_letters(w), phone_of)]
    if mute:
        LOGGER.warning("not in the lexicon, and aligned as %s: %s", lang.unknown, name_some(mute))
    spellable = [word for word in missing if word not in mute]
    if not spellable:
        return pronouncer
    spelled = spell(lang, spellable, "add them to its lexicon.txt, or give --oov WORD")
    return replace(pronouncer, lang=replace(lang, lexicon=[*lang.lexicon, *spelled]))


def open_pronouncer(
    file: Path, config: Config, transcripts: TranscriptSource, words: Sequence[str]
) -> Pronouncer:
    """The lexicon of a run with the words of a file; InputError for those that it cannot spell."""
    model = task_of(config).locate_model()
    pronouncer = read_pronouncer(transcripts.lang, model, transcripts.unknown)
    try:
        return spell_words(pronouncer, words)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _has_phones(letters: Sequence[str], phone_of: Mapping[str, str]) -> bool:
    return bool(letters) and all(letter in phone_of for letter in letters)


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
    """The phone of each letter, where words have a phone for each letter, always the same.

    None for a lexicon of phones. Words of several letters and one phone of their own, such as
    silence, say nothing; a lexicon that has as many of them as others is one of phones.
    """
    uses = Counter(phone for entry in lang.lexicon for phone in entry.phones)
    phone_of: dict[str, str] = {}
    spelled = symbols = 0
    for entry in lang.lexicon:
        letters = split_letters(entry.word)
        if len(entry.phones) == 1 < len(letters) and uses[entry.phones[0]] == 1:
            symbols += 1
            continue
        if len(letters) != len(entry.phones):
            return None
        spelled += len(letters) > 1
        for letter, phone in zip(letters, entry.phones, strict=True):
            if phone_of.setdefault(letter, phone) != phone:
                return None
    return phone_of if spelled > symbols else None


def split_letters(word: str) -> list[str]:
    """The letters and digits of a word in lower case, composed, each with the marks after it."""
    letters: list[str] = []
    for character in fold_case(word):
        category = unicodedata.category(character)[0]
        if category == "M" and letters:
            letters[-1] += character
        elif category in "LN":
            letters.append(character)
    return letters
