"""Texts beside the sound files of a folder: FILE.lab, FILE.txt or FILE.TextGrid for FILE.wav."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bayes_asr.base.errors import InputError, count_of, name_some
from bayes_asr.base.files import read_bytes
from bayes_asr.kaldi_io.binary import refuse_documents
from bayes_asr.kaldi_io.marks import find_mark
from bayes_asr.kaldi_io.text import write_text
from bayes_asr.recipe.folder.sounds import (
    BESIDE_KINDS,
    SOUND,
    UNREAD,
    convert,
    describe_seen,
    find_files,
    find_sound,
)

TIER = "words"
Interval = tuple[float, float, str]
"""Begin and end in seconds, and the text."""
TIMES = re.compile(
    r"\s*\d*[.:,]\d[\d.:,]*\s+(-->\s+)?\d[\d.:,]*(\s|$)"  # of Audacity and subtitles
    r"|\s*[\[(<]\s*\d*[.:]\d[\d.:,]*\s*([\])>]|-)"  # [00:12.34] of lyrics, [0.40] of Babel
    r"|\s*\d+(:\d\d)+([.,]\d+)?\s*$"  # 0:12 of a page, above the words
)
INTERVAL = re.compile(r"(\d{1,20})\s+(\d{1,20})\s+(\S)")
"""Times of HTK and TIMIT, in whole numbers, if the second is larger; else numbers that are said."""
LONG = 1000  # a second number that makes all lines times, such as those of no length
MARKUP = re.compile(r"\s*(<\?xml|<!doctype|<html|\{\s*\"|\[\s*\{|webvtt|@begin)", re.I)
# Praat reads quoted strings, numbers and flags that stand alone, and passes over the rest; what
# follows a ! to the end of its line is a comment.
VALUE = re.compile(r'"((?:[^"]|"")*)"|(?<!\S)([-+]?\d[\d.eE+-]*|<exists>)(?!\S)|![^\r\n]*')


def write_beside(corpus: Path, text: Path) -> list[Path]:
    """Write `text` of the texts beside sounds, of the kind that most have; returns them by line.

    Names are paths below `corpus`. Sounds without such a text are left out, and counted; so are
    texts beside what may be sound and is not read. InputError where there is none, or `text` in
    `corpus`. ExceptionGroup of all files that are no such texts, as those with times, except
    Praat's: of these the tier `words`, or the only one of intervals, is read.
    """
    if (corpus / "text").exists():
        raise InputError(f"{corpus / 'text'}: is there, and --beside does without; take one away")
    sounds = {file.with_suffix(""): file for file in find_sound(corpus)}
    files = find_files(corpus)
    texts = [
        file
        for file in files
        if file.suffix.lower() in BESIDE_KINDS and file.with_suffix("") in sounds
    ]
    if not texts:
        raise InputError(
            f"{corpus}: no sound file has a text beside it ({', '.join(BESIDE_KINDS)})"
            f"{describe_seen(corpus)}"
        )
    counts = Counter(file.suffix.lower() for file in texts)
    kind = max(BESIDE_KINDS, key=lambda suffix: counts[suffix])
    transcribed = [file for file in texts if file.suffix.lower() == kind]
    lines = _read_all(transcribed, corpus)
    text.parent.mkdir(parents=True, exist_ok=True)
    write_text(lines, text)
    lacking = sounds.keys() - {file.with_suffix("") for file in transcribed}
    others = [file for file in texts if file.with_suffix("") in lacking]
    left_out = _describe_left_out(lacking, others, corpus) + _describe_unread(files, corpus)
    print(f"{text}: of {len(transcribed)} files {transcribed[0].suffix} beside the sound{left_out}")
    return transcribed


def _describe_left_out(sounds: Collection[Path], others: Sequence[Path], corpus: Path) -> str:
    """The sounds without a text of the kind that is read, by those that have one of another."""
    of_others = {file.with_suffix("") for file in others}
    remark = ""
    if others:
        lacking = count_of(len(of_others), "sound file has", "sound files have")
        names = name_some([str(file.relative_to(corpus)) for file in others])
        remark = f"; {lacking} a text of another kind, which is left out: {names}"
    if without := len(sounds) - len(of_others):
        lacking = count_of(without, "sound file has none and is", "sound files have none and are")
        remark += f"; {lacking} left out"
    return remark


def _describe_unread(files: Sequence[Path], corpus: Path) -> str:
    """The files in formats that are not read which have a text beside them, and no sound."""
    heard = {file.with_suffix("") for file in files if file.suffix.lower() in SOUND}
    transcribed = {file.with_suffix("") for file in files if file.suffix.lower() in BESIDE_KINDS}
    unread = [
        file
        for file in files
        if file.suffix.lower() in UNREAD and file.with_suffix("") in transcribed - heard
    ]
    if not unread:
        return ""
    lacking = count_of(len(unread), "file with a text is", "files with texts are")
    names = name_some([str(file.relative_to(corpus)) for file in unread])
    return (
        f"; {lacking} not read and left out: {names}; convert them, for example by"
        f" {convert(unread[0])}"
    )


@contextmanager
def at_sources(text: Path, sources: Sequence[Path]) -> Iterator[None]:
    """Let errors about a line of `text` name the file that it is of: `text` is written anew.

    Those about all of it name the kind of these files.
    """
    place = re.compile(rf"{re.escape(str(text))}(?:, line (\d+))?(?=: )")
    beside = f"files {sources[0].suffix} beside the sound"

    def name_source(error: Exception) -> Exception:
        if not isinstance(error, InputError):
            return error
        return InputError(
            place.sub(lambda at: str(sources[int(at[1]) - 1]) if at[1] else beside, str(error))
        )

    try:
        yield
    except ExceptionGroup as group:
        raise group.derive([*map(name_source, group.exceptions)]) from None


def _read_all(files: Sequence[Path], corpus: Path) -> list[tuple[str, list[str]]]:
    """The names and words of texts of a kind."""
    lines, errors = [], []
    for file in files:
        parse = _read_grid if file.suffix.lower() == ".textgrid" else _read_words
        try:
            lines.append((_name(file, corpus), _without_marks(parse(file), file)))
        except InputError as error:
            errors.append(error)
    if errors:
        raise ExceptionGroup("texts are not as they should be", errors)
    return lines


def _name(file: Path, corpus: Path) -> str:
    name = file.relative_to(corpus).with_suffix("").as_posix()
    if " " in name:
        raise InputError(f"{file}: its name has a space; rename it and its sound, such as with _")
    return name


def _without_marks(words: list[str], path: Path) -> list[str]:
    """The words of a text; InputError where one of them holds what nobody sees."""
    for word in words:
        if mark := find_mark(word):
            raise InputError(f"{path}: {word} holds {mark}; write a space in its place, or none")
    return words


def _read_words(path: Path) -> list[str]:
    """The words of a text; InputError for markup, and where a line has times."""
    content = _decode(path)
    if MARKUP.match(content):
        raise InputError(
            f"{path}: is markup, not a text of words alone; take out all but the words"
        )
    lines = content.splitlines()
    intervals = [match.groups() for line in lines if (match := INTERVAL.match(line))]
    rising = [(int(end), label) for begin, end, label in intervals if int(begin) < int(end)]
    are_times = any(end >= LONG for end, _ in rising) or (
        len(rising) == len(intervals) and not any(label.isdigit() for _, label in rising)
    )
    for line in lines:
        if TIMES.match(line) or (are_times and INTERVAL.match(line)):
            raise InputError(
                f"{path}: {line.strip()!r} has times; here a text is words alone, so take the times"
                " away (for TIMIT there is the recipe timit)"
            )
    return " ".join(lines).split()


def _read_grid(path: Path) -> list[str]:
    """The words of a TextGrid of Praat, in its long or its short form."""
    values = (value for value in VALUE.finditer(_decode(path)) if value[0][0] != "!")
    try:
        tiers = list(_iter_tiers(values))
    except (StopIteration, RuntimeError, ValueError):
        raise InputError(f"{path}: no TextGrid of Praat, or cut off; save it again") from None
    by_name = dict(tiers)
    if next(values, None) or len(by_name) < len(tiers):
        raise InputError(
            f"{path}: has more intervals or tiers than it says, or two tiers of one name, and words"
            " would be lost; open it in Praat and save it again"
        )
    if TIER not in by_name and len(tiers) != 1:
        raise InputError(
            f"{path}: its tiers of intervals are {', '.join(by_name) or 'none'}; call that of the"
            f" words {TIER}"
        )
    words, latest = [], -math.inf
    for begin, end, text in by_name.get(TIER, tiers[0][1]):
        if not latest <= begin <= end:
            raise InputError(
                f"{path}: the interval {text!r} from {begin:g} to {end:g} s ends before it begins,"
                " or begins before the last one; open it in Praat and save it again"
            )
        latest = begin
        words += text.split()
    return words


def _iter_tiers(values: Iterator[re.Match[str]]) -> Iterator[tuple[str, list[Interval]]]:
    """The name of each tier of intervals in small letters, and its intervals."""

    def take(count: int) -> list[str]:
        matches = [next(values) for _ in range(count)]
        return [match[0] if match[1] is None else match[1].replace('""', '"') for match in matches]

    *_, flag, number = take(6)  # type of file, class, begin and end before these
    if flag != "<exists>":
        raise ValueError
    for _ in range(int(number)):
        tier, name, _, _, size = take(5)
        length = 3 if tier == "IntervalTier" else 2  # begin, end, text; or a time and its mark
        entries = [take(length) for _ in range(int(size))]
        if tier == "IntervalTier":
            yield name.lower(), [(float(begin), float(end), text) for begin, end, text in entries]


def _decode(path: Path) -> str:
    """The text of a file in UTF-8, or in UTF-16 with its mark, as Praat writes it."""
    content = read_bytes(path)
    refuse_documents(content, path)
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 ({error}); save it as that") from None
