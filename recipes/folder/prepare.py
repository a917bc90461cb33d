#!/usr/bin/env python3
"""Prepare any folder of sound files with a `text`: data directories, dictionary, language model.

CORPUS holds sound files at any depth and `text`, whose lines are a file's name without its
extension and its words. What else lies there is used: utt2spk, lexicon.txt, lm.arpa, and the lists
`dev` and `test` of speakers or files. What does not is made, and said: README.md.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import argparse
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError, complaint, name_some
from bayes_asr.decode.graph.dictionary import SUFFIXES
from bayes_asr.decode.graph.lexicon import Pronunciation, number_words, read_lexicon
from bayes_asr.decode.graph.ngram import (
    MARK,
    NgramModel,
    build_grammar_fst,
    estimate_witten_bell,
    read_arpa,
    write_arpa,
)
from bayes_asr.decode.graph.transducers import BACKOFF
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.marks import refuse_marks
from bayes_asr.kaldi_io.text import write_dictionary, write_mapping, write_speakers, write_text
from bayes_asr.recipe.folder.check import Inspection
from bayes_asr.recipe.folder.sounds import describe_silent, name_sounds, refuse_missing_text
from bayes_asr.recipe.folder.spelling import (
    Spell,
    compose,
    describe_shares,
    fold,
    respell,
    spell_by_letters,
)
from bayes_asr.recipe.folder.utterances import (
    Utterance,
    describe_wordless,
    find_utterances,
    read_transcripts,
)

TABLES = ("text", "utt2spk", "dev", "test", "lexicon.txt", "lm.arpa")
UNKNOWN, SILENCE, NOISE = "<UNK>", "SIL", "SPN"
SETS = ("train", "dev", "test")
SHARE = 0.1  # of the utterances: dev and test, where nobody listed them
ORDER = 3  # of the language model
MOST_UNKNOWN = 0.5  # of the words of train: more are a lexicon of another spelling

Lexicon = list[tuple[str, tuple[str, ...]]]
Sets = dict[str, list[Utterance]]


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything below --out; return 0, or 1 after a line for each thing that is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder with sound and text")
    parser.add_argument("--out", type=Path, default=Path("exp/folder"), help="default %(default)s")
    parser.add_argument(
        "--fold", action="store_true", help="words in lower case, without punctuation at their ends"
    )
    args = parser.parse_args(argv)
    errors: Sequence[Exception] = ()
    try:
        prepare(args.corpus.resolve(), args.out, fold if args.fold else compose)
    except (InputError, OSError) as error:
        errors = [error]
    except ExceptionGroup as group:
        errors = group.exceptions
    for error in errors:
        print(f"{parser.prog}: error: {complaint(error)}", file=sys.stderr)
    return 1 if errors else 0


def prepare(corpus: Path, out: Path, spell: Spell) -> None:
    """Write data/{train,dev,test}, data/local/dict and data/local/lm.arpa below `out`.

    Raises an ExceptionGroup of all that is wrong with the corpus, before anything is written.
    """
    sets, lexicon, model = inspect(corpus, spell)
    vocabulary = {word for word, _ in lexicon}
    for name, members in sets.items():
        write_data(members, out / "data" / name)
        print(f"{name}: {describe(members, vocabulary)}")
    announce(corpus, [utt for members in sets.values() for utt in members], spell)
    # Where train has no unknown word there is no sound from which to learn a phone for them.
    unknown = NOISE if unknown_words(sets["train"], vocabulary) else SILENCE
    phones = sorted({phone for _, spelled in lexicon for phone in spelled} - {SILENCE})
    local = out / "data" / "local"
    write_dictionary(
        [(UNKNOWN, [unknown]), *lexicon],
        local / "dict",
        silence=sorted({SILENCE, unknown}),
        questions=[[SILENCE], phones],
    )
    if model is None:
        transcripts = (utt.words for utt in sets["train"])
        model = estimate_witten_bell(transcripts, ORDER, sorted(vocabulary))
        print(f"language model: a {ORDER}-gram of the words of train (no lm.arpa)")
    write_arpa(model, local / "lm.arpa")


def inspect(corpus: Path, spell: Spell) -> tuple[Sets, Lexicon, NgramModel | None]:
    """The sets, the lexicon and the language model of a corpus, the last where one is given.

    Text, sound, lexicon and language model are held against each other. Raises an ExceptionGroup.
    """
    check = Inspection()
    tables = {name: corpus / name for name in TABLES if (corpus / name).is_file()}
    for table in tables.values():
        check.attempt(refuse_marks, table)
    check.attempt(refuse_missing_text, corpus)
    sounds = check.attempt(name_sounds, corpus)
    transcripts = check.attempt(read_transcripts, corpus, spell) if "text" in tables else None
    lexicon, model = None, None
    if "lexicon.txt" in tables:
        lexicon = check.attempt(read_own_lexicon, tables["lexicon.txt"], spell)
    if "lm.arpa" in tables:
        model = check.attempt(read_own_model, tables["lm.arpa"], spell)
    sets: Sets = {}
    if transcripts and sounds:
        utterances = check.attempt(find_utterances, corpus, transcripts, sounds)
        sets = check.attempt(split, utterances, corpus) or {} if utterances else {}
    if sets and "lexicon.txt" not in tables:
        lexicon = check.attempt(make_lexicon, corpus, sets["train"])
    elif sets and lexicon:
        check.attempt(refuse_other_spelling, corpus, sets["train"], {word for word, _ in lexicon})
    if lexicon and model:
        check.attempt(refuse_other_words, model, lexicon)
    check.settle()
    return sets, lexicon or [], model


def announce(corpus: Path, utterances: Sequence[Utterance], spell: Spell) -> None:
    """Say what may not be meant: silence, marks, words that case or punctuation sets apart."""
    text = corpus / "text"
    if silent := describe_silent((utt.file for utt in utterances), len(utterances)):
        print(silent)
    if wordless := describe_wordless(utterances):
        print(f"{text}: {wordless}")
    words = [word for utt in utterances for word in utt.words]
    marks = sorted({word for word in words if MARK.fullmatch(word) and word != UNKNOWN})
    if marks:
        print(f"{text}: {name_some(marks)} are words as any other; take them out if they are none")
    if spell is fold:
        print(f"{text}: folded: words are in lower case, without punctuation at their ends")
    elif shares := describe_shares(words):
        print(
            f"{text}: {shares}; these are words of their own. --set recipe.options=[--fold] takes"
            " all words in lower case, without punctuation at their ends"
        )


def split(known: Sequence[Utterance], corpus: Path) -> Sets:
    """Who is in which set: by the lists of the corpus, else by speakers."""
    if len(known) < len(SETS):
        raise InputError(f"{corpus / 'text'}: {len(known)} utterances are too few for three sets")
    listed = {name: read_list(corpus / name, known) for name in ("dev", "test")}
    both = {utt.name for utt in listed["dev"]} & {utt.name for utt in listed["test"]}
    if both:
        raise InputError(f"{corpus}: {min(both)} is in dev and in test; take it out of one list")
    taken = {utt for members in listed.values() for utt in members}
    rest = [utt for utt in known if utt not in taken]
    for name, members in listed.items():
        if not members:
            members += draw(rest, name, len(known), corpus)
            rest = [utt for utt in rest if utt not in members]
    if not rest:
        raise InputError(f"{corpus}: dev and test leave nothing to train on; shorten the lists")
    return {"train": rest, **listed}


def read_list(path: Path, known: Sequence[Utterance]) -> list[Utterance]:
    """The utterances that a list names, by file or by speaker; none where there is no list."""
    if not path.is_file():
        return []
    named = {compose(name) for _, (name, *_) in iter_lines(path)}
    strangers = named - {utt.name for utt in known} - {utt.speaker for utt in known}
    if strangers:
        raise InputError(f"{path}: {min(strangers)} is neither a name of text nor a speaker")
    found = [utt for utt in known if {utt.name, utt.speaker} & named]
    if not found:
        raise InputError(f"{path}: empty; list speakers or files, or remove it")
    return found


def draw(rest: Sequence[Utterance], name: str, total: int, corpus: Path) -> list[Utterance]:
    """A tenth of `total` utterances, by a hash of names: whole speakers, unless these are few.

    A speaker with more than a fifth of all utterances stays in train.
    """
    most = 2 * SHARE * total
    by_speaker = gather(rest, lambda utt: utt.speaker)
    groups = {speaker: utts for speaker, utts in by_speaker.items() if len(utts) <= most}
    if len(groups) < len(SETS):
        groups = gather(rest, lambda utt: utt.key)
    drawn: list[Utterance] = []
    for chosen in sorted(groups, key=lambda group: (zlib.crc32(group.encode()), group)):
        if len(drawn) < SHARE * total and len(drawn) + len(groups[chosen]) <= max(most, 1):
            drawn += groups[chosen]
    speakers = sorted({utt.speaker for utt in drawn})
    shared = set(speakers) & {utt.speaker for utt in rest if utt not in drawn}
    whose = "of speakers whom train has too" if shared else f"of speakers {' '.join(speakers)}"
    print(f"{name}: {len(drawn)} utterances {whose} (no {corpus / name})")
    return drawn


def gather(
    utts: Iterable[Utterance], name: Callable[[Utterance], str]
) -> dict[str, list[Utterance]]:
    """The utterances of each name."""
    groups: dict[str, list[Utterance]] = {}
    for utt in utts:
        groups.setdefault(name(utt), []).append(utt)
    return groups


def read_own_lexicon(path: Path, spell: Spell) -> Lexicon:
    """The words of lexicon.txt and their phones, without that of unknown words."""
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


def make_lexicon(corpus: Path, train: Iterable[Utterance]) -> Lexicon:
    """The words of train and their letters; unknown words, however they are written, have none."""
    words = {word for utt in train for word in utt.words if word.upper() != UNKNOWN}
    if not words:
        raise InputError(f"{corpus / 'text'}: train has no words; write what is said in its files")
    print(f"lexicon: {len(words)} words of train by their letters (no {corpus / 'lexicon.txt'})")
    return spell_by_letters(sorted(words), corpus / "text")


def read_own_model(path: Path, spell: Spell) -> NgramModel:
    """The language model of lm.arpa."""
    model = read_arpa(path)
    print(f"language model: {path}")
    return respell(model, spell)


def refuse_other_words(model: NgramModel, lexicon: Lexicon) -> None:
    """Raise InputError where no word of the lexicon could be recognised; say which cannot."""
    numbers = number_words(Pronunciation(word, 1.0, phones) for word, phones in lexicon)
    _, foreign = build_grammar_fst(model, numbers, numbers[BACKOFF])
    foreign -= {UNKNOWN}
    if foreign:
        print(
            f"{model.name}: {len(foreign)} words are not in the lexicon and cannot be recognised:"
            f" {name_some(sorted(foreign))}"
        )
    modelled = {word for ngram in model.log_prob for word in ngram}
    missing = sorted({word for word, _ in lexicon} - modelled)
    if missing:
        print(
            f"{model.name}: lacks {len(missing)} words of the lexicon, which cannot be recognised:"
            f" {name_some(missing)}"
        )


def refuse_other_spelling(corpus: Path, train: Sequence[Utterance], vocabulary: set[str]) -> None:
    """Raise InputError where the lexicon knows less than half of what train says."""
    unknown = unknown_words(train, vocabulary)
    total = sum(len(utt.words) for utt in train)
    if len(unknown) > MOST_UNKNOWN * total:
        raise InputError(
            f"{corpus / 'lexicon.txt'}: {len(unknown)} of {total} words of train are not in it, the"
            f" first is {unknown[0]}; are they spelled alike, also in upper and lower case? --set"
            " recipe.options=[--fold] takes all words in lower case"
        )


def unknown_words(members: Iterable[Utterance], vocabulary: set[str]) -> list[str]:
    """The spoken words that the lexicon lacks."""
    return [word for utt in members for word in utt.words if word not in vocabulary]


def write_data(members: Sequence[Utterance], directory: Path) -> None:
    """Write a data directory that names the sound where it lies."""
    write_speakers({utt.key: utt.speaker for utt in members}, directory)
    write_text(((utt.key, utt.words) for utt in members), directory / "text")
    write_mapping(((utt.key, str(utt.file)) for utt in members), directory / "wav.scp")


def describe(members: Sequence[Utterance], vocabulary: set[str]) -> str:
    """How many speakers, utterances and words a set has, and how many of these are unknown."""
    speakers = len({utt.speaker for utt in members})
    words = sum(len(utt.words) for utt in members)
    unknown = len(unknown_words(members, vocabulary))
    return (
        f"{speakers} speakers, {len(members)} utterances, {words} words,"
        f" {unknown} of them not in the lexicon"
    )


if __name__ == "__main__":
    sys.exit(main())
