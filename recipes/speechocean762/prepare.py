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
import hashlib
import re
import sys
import wave
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.decode.graph.ngram import estimate_kneser_ney, write_arpa
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.text import (
    read_mapping,
    read_text,
    write_dictionary,
    write_mapping,
    write_speakers,
    write_text,
)

HOME = "https://github.com/jimbozhang/speechocean762"
RATE = 16000
ADULT = 18  # years
DEV = slice(4, None, 10)  # of the sorted speakers of the corpus' train set
UNKNOWN, SILENCE = "<UNK>", "SIL"
MARKS = re.compile(r"\d?(?:_[BIES])?$")  # of a phone: stress, place in the word
ORDER = 3  # of the language models

# What the corpus holds: speakers, utterances, words, samples, and a hash of who says which words.
PUBLISHED = {
    "train": (125, 2500, 15849, 165665760, "25eb36339aff9229d4e4883b0a7d11e2"),
    "test": (125, 2500, 15967, 155018368, "1227ec53b4f5dcee79fd592f918e1942"),
}
COUNTED = ("speakers", "utterances", "words", "samples of sound")

Lexicon = list[tuple[str, tuple[str, ...]]]


@dataclass(frozen=True)
class Speaker:
    """What the corpus says of a person."""

    name: str
    age: int
    gender: str

    @property
    def group(self) -> str:
        """The age group: the corpus has nobody between 15 and 19."""
        return "adult" if self.age >= ADULT else "child"


@dataclass(frozen=True)
class Utterance:
    """What the corpus says of a sound file; `phones` are those of its words, one after another."""

    name: str
    speaker: Speaker
    words: tuple[str, ...]
    phones: tuple[str, ...]
    sound: Path


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
    try:
        prepare(args.corpus.resolve(), args.out, checked=not args.unchecked)
    except (InputError, OSError) as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 1
    return 0


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


def read_phones(path: Path) -> dict[str, tuple[str, ...]]:
    """The phones of each word, by `UTTERANCE.N` for the N-th of its words, from 0."""
    return {word: tuple(map(strip_marks, phones)) for word, phones in read_text(path).items()}


def strip_marks(phone: str) -> str:
    """One of the 39 phones: without stress and place in the word, as EH of EH1_B."""
    return MARKS.sub("", phone)


def read_set(corpus: Path, name: str, phones_of: Mapping[str, tuple[str, ...]]) -> list[Utterance]:
    """The utterances of one of the corpus' two sets, in byte order of their names.

    Raises InputError where an utterance or a speaker is in some of its tables only.
    """
    folder = corpus / name
    texts = read_text(folder / "text")
    speakers, sounds = read_mapping(folder / "utt2spk"), read_mapping(folder / "wav.scp")
    refuse_differences(folder, texts.keys(), {"utt2spk": speakers, "wav.scp": sounds})
    ages, genders = read_mapping(folder / "spk2age"), read_mapping(folder / "spk2gender")
    people = {*speakers.values()}
    refuse_differences(folder, people, {"spk2age": ages, "spk2gender": genders})
    members = []
    for utt, words in sorted(texts.items()):
        spelled = [phones_of.get(f"{utt}.{number}") for number in range(len(words))]
        if not words or not all(spelled):
            raise InputError(
                f"{corpus / 'resource/text-phone'}: has phones of"
                f" {len(spelled) - spelled.count(None)} of the {len(words)} words of {utt};"
                f" clone {HOME} again"
            )
        who = speakers[utt]
        if not ages[who].isdecimal():
            raise InputError(f"{folder / 'spk2age'}: {who} is {ages[who]}; write years")
        members.append(
            Utterance(
                name=utt,
                speaker=Speaker(who, int(ages[who]), genders[who]),
                words=tuple(words),
                phones=tuple(phone for phones in spelled for phone in phones or ()),
                sound=corpus / sounds[utt],
            )
        )
    return members


def refuse_differences(
    directory: Path, keys: Set[str], tables: Mapping[str, Mapping[str, str]]
) -> None:
    """Raise InputError where a table has not a line for each of `keys`, or more lines."""
    for name, table in tables.items():
        if strangers := sorted(keys ^ table.keys()):
            raise InputError(
                f"{directory / name}: {len(table)} lines for {len(keys)}; not in both are"
                f" {name_some(strangers)}; clone {HOME} again"
            )


def check_complete(
    directory: Path, published: tuple[int, int, int, int, str], members: Sequence[Utterance]
) -> None:
    """Refuse a set that has not the speakers, words, transcripts and sound of the corpus."""
    counts = (
        len({utt.speaker for utt in members}),
        len(members),
        sum(len(utt.words) for utt in members),
        sum(count_samples(utt.sound) for utt in members),
    )
    for unit, count, expected in zip(COUNTED, counts, published, strict=False):
        if count != expected:
            raise InputError(
                f"{directory}: {count} {unit}, but {expected} in the published corpus; clone {HOME}"
                " again"
            )
    if (digest := hash_transcripts(members)) != published[-1]:
        raise InputError(
            f"{directory}: speakers, words and phones have the hash {digest}, but those of the"
            f" published corpus {published[-1]}; clone {HOME} again"
        )


def count_samples(sound: Path) -> int:
    """The samples of a file; InputError where it is not 16 kHz, mono, 16 bits, or cut off."""
    if not sound.is_file():
        raise InputError(f"{sound}: is missing; clone {HOME} again")
    try:
        with wave.open(str(sound), "rb") as file:
            form = file.getparams()
    except (wave.Error, EOFError) as error:
        raise InputError(f"{sound}: not a RIFF file of sound ({error}); restore it") from None
    if (form.nchannels, form.sampwidth, form.framerate) != (1, 2, RATE):
        raise InputError(
            f"{sound}: {form.nchannels} channels of {8 * form.sampwidth} bits at {form.framerate}"
            f" Hz, not 1 of 16 at {RATE}; restore it"
        )
    if sound.stat().st_size < 2 * form.nframes:
        raise InputError(
            f"{sound}: {sound.stat().st_size} bytes for {form.nframes} samples; restore it"
        )
    return form.nframes


def hash_transcripts(members: Iterable[Utterance]) -> str:
    """SHA-256 of names, speakers, words and phones, a line each; the first half of its digits."""
    lines = "".join(
        f"{utt.name} {utt.speaker.name} {utt.speaker.age} {utt.speaker.gender}"
        f" {' '.join((*utt.words, *utt.phones))}\n"
        for utt in members
    )
    return hashlib.sha256(lines.encode()).hexdigest()[:32]


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
    entries_of = {
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
