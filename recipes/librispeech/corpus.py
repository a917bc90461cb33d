"""LibriSpeech on disk: which of its sets are there, and the chapters that its readers read."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import find_files
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.text import read_text
from bayes_asr.recipe.folder.utterances import Utterance

PUBLISHED = {  # numbers of utterances; -5 and -2 are parts of -100 and of dev-clean (OpenSLR 31)
    "train-clean-5": 1519,
    "train-clean-100": 28539,
    "train-clean-360": 104014,
    "train-other-500": 148688,
    "dev-clean-2": 1089,
    "dev-clean": 2703,
    "dev-other": 2864,
    "test-clean": 2620,
    "test-other": 2939,
}
PARTS = {"train-clean-5": "train-clean-100", "dev-clean-2": "dev-clean"}
SPEAKERS = "SPEAKERS.TXT"


def find_sets(corpus: Path) -> dict[str, Path]:
    """The folders of the published sets below CORPUS or CORPUS/LibriSpeech."""
    for root in (corpus / "LibriSpeech", corpus):
        sets = {name: root / name for name in PUBLISHED if (root / name).is_dir()}
        if sets:
            return sets
    raise InputError(
        f"{corpus}: holds none of {' '.join(PUBLISHED)}, nor has its folder LibriSpeech; unpack"
        " the archives of https://openslr.org/12 or /31 there"
    )


def read_set(folder: Path) -> list[Utterance]:
    """The utterances of a set, in byte order; speakers are chapters, as Kaldi's recipe has them.

    Raises InputError where the transcripts and the sound of a chapter are not of each other.
    """
    members = [
        utterance
        for reader in find_files(folder, "*")
        for chapter in find_files(reader, "*")
        if chapter.is_dir()
        for utterance in _read_chapter(chapter)
    ]
    if not members:
        raise InputError(f"{folder}: no READER/CHAPTER with sound; unpack its archive again")
    if len(members) != PUBLISHED[folder.name]:
        print(f"{folder}: {len(members)} of {PUBLISHED[folder.name]} published utterances")
    return sorted(members, key=lambda utt: utt.key)


def _read_chapter(chapter: Path) -> Iterator[Utterance]:
    speaker = f"{chapter.parent.name}-{chapter.name}"
    transcript = chapter / f"{speaker}.trans.txt"
    if not transcript.is_file():
        raise InputError(f"{transcript}: is missing; unpack the archive of the set again")
    texts = read_text(transcript)
    sounds = {file.stem: file for file in find_files(chapter, "*.flac")}
    if lacking := sorted(texts.keys() ^ sounds.keys()):
        raise InputError(
            f"{chapter}: {len(texts)} transcripts and {len(sounds)} sound files; the first without"
            f" the other is {lacking[0]}; unpack the archive of the set again"
        )
    for name, words in texts.items():
        if not name.startswith(f"{speaker}-"):
            raise InputError(f"{transcript}: {name} is of another chapter; unpack it again")
        yield Utterance(name, name, speaker, tuple(words), sounds[name])


def reader_of(utterance: Utterance) -> str:
    """Who reads, in any of his chapters."""
    return utterance.speaker.partition("-")[0]


def list_genders(members: Sequence[Utterance], root: Path) -> dict[str, str]:
    """f or m of each speaker, by the SPEAKERS.TXT of a folder of sets; none without this file.

    Raises InputError where a reader is not in it.
    """
    table = root / SPEAKERS
    if not table.is_file():
        return {}
    lines = (line for _, (line,) in iter_lines(table, splits=0) if not line.startswith(";"))
    fields = ([field.strip() for field in line.split("|")] for line in lines)
    genders = {reader: gender.lower() for reader, gender, *_ in fields}
    readers = {utt.speaker: reader_of(utt) for utt in members}
    if strangers := sorted({*readers.values()} - genders.keys()):
        raise InputError(
            f"{table}: lacks {len(strangers)} readers, {name_some(strangers)}; take the file of"
            " the archive whose sets these are"
        )
    return {speaker: genders[reader] for speaker, reader in sorted(readers.items())}
