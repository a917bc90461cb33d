"""The words of a corpus: its lexicon and language model, held against each other and its text."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError, count_of, name_some, printable
from bayes_asr.decode.graph.dialects import MARK
from bayes_asr.decode.graph.dictionary import SUFFIXES, write_dictionary
from bayes_asr.decode.graph.lexicon import (
    MOST_UNKNOWN,
    Pronunciation,
    number_words,
    read_lexicon,
)
from bayes_asr.decode.graph.ngram import NgramModel, build_grammar_fst, read_arpa
from bayes_asr.decode.graph.transducers import BACKOFF
from bayes_asr.decode.vocabulary import pronounce_words
from bayes_asr.kaldi_io.marks import compose
from bayes_asr.recipe.folder.spelling import Spell, respell
from bayes_asr.recipe.folder.utterances import Utterance

UNKNOWN, SILENCE, NOISE = "<UNK>", "SIL", "SPN"

Lexicon = list[tuple[str, tuple[str, ...]]]


def read_pronunciations(path: Path, spell: Spell) -> Lexicon:
    """The words of a lexicon and their phones, without that of unknown words."""
    entries = read_lexicon(path)
    marked = [e for e in entries if any(phone.endswith(SUFFIXES) for phone in e.phones)]
    if marked:
        raise InputError(
            f"{path}: {marked[0].word} has a phone that ends in one of {', '.join(SUFFIXES)}, by"
            " which Kaldi marks places in a word; rename such phones"
        )
    if any(entry.probability < 1 for entry in entries):
        print(f"{path}: its probabilities are not used; each pronunciation is as likely as others")
    spelled = [(spell(entry.word), tuple(map(compose, entry.phones))) for entry in entries]
    return [*dict.fromkeys((word, phones) for word, phones in spelled if word not in ("", UNKNOWN))]


def read_language_model(path: Path, spell: Spell) -> NgramModel:
    """The language model of an ARPA file."""
    model = read_arpa(path)
    print(f"language model: {path}")
    return respell(model, spell)


def refuse_other_words(model: NgramModel, lexicon: Lexicon) -> None:
    """Raise InputError where no word of the lexicon could be recognised; say which cannot."""
    numbers = number_words(Pronunciation(word, 1.0, phones) for word, phones in lexicon)
    _, foreign = build_grammar_fst(model, numbers, numbers[BACKOFF])
    foreign -= {UNKNOWN}
    if foreign:
        lacking = count_of(len(foreign), "word is", "words are")
        print(
            f"{model.name}: {lacking} not in the lexicon and cannot be recognised:"
            f" {name_some(sorted(foreign))}"
        )
    modelled = {word for ngram in model.log_prob for word in ngram}
    missing = sorted({word for word, _ in lexicon} - modelled)
    if missing:
        print(
            f"{model.name}: lacks {count_of(len(missing), 'word')} of the lexicon, which cannot be"
            f" recognised: {name_some(missing)}"
        )


def refuse_other_spelling(
    path: Path, train: Sequence[Utterance], vocabulary: set[str], remedy: str = ""
) -> None:
    """Raise InputError where a lexicon knows less than half of what train says."""
    unknown = unknown_words(train, vocabulary)
    total = sum(len(utt.words) for utt in train)
    if len(unknown) > MOST_UNKNOWN * total:
        raise InputError(
            f"{path}: {len(unknown)} of {total} words of train are not in it, the"
            f" first is {unknown[0]}; are they spelled alike, also in upper and lower case?{remedy}"
        )


def unknown_words(members: Iterable[Utterance], vocabulary: set[str]) -> list[str]:
    """The spoken words that a lexicon lacks."""
    return [word for utt in members for word in utt.words if word not in vocabulary]


def refuse_g2p_alone(corpus: Path, model: Path) -> None:
    """Raise InputError for a corpus without lexicon, whose words are spelled by letters."""
    raise InputError(
        f"--g2p {model}: pronounces words that lexicon.txt lacks, and {corpus} has none; put the"
        " lexicon there that it learnt, or leave the option: letters are phones then"
    )


def pronounce_unknown(lexicon: Lexicon, train: Sequence[Utterance], model: Path) -> Lexicon:
    """The words of train that a lexicon lacks, by a model of pronunciation; marks stay unknown."""
    from bayes_asr.decode.g2p.model import load_g2p  # which wants torch

    unknown = {*unknown_words(train, {word for word, _ in lexicon})}
    entries = pronounce_words(
        sorted(word for word in unknown if not MARK.fullmatch(word)),
        [Pronunciation(word, 1.0, phones) for word, phones in lexicon],
        load_g2p(model).pronounce,
    )
    for entry in entries:
        print(printable(f"lexicon: {entry.word} {' '.join(entry.phones)} (by {model})"))
    return [(entry.word, entry.phones) for entry in entries]


def describe_set(members: Sequence[Utterance], vocabulary: set[str]) -> str:
    """Numbers of speakers, utterances and words of a set, and of unknown words among these."""
    speakers = len({utt.speaker for utt in members})
    words = sum(len(utt.words) for utt in members)
    unknown = len(unknown_words(members, vocabulary))
    return (
        f"{count_of(speakers, 'speaker')}, {count_of(len(members), 'utterance')},"
        f" {count_of(words, 'word')},"
        f" {unknown} of them not in the lexicon"
    )


def write_vocabulary(
    lexicon: Lexicon,
    train: Sequence[Utterance],
    directory: Path,
    *,
    base: Callable[[str], str] = str,
) -> None:
    """Write the dict folder of a lexicon, in which unknown words are noise, or silence where train
    has none: then there is no sound from which to learn a phone for them.

    base: as of `write_dictionary`; a tree may ask about the phones that have the same ending.
    """
    unknown = NOISE if unknown_words(train, {word for word, _ in lexicon}) else SILENCE
    silence = sorted({SILENCE, unknown})
    phones = sorted({phone for _, spelled in lexicon for phone in spelled} - {SILENCE})
    endings = sorted({phone.removeprefix(base(phone)) for phone in phones})
    questions = [[p for p in phones if p.removeprefix(base(p)) == ending] for ending in endings]
    write_dictionary(
        [(UNKNOWN, [unknown]), *lexicon],
        directory,
        silence=silence,
        questions=[[SILENCE], *questions],
        base=base,
    )
