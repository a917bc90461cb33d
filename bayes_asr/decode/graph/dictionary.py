"""The dict folder that a lang folder is made from: a lexicon, and phones by kind."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.decode.graph.lexicon import Pronunciation, read_lexicon
from bayes_asr.decode.graph.transducers import EPSILON
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.text import write_lines, write_text

LEXICONS = ("lexiconp.txt", "lexicon.txt")
BY_CONTEXT = "lexiconp_silprob.txt"  # with pauses as likely as each word makes them
SUFFIXES = ("_B", "_E", "_I", "_S")  # of phones that begin, end, are inside, are a word
Sets = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Dictionary:
    """The contents of a dict folder, which prepare_lang.sh reads.

    `silence` and `nonsilence` are sets of phones, one for each base phone: its forms of stress or
    tone. `optional`: the phone of pauses. `questions`: sets that a tree may ask about.
    """

    path: Path
    lexicon: Sequence[Pronunciation]
    silence: Sets
    nonsilence: Sets
    optional: str
    questions: Sets


def read_dictionary(dict_dir: Path) -> Dictionary:
    """Read a dict folder: lexiconp.txt or else lexicon.txt, and lists of phones.

    extra_questions.txt may be absent. InputError where these contradict each other.
    """
    if is_there(dict_dir / BY_CONTEXT):
        raise InputError(
            f"{dict_dir / BY_CONTEXT}: pauses that depend on the word are not supported; move this"
            f" file away to use {LEXICONS[0]} and one probability of a pause"
        )
    lexicons = [dict_dir / name for name in LEXICONS if is_there(dict_dir / name)]
    if not lexicons:
        raise InputError(f"{dict_dir}: has no lexicon (looked for {' and '.join(LEXICONS)})")
    questions = dict_dir / "extra_questions.txt"
    optional = [phone for line in _read_sets(dict_dir / "optional_silence.txt") for phone in line]
    if len(optional) != 1:
        raise InputError(f"{dict_dir}/optional_silence.txt: holds {len(optional)} phones, not one")
    dictionary = Dictionary(
        dict_dir,
        read_lexicon(lexicons[0]),
        _read_sets(dict_dir / "silence_phones.txt"),
        _read_sets(dict_dir / "nonsilence_phones.txt"),
        optional[0],
        _read_sets(questions) if is_there(questions) else [],
    )
    _check(dictionary, lexicons[0])
    return dictionary


def flatten(sets: Sets) -> list[str]:
    """The phones of all sets, in order."""
    return [phone for phones in sets for phone in phones]


def _read_sets(path: Path) -> list[list[str]]:
    return [fields for _, fields in iter_lines(path)]


def _check(dictionary: Dictionary, lexicon: Path) -> None:
    dict_dir = dictionary.path
    silence, nonsilence = flatten(dictionary.silence), flatten(dictionary.nonsilence)
    for name, phones in (("silence", silence), ("nonsilence", nonsilence)):
        if not phones:
            raise InputError(f"{dict_dir}/{name}_phones.txt: holds no phone")
    # The checks of Kaldi's validate_dict_dir.pl that an error here would make hard to find later.
    phones = [*silence, *nonsilence]
    _refuse({p for p in phones if phones.count(p) > 1}, "listed twice as a phone", dict_dir)
    _refuse({p for p in phones if p == EPSILON or p[0] == "#"}, "a reserved symbol", dict_dir)
    _refuse(
        {p for p in phones if p.endswith(SUFFIXES)},
        f"one of {', '.join(SUFFIXES)} at its end",
        dict_dir,
    )
    _refuse({dictionary.optional} - {*silence}, "not in silence_phones.txt", dict_dir)
    listed = {*phones}
    _refuse({*flatten(dictionary.questions)} - listed, "asked about and not listed", dict_dir)
    phones_used = {phone for entry in dictionary.lexicon for phone in entry.phones}
    _refuse(phones_used - listed, "not listed as a silence or nonsilence phone", lexicon)


def _refuse(wrong: Iterable[str], what: str, where: Path) -> None:
    for phone in sorted(wrong):
        raise InputError(f"{where}: the phone {phone} is {what}; correct the dictionary")


def write_dictionary(
    lexicon: Iterable[tuple[str, Sequence[str]]],
    directory: Path,
    *,
    silence: Sequence[str],
    questions: Iterable[Sequence[str]] = (),
    base: Callable[[str], str] = str,
) -> None:
    """Write the folder that Kaldi's prepare_lang.sh reads: lexicon.txt and lists of phones.

    lexicon: words and their phones, in byte order of the words; silence: phones of silence and
    noise, the optional one first; questions: sets of phones that a tree may ask about; base: of a
    phone, of which it is a form of stress or tone: forms of one have a line, and a tree, in common.
    """
    entries = sorted((word, tuple(phones)) for word, phones in lexicon)
    nonsilence = {phone for _, phones in entries for phone in phones} - {*silence}
    by_base = groupby(sorted(nonsilence, key=lambda phone: (base(phone), phone)), base)
    write_text(entries, directory / "lexicon.txt")
    write_lines(silence, directory / "silence_phones.txt")
    write_lines(silence[:1], directory / "optional_silence.txt")
    write_lines((" ".join(forms) for _, forms in by_base), directory / "nonsilence_phones.txt")
    write_lines((" ".join(phones) for phones in questions), directory / "extra_questions.txt")
