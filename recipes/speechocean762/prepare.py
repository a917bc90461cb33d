#!/usr/bin/env python3
"""Prepare speechocean762: Kaldi data directories, dictionaries and language models.

CORPUS is a clone of github.com/jimbozhang/speechocean762. Its test set is test here; of the
speakers of its train set, sorted by age group, gender and name, every tenth, beginning with the
fifth, is in dev with all that he says. `text` has the 39 phones that the experts scored,
`text_words` words. Language models and what they can recognise come from train alone.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from corpus import HOME, PUBLISHED, Utterance, check_complete, read_phones, read_set, strip_marks

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import real_path
from bayes_asr.decode.graph.dictionary import write_dictionary
from bayes_asr.decode.graph.ngram import estimate_kneser_ney, write_arpa
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.text import write_mapping, write_speakers, write_text
from bayes_asr.recipe.scripts import exit_status

DEV = slice(4, None, 10)  # of the sorted speakers of the corpus' train set
UNKNOWN, SILENCE = "<UNK>", "SIL"
ORDER = 3  # of the language models

Lexicon = list[tuple[str, tuple[str, ...]]]


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything below --out; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help=f"a clone of {HOME}")
    parser.add_argument(
        "--out", type=Path, default=Path("exp/speechocean762"), help="default %(default)s"
    )
    parser.add_argument(
        "--unchecked", action="store_true", help="take what is there for the whole corpus"
    )
    args = parser.parse_args(argv)
    return exit_status(
        parser.prog, lambda: prepare(real_path(args.corpus), args.out, checked=not args.unchecked)
    )


def prepare(corpus: Path, out: Path, *, checked: bool = True) -> None:
    """Write data/{train,dev,test}, and dictionaries and language models in data/local."""
    phones_of = read_phones(corpus / "resource" / "text-phone")
    published = {name: read_set(corpus, name, phones_of) for name in PUBLISHED}
    if checked:
        for name, members in published.items():
            check_complete(corpus / name, PUBLISHED[name], members)
    train, dev = hold_out(published["train"])
    sets = {"train": train, "dev": dev, "test": published["test"]}
    if not all(sets.values()):
        raise InputError(f"{corpus}: its train set has too few speakers for train and dev")
    lexicon = read_pronunciations(corpus / "resource" / "lexicon.txt", published)
    vocabulary = {word for utt in train for word in utt.words}
    for name, members in sets.items():
        write_data(members, out / "data" / name)
        print(f"{name}: {describe(members, vocabulary)}")
    local = out / "data" / "local"
    write_dictionaries(lexicon, vocabulary, local)
    for name, transcripts in (
        ("lm", [utt.phones for utt in train]),
        ("lm_words", [utt.words for utt in train]),
    ):
        write_arpa(estimate_kneser_ney(transcripts, ORDER), local / f"{name}.arpa")


def hold_out(members: Sequence[Utterance]) -> tuple[list[Utterance], list[Utterance]]:
    """Train and dev, whose speakers are as old and as often women as those of train."""
    people = {utt.speaker for utt in members}
    ordered = sorted(people, key=lambda who: (who.group, who.gender, who.name))
    dev_speakers = {*ordered[DEV]}
    return (
        [utt for utt in members if utt.speaker not in dev_speakers],
        [utt for utt in members if utt.speaker in dev_speakers],
    )


def read_pronunciations(path: Path, sets: Mapping[str, Sequence[Utterance]]) -> Lexicon:
    """The words of the corpus' lexicon and their phones; it must have all that are spoken."""
    entries = [(word, tuple(map(strip_marks, phones))) for _, (word, *phones) in iter_lines(path)]
    in_sets = {word for members in sets.values() for utt in members for word in utt.words}
    if lacking := sorted(in_sets - {word for word, _ in entries}):
        raise InputError(
            f"{path}: lacks {len(lacking)} of {len(in_sets)} words of the transcripts,"
            f" {name_some(lacking)}; clone {HOME} again"
        )
    return [*dict.fromkeys(entries)]


def write_data(members: Sequence[Utterance], directory: Path) -> None:
    """Write a data directory that names the sound where it lies.

    utt2age and utt2gender have the group of each speaker in his place, by which errors are counted.
    """
    write_speakers({utt.name: utt.speaker.name for utt in members}, directory)
    write_text(((utt.name, utt.phones) for utt in members), directory / "text")
    write_text(((utt.name, utt.words) for utt in members), directory / "text_words")
    write_mapping(((utt.name, str(utt.sound)) for utt in members), directory / "wav.scp")
    write_mapping(((utt.name, utt.speaker.group) for utt in members), directory / "utt2age")
    write_mapping(((utt.name, utt.speaker.gender) for utt in members), directory / "utt2gender")


def describe(members: Sequence[Utterance], vocabulary: set[str]) -> str:
    """Numbers of speakers, utterances, phones and words of a set, and of words not in train."""
    people = {utt.speaker for utt in members}
    words = [word for utt in members for word in utt.words]
    unknown = sum(word not in vocabulary for word in words)
    return (
        f"{len(people)} speakers, {sum(who.group == 'child' for who in people)} of them children,"
        f" {len(members)} utterances, {sum(len(utt.phones) for utt in members)} phones,"
        f" {len(words)} words, {unknown} ({unknown / len(words):.1%}) of them not in train"
    )


def write_dictionaries(lexicon: Lexicon, vocabulary: set[str], local: Path) -> None:
    """Write dict (each phone is a word), dict_words (words of train), dict_align (all words).

    dict_align is what transcripts are aligned with; no graph is made of it.
    """
    phones = sorted({phone for _, spelled in lexicon for phone in spelled})
    entries_of: dict[str, Lexicon] = {
        "dict": [(phone, (phone,)) for phone in phones],
        "dict_words": [(word, spelled) for word, spelled in lexicon if word in vocabulary],
        "dict_align": lexicon,
    }
    for name, entries in entries_of.items():
        write_dictionary(
            [(UNKNOWN, [SILENCE]), *entries],
            local / name,
            silence=[SILENCE],
            questions=[[SILENCE], phones],
        )


if __name__ == "__main__":
    sys.exit(main())
