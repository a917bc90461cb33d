"""Utterances of a folder: words, files and speakers, and their keys in Kaldi's tables."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import is_there
from bayes_asr.decode.graph.transducers import RESERVED
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.marks import compose
from bayes_asr.kaldi_io.text import (
    read_mapping,
    read_text,
    write_mapping,
    write_speakers,
    write_text,
)
from bayes_asr.recipe.folder.sounds import FORM, Sounds, choose_files, find_sound
from bayes_asr.recipe.folder.spelling import Spell

Transcripts = dict[str, tuple[str, ...]]
SYMBOL = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, RESERVED))})(?!\w)", re.ASCII)
"""A reserved word, also with marks around it, as Kaldi's validate_data_dir.sh looks for them."""


@dataclass(frozen=True)
class Utterance:
    """A sound file: `name` is what `text` calls it, `key` what Kaldi's tables do."""

    name: str
    key: str
    speaker: str
    words: tuple[str, ...]
    file: Path


def read_transcripts(text: Path, corpus: Path, spell: Spell) -> Transcripts:
    """The names of `text` in NFC and their words as `spell` has them, of which some may be empty.

    InputError for names with a space, names that are there twice, and reserved words.
    """
    _refuse_spaces(text, corpus)
    _refuse_repeated(text, corpus)
    lines = read_text(text)
    if not lines:
        raise InputError(f"{text}: empty; write {FORM}")
    _refuse_reserved(text)
    transcripts = {
        compose(name): tuple(filter(None, map(spell, words))) for name, words in lines.items()
    }
    if len(transcripts) < len(lines):
        counts = Counter(map(compose, lines))
        twice = next(name for name, count in counts.items() if count > 1)
        raise InputError(f"{text}: {twice} is there twice, in two Unicode forms; keep one line")
    return transcripts


def _refuse_spaces(text: Path, corpus: Path) -> None:
    """Raise InputError where `text` names a file by a name with a space, which ends it there."""
    paths = [file.relative_to(corpus).with_suffix("") for file in find_sound(corpus)]
    names = {compose(name) for path in paths for name in (path.as_posix(), path.name)}
    spaced = {name for name in names if " " in name}
    longest = max(map(len, spaced), default=0)
    for number, (line,) in iter_lines(text, splits=0):
        start = f"{compose(line)} "[: longest + 1]
        starts = (start[: space.start()] for space in re.finditer(" ", start))
        name = next((name for name in starts if name in spaced), None)
        if name and start.split(" ")[0] not in names:
            raise InputError(
                f"{text}, line {number}: {name} has a space, where a name ends; rename"
                " the file and the line, for example with _"
            )


def _refuse_repeated(text: Path, corpus: Path) -> None:
    """Raise InputError where several lines have a name that is several files, as if one each."""
    counts = Counter(compose(fields[0]) for _, fields in iter_lines(text))
    repeated = {name for name, count in counts.items() if count > 1}
    files: dict[str, list[Path]] = {}
    for file in find_sound(corpus) if repeated else ():
        files.setdefault(compose(file.stem), []).append(file)
    for name in sorted(repeated):
        if len(paths := files.get(name, [])) > 1:
            raise InputError(
                f"{text}: {name} is in {counts[name]} lines, and {len(paths)} files are called so;"
                f" name them by their paths, such as {paths[0].relative_to(corpus).with_suffix('')}"
            )


def _refuse_reserved(text: Path) -> None:
    places = [
        (number, match[0])
        for number, fields in iter_lines(text)
        for field in fields
        for match in SYMBOL.finditer(field)
    ]
    if places:
        number, symbol = places[0]
        raise InputError(
            f"{text}, line {number}: {symbol} is a symbol of decoding graphs and no word; take it"
            f" out (there are {len(places)} of {', '.join(RESERVED)})"
        )


def find_utterances(
    corpus: Path, text: Path, transcripts: Transcripts, sounds: Sounds
) -> list[Utterance]:
    """The files that `text` names, in byte order of their keys."""
    files = choose_files(transcripts, sounds, corpus, text)
    speakers = _read_speakers(corpus, text, transcripts) or _guess_speakers(corpus, files)
    keys = key_utterances(speakers)
    utterances = [
        Utterance(name, keys[name], speakers[name], words, files[name])
        for name, words in transcripts.items()
    ]
    utterances.sort(key=lambda utt: utt.key)
    for utt, successor in pairwise(utterances):
        if utt.key == successor.key:
            raise InputError(
                f"{text}: {utt.name} and {successor.name} would both be called"
                f" {utt.key}; rename a file"
            )
    return utterances


def _read_speakers(corpus: Path, text: Path, transcripts: Transcripts) -> dict[str, str]:
    """The speaker of each name by utt2spk; none without this file."""
    path = corpus / "utt2spk"
    if not is_there(path):
        return {}
    speakers = {compose(name): compose(who) for name, who in read_mapping(path).items()}
    strangers = sorted(transcripts.keys() - speakers.keys())
    if strangers:
        raise InputError(
            f"{path}: no speaker for {len(strangers)} of {len(transcripts)} names of"
            f" {text}, the first is {strangers[0]}; add them"
        )
    return {name: speakers[name] for name in transcripts}


def _guess_speakers(corpus: Path, files: Mapping[str, Path]) -> dict[str, str]:
    """Each folder as a speaker, or each file where all lie in one.

    InputError for two of them of one name.
    """
    alone = len({file.parent for file in files.values()}) == 1
    each = "each file" if alone else "each folder"
    print(f"speakers: {each} is taken for one (no {corpus / 'utt2spk'})")
    places = {name: file if alone else file.parent for name, file in files.items()}
    owners: dict[str, Path] = {}
    speakers: dict[str, str] = {}
    for name, place in places.items():
        parts = [place.stem] if alone else place.relative_to(corpus).parts
        speakers[name] = speaker = _join(parts) or _join([corpus.name])
        if (owner := owners.setdefault(speaker, place)) != place:
            raise InputError(
                f"{owner} and {place} would both be the speaker {speaker}; rename one, or say who"
                f" speaks in {corpus / 'utt2spk'}"
            )
    return speakers


def _join(parts: Iterable[str]) -> str:
    """A speaker's name out of a path: Kaldi's tables want one word."""
    return compose("_".join("-".join(parts).split()))


def key_utterances(speakers: Mapping[str, str]) -> dict[str, str]:
    """The key of each name, which begins with the name's speaker.

    Kaldi's validate_data_dir.sh wants utterances in one order, by their keys and by their speakers.
    InputError where speakers are called such that there is none.
    """
    for keys in _propose_keys(speakers):
        in_order = [speakers[name] for name in sorted(keys, key=keys.__getitem__)]
        if in_order == sorted(in_order):
            return keys
    speaker, predecessor = next(pair for pair in pairwise(in_order) if pair[0] > pair[1])
    raise InputError(
        f"speakers {predecessor} and {speaker}: no order of their utterances is also one of"
        " speakers, as Kaldi wants it; call one of them otherwise"
    )


def _propose_keys(speakers: Mapping[str, str]) -> Iterator[dict[str, str]]:
    flat = {name: name.replace("/", "-") for name in speakers}
    yield {
        name: key if key.startswith(speakers[name]) else f"{speakers[name]}-{key}"
        for name, key in flat.items()
    }
    # Where one speaker's name begins another's, as 1 and 10, what follows must come before any
    # character of names: - before digits and letters, ! before all that is printed.
    for separator in "-!":
        yield {
            name: speakers[name] + separator + key.removeprefix(f"{speakers[name]}-")
            for name, key in flat.items()
        }


def describe_wordless(utterances: Sequence[Utterance]) -> str:
    """The utterances without words, counted and named; empty where each has some."""
    wordless = sorted(utt.name for utt in utterances if not utt.words)
    if not wordless:
        return ""
    return (
        f"{len(wordless)} of {len(utterances)} transcripts have no words and are learnt as silence:"
        f" {name_some(wordless)}"
    )


def describe_cased_speakers(utterances: Iterable[Utterance]) -> str:
    """The speakers whose names differ by case only; empty where there are none."""
    spellings: dict[str, set[str]] = {}
    for utt in utterances:
        spellings.setdefault(utt.speaker.casefold(), set()).add(utt.speaker)
    alike = sorted(" and ".join(sorted(names)) for names in spellings.values() if len(names) > 1)
    if not alike:
        return ""
    return (
        f"speakers differ by case only, and are several here: {name_some(alike)}; if they are one"
        " person, write one name"
    )


def write_utterances(members: Sequence[Utterance], directory: Path) -> None:
    """Write a data directory that names the sound where it lies, in byte order of the keys."""
    members = sorted(members, key=lambda utt: utt.key)
    write_speakers({utt.key: utt.speaker for utt in members}, directory)
    write_text(((utt.key, utt.words) for utt in members), directory / "text")
    write_mapping(((utt.key, str(utt.file)) for utt in members), directory / "wav.scp")
