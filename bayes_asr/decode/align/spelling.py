"""Words that a lexicon of graphemes lacks, by their letters, as the lexicon spells its own."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.log import LOGGER
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.align.transcripts import (
    PronouncerFiles,
    TranscriptSource,
    read_pronouncer,
    read_transcripts,
)
from bayes_asr.decode.graph.lexicon import (
    Lang,
    Pronunciation,
    bears_positions,
    mark_positions,
    report_unknown,
    strip_positions,
)
from bayes_asr.kaldi_io.marks import find_cased, has_dotless, split_letters, take_dotless
from bayes_asr.kaldi_io.text import DataDir

ADD = "add them to its lexicon.txt, or give --oov WORD"


def spell_words(pronouncer: Pronouncer, words: Iterable[str]) -> Pronouncer:
    """Return a pronouncer that has all `words`: those of the lexicon and spelled ones.

    What cannot be spelled, since the lexicon is of phones or lacks a letter, becomes the word for
    unknown ones, with a warning; InputError names it where there is none.
    """
    lang = pronouncer.lang
    missing = [w for w in dict.fromkeys(words) if w not in pronouncer.pronunciations]
    spellable = missing
    if lang.unknown:
        spellable, mute = _part(lang, missing)
        if mute:
            names = name_some(mute)
            LOGGER.warning("not in the lexicon, and aligned as %s: %s", lang.unknown, names)
    if not spellable:
        return pronouncer
    spelled = spell(lang, spellable, ADD)
    return replace(pronouncer, lang=lang.extend(spelled))


def open_pronouncer(
    file: Path, model: Path, transcripts: TranscriptSource, words: Sequence[str]
) -> Pronouncer:
    """The lexicon of a model with the words of a file; InputError for those it cannot spell."""
    pronouncer = read_pronouncer(transcripts.lang, model, transcripts.unknown)
    try:
        return spell_words(pronouncer, words)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def open_transcripts(
    data: DataDir, source: TranscriptSource, model: Path
) -> tuple[dict[str, list[str]], PronouncerFiles]:
    """The words of each utterance of a data directory, and what reads a pronouncer of them.

    A lexicon of graphemes spells words that it lacks; others are counted and named, and refused
    where they are most.
    """
    text, transcripts = source.text or data.path / "text", read_transcripts(data, source.text)
    pronouncer = read_pronouncer(source.lang, model, source.unknown)
    words = dict.fromkeys(word for sentence in transcripts.values() for word in sentence)
    lang, known = pronouncer.lang, {*pronouncer.pronunciations}
    spellable, _ = _part(lang, [word for word in words if word not in known])
    if spellable:
        LOGGER.info("%s: the lexicon lacks, and spells: %s", text, name_some(spellable))
    if lang.unknown:
        report_unknown(text, transcripts, known.union(spellable), source.lang, lang.unknown)
    spelled = tuple(spell(lang, spellable, ADD)) if spellable else ()
    return transcripts, (source.lang, model, source.unknown, spelled)


def _part(lang: Lang, words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Words that the letters of a lexicon spell, and others."""
    phone_of, split = learn_graphemes(lang) or {}, choose_letters(lang)
    parted: tuple[list[str], list[str]] = [], []
    for word in words:
        letters = split(word)
        parted[not letters or not phone_of.keys() >= {*letters}].append(word)
    return parted


def spell(lang: Lang, words: Sequence[str], remedy: str) -> list[Pronunciation]:
    """Return words that a lexicon lacks by their letters; remedy: what else a user may do.

    InputError where the lexicon is of phones, or lacks a letter.
    """
    phone_of = learn_graphemes(lang)
    if phone_of is None:
        raise InputError(_explain_lack(lang, words, remedy))
    spelled, split = [], choose_letters(lang)
    for word in words:
        phones = [phone_of.get(letter) for letter in split(word)]
        if None in phones or not phones:
            letter = split(word)[phones.index(None)] if phones else word
            raise InputError(f"the lexicon lacks {word}, and spells no word with {letter!r}")
        spelled.append(Pronunciation(word, 1.0, tuple(filter(None, phones))))
    return mark_positions(spelled) if bears_positions(lang.lexicon) else spelled


def _explain_lack(lang: Lang, words: Sequence[str], remedy: str) -> str:
    """Why a lexicon of phones lacks words, of which it may have some in another spelling."""
    cased = find_cased({entry.word for entry in lang.lexicon}, {*words})
    faults = []
    if strange := [word for word in words if word not in cased]:
        faults.append(
            f"the lexicon lacks {name_some(strange)}, and is not of letters, by which they could"
            f" be spelled: {remedy}"
        )
    if cased:
        names = name_some([*map(repr, cased)])
        faults.append(
            f"the lexicon has {names} in another case, or without that punctuation: spell them so"
        )
    return "; ".join(faults)


def learn_graphemes(lang: Lang) -> dict[str, str] | None:
    """The phone of each letter, where words have a phone for each letter, always the same.

    None for a lexicon of phones. Words of several letters and one phone of their own, such as
    silence, say nothing; a lexicon that has as many of them as others is one of phones. Places in
    words, which all phones may bear, are no part of a phone here.
    """
    lexicon = strip_positions(lang.lexicon) if bears_positions(lang.lexicon) else lang.lexicon
    uses = Counter(phone for entry in lexicon for phone in entry.phones)
    phone_of: dict[str, str] = {}
    spelled = symbols = 0
    split = choose_letters(lang)
    for entry in lexicon:
        letters = split(entry.word)
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


def choose_letters(lang: Lang) -> Callable[[str], list[str]]:
    """`split_letters` of the language of a lexicon, whose I may be the capital of ı."""
    dotless = has_dotless([entry.word for entry in lang.lexicon])
    return lambda word: split_letters(take_dotless(word) if dotless else word)
