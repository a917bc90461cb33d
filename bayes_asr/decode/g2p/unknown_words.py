"""Words that a lexicon lacks, with the phones that a model of pronunciation finds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.lexicon import Pronunciation

Pronounce = Callable[[str], Pronunciation]
"""As `G2P.pronounce`."""


def pronounce_words(
    words: Sequence[str], lexicon: Iterable[Pronunciation], pronounce: Pronounce
) -> list[Pronunciation]:
    """Return the entries of words; InputError for a phone that no word of the lexicon has."""
    phones = {phone for entry in lexicon for phone in entry.phones}
    entries = [replace(pronounce(word), probability=1.0) for word in words]
    for entry in entries:
        if strange := [phone for phone in entry.phones if phone not in phones]:
            raise InputError(
                f"G2P pronounces {entry.word} with {strange[0]}, which the lexicon lacks; let a"
                " model learn this lexicon: bayes-asr g2p LEXICON --out MODEL"
            )
    return entries
