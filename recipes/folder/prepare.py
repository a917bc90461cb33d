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
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.lexicon import read_lexicon
from bayes_asr.decode.graph.ngram import estimate_witten_bell, read_arpa, write_arpa
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.text import (
    read_mapping,
    read_text,
    write_dictionary,
    write_mapping,
    write_speakers,
    write_text,
)

SOUND = {".aif", ".aiff", ".flac", ".mp3", ".oga", ".ogg", ".opus", ".sph", ".wav"}
UNKNOWN, SILENCE, NOISE = "<UNK>", "SIL", "SPN"
SETS = ("train", "dev", "test")
SHARE = 0.1  # of the utterances: dev and test, where nobody listed them
ORDER = 3  # of the language model
MOST_UNKNOWN = 0.5  # of the words of train: more are a lexicon of another spelling

Lexicon = list[tuple[str, tuple[str, ...]]]


@dataclass(frozen=True)
class Utterance:
    """A sound file: `name` is what `text` calls it."""

    name: str
    speaker: str
    words: tuple[str, ...]
    file: Path

    @property
    def key(self) -> str:
        """The name in Kaldi's tables, which want it to begin with the speaker."""
        name = self.name.replace("/", "-")
        return name if name.startswith(self.speaker) else f"{self.speaker}-{name}"


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything below --out; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder with sound and text")
    parser.add_argument("--out", type=Path, default=Path("exp/folder"), help="default %(default)s")
    args = parser.parse_args(argv)
    try:
        prepare(args.corpus.resolve(), args.out)
    except (InputError, OSError) as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 1
    return 0


def prepare(corpus: Path, out: Path) -> None:
    """Write data/{train,dev,test}, data/local/dict and data/local/lm.arpa below `out`."""
    known = find_utterances(corpus)
    sets = split(known, corpus)
    lexicon = find_lexicon(corpus, sets["train"])
    vocabulary = {word for word, _ in lexicon}
    for name, members in sets.items():
        write_data(members, out / "data" / name)
        print(f"{name}: {describe(members, vocabulary)}")
    refuse_other_spelling(corpus, sets["train"], vocabulary)
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
    if (corpus / "lm.arpa").is_file():
        model = read_arpa(corpus / "lm.arpa")
        print(f"language model: {corpus / 'lm.arpa'}")
    else:
        transcripts = (utt.words for utt in sets["train"])
        model = estimate_witten_bell(transcripts, ORDER, sorted(vocabulary))
        print(f"language model: a {ORDER}-gram of the words of train (no lm.arpa)")
    write_arpa(model, local / "lm.arpa")


def find_utterances(corpus: Path) -> list[Utterance]:
    """The files that `text` names, in byte order of their keys."""
    refuse_spaces(corpus)
    texts = read_text(corpus / "text")
    files = find_files(corpus, texts)
    by_file = corpus / "utt2spk"
    spoken = read_mapping(by_file) if by_file.is_file() else None
    strangers = sorted(texts.keys() - spoken.keys()) if spoken is not None else []
    if strangers:
        raise InputError(
            f"{by_file}: no speaker for {len(strangers)} of {len(texts)} names of"
            f" {corpus / 'text'}, the first is {strangers[0]}; add them"
        )
    if spoken is None:
        folders = {file.parent for file in files.values()}
        each = "each folder" if len(folders) > 1 else "each file"
        print(f"speakers: {each} is taken for one (no {by_file})")
        spoken = {
            name: join(file.parent.relative_to(corpus).parts if len(folders) > 1 else [file.stem])
            for name, file in files.items()
        }
    found = [
        Utterance(
            name, spoken[name] or join([corpus.name]), tuple(map(compose, words)), files[name]
        )
        for name, words in texts.items()
    ]
    found.sort(key=lambda utt: utt.key)
    for one, other in pairwise(found):
        if one.key == other.key:
            raise InputError(
                f"{corpus / 'text'}: {one.name} and {other.name} would both be called {one.key};"
                " rename a file"
            )
    return found


def refuse_spaces(corpus: Path) -> None:
    """Raise InputError where `text` names a file by a name with a space, which ends it there."""
    paths = [file.relative_to(corpus).with_suffix("") for file in find_sound(corpus)]
    names = {name for path in paths for name in (path.as_posix(), path.name)}
    spaced = [name for name in sorted(names) if " " in name]
    for number, (line,) in iter_lines(corpus / "text", splits=0):
        name = next((name for name in spaced if f"{line} ".startswith(f"{name} ")), None)
        if name and line.split(" ")[0] not in names:
            raise InputError(
                f"{corpus / 'text'}, line {number}: {name} has a space, where a name ends; rename"
                " the file and the line, for example with _"
            )


def find_sound(corpus: Path) -> list[Path]:
    """The sound files below a folder, at any depth."""
    return [file for file in sorted(corpus.rglob("*")) if file.suffix.lower() in SOUND]


def join(parts: Iterable[str]) -> str:
    """A speaker's name out of a path: Kaldi's tables want one word."""
    return "_".join("-".join(parts).split())


def find_files(corpus: Path, texts: Mapping[str, object]) -> dict[str, Path]:
    """The sound file of each name: its stem, or its path below `corpus` without the extension."""
    files: dict[str, list[Path]] = {}
    for file in find_sound(corpus):
        for name in {file.stem, file.relative_to(corpus).with_suffix("").as_posix()}:
            files.setdefault(name, []).append(file)
    where = corpus / "text"
    if not files:
        raise InputError(f"{corpus}: no sound files ({' '.join(sorted(SOUND))}); name their folder")
    if not texts:
        raise InputError(f"{where}: empty; write `NAME WORD WORD ...` for each sound file")
    absent = [name for name in texts if name not in files]
    if absent:
        raise InputError(
            f"{where}: no sound file for {len(absent)} of {len(texts)} names, the first is"
            f" {absent[0]}; names are those of files below {corpus}, without extension"
        )
    for name in texts:
        if len(files[name]) > 1:
            some = ", ".join(str(file.relative_to(corpus)) for file in files[name][:3])
            raise InputError(
                f"{where}: {name} is {len(files[name])} files: {some}; name them by their paths"
            )
    chosen = {name: files[name][0] for name in texts}
    silent = {file for same in files.values() for file in same} - {*chosen.values()}
    if silent:
        print(f"{len(silent)} files are not in {where}, the first is {min(silent)}: left out")
    return chosen


def compose(word: str) -> str:
    """A word as Unicode's NFC has it: a letter and its accent are one character."""
    return unicodedata.normalize("NFC", word)


def split(known: Sequence[Utterance], corpus: Path) -> dict[str, list[Utterance]]:
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
    named = {name for _, (name, *_) in iter_lines(path)}
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


def find_lexicon(corpus: Path, train: Iterable[Utterance]) -> Lexicon:
    """The words of lexicon.txt and their phones; without one, those of train and their letters."""
    path = corpus / "lexicon.txt"
    if path.is_file():
        entries = [(compose(entry.word), entry.phones) for entry in read_lexicon(path)]
        return [(word, phones) for word, phones in entries if word != UNKNOWN]
    words = sorted({word for utt in train for word in utt.words})
    print(f"lexicon: {len(words)} words of train by their letters (no {path})")
    return [(word, graphemes(word, corpus)) for word in words]


def graphemes(word: str, corpus: Path) -> tuple[str, ...]:
    """The letters and digits of a word in lower case, each with the marks that follow it."""
    letters: list[str] = []
    for character in compose(word.casefold()):
        kind = unicodedata.category(character)[0]
        if kind == "M" and letters:
            letters[-1] += character
        elif kind in "LN":
            letters.append(character)
    if not letters:
        raise InputError(
            f"{corpus / 'text'}: {word} has no letter: take it out, or give a lexicon.txt"
        )
    return tuple(letters)


def refuse_other_spelling(corpus: Path, train: Sequence[Utterance], vocabulary: set[str]) -> None:
    """Raise InputError where the lexicon knows less than half of what train says."""
    unknown = unknown_words(train, vocabulary)
    total = sum(len(utt.words) for utt in train)
    if len(unknown) > MOST_UNKNOWN * total:
        raise InputError(
            f"{corpus / 'lexicon.txt'}: {len(unknown)} of {total} words of train are not in it, the"
            f" first is {unknown[0]}; are they spelled alike, also in upper and lower case?"
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
