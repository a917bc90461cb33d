"""The dict folder that a lang folder is made from: a lexicon, and phones by kind."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.decode.graph.lexicon import Pronunciation, read_lexicon
from bayes_asr.kaldi_io.binary import iter_lines

LEXICONS = ("lexiconp.txt", "lexicon.txt")
BY_CONTEXT = "lexiconp_silprob.txt"  # with pauses as likely as each word makes them
SUFFIXES = ("_B", "_E", "_I", "_S")  # of phones that begin, end, are inside, are a word
Sets = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Dictionary:
    """What prepare_lang.sh reads.

    `silence` and `nonsilence` are sets of phones, one for each base phone: its forms of stress or
    tone. `optional`: the phone of pauses. `questions`: sets that a tree may ask about.
    """

    folder: Path
    lexicon: Sequence[Pronunciation]
    silence: Sets
    nonsilence: Sets
    optional: str
    questions: Sets


def read_dictionary(folder: Path) -> Dictionary:
    """Read a dict folder: lexiconp.txt or else lexicon.txt, and lists of phones.

    extra_questions.txt may be absent. InputError where these contradict each other.
    """
    if is_there(folder / BY_CONTEXT):
        raise InputError(
            f"{folder / BY_CONTEXT}: pauses that depend on the word are not supported; move this"
            f" file away to use {LEXICONS[0]} and one probability of a pause"
        )
    found = [folder / name for name in LEXICONS if is_there(folder / name)]
    if not found:
        raise InputError(f"{folder}: has no lexicon (looked for {' and '.join(LEXICONS)})")
    questions = folder / "extra_questions.txt"
    optional = [phone for line in _read_sets(folder / "optional_silence.txt") for phone in line]
    if len(optional) != 1:
        raise InputError(f"{folder}/optional_silence.txt: holds {len(optional)} phones, not one")
    dictionary = Dictionary(
        folder,
        read_lexicon(found[0]),
        _read_sets(folder / "silence_phones.txt"),
        _read_sets(folder / "nonsilence_phones.txt"),
        optional[0],
        _read_sets(questions) if is_there(questions) else [],
    )
    _check(dictionary, found[0])
    return dictionary


def flatten(sets: Sets) -> list[str]:
    """The phones of all sets, in order."""
    return [phone for phones in sets for phone in phones]


def _read_sets(path: Path) -> list[list[str]]:
    return [fields for _, fields in iter_lines(path)]


def _check(dictionary: Dictionary, lexicon: Path) -> None:
    folder = dictionary.folder
    silence, nonsilence = flatten(dictionary.silence), flatten(dictionary.nonsilence)
    for name, phones in (("silence", silence), ("nonsilence", nonsilence)):
        if not phones:
            raise InputError(f"{folder}/{name}_phones.txt: holds no phone")
    phones = [*silence, *nonsilence]
    _refuse({p for p in phones if phones.count(p) > 1}, "listed twice as a phone", folder)
    _refuse({p for p in phones if p == "<eps>" or p[0] == "#"}, "a reserved symbol", folder)
    _refuse(
        {p for p in phones if p.endswith(SUFFIXES)},
        f"one of {', '.join(SUFFIXES)} at its end",
        folder,
    )
    _refuse({dictionary.optional} - {*silence}, "not in silence_phones.txt", folder)
    listed = {*phones}
    _refuse({*flatten(dictionary.questions)} - listed, "asked about and not listed", folder)
    said = {phone for entry in dictionary.lexicon for phone in entry.phones}
    _refuse(said - listed, "not listed as a silence or nonsilence phone", lexicon)


def _refuse(wrong: Iterable[str], what: str, where: Path) -> None:
    for phone in sorted(wrong):
        raise InputError(f"{where}: the phone {phone} is {what}; correct the dictionary")
