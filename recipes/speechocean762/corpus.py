"""speechocean762 on disk: its two sets and their speakers, held against what was published."""

import hashlib
import re
import wave
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.kaldi_io.text import read_mapping, read_text

HOME = "https://github.com/jimbozhang/speechocean762"
RATE = 16000
ADULT = 18  # years
MARKS = re.compile(r"\d?(?:_[BIES])?$")  # of a phone: stress, place in the word

# What the corpus holds: speakers, utterances, words, samples, and a hash of who says which words.
PUBLISHED = {
    "train": (125, 2500, 15849, 165665760, "25eb36339aff9229d4e4883b0a7d11e2"),
    "test": (125, 2500, 15967, 155018368, "1227ec53b4f5dcee79fd592f918e1942"),
}
COUNTED = ("speakers", "utterances", "words", "samples of sound")


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
