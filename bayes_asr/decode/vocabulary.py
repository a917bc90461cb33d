"""Words that a lexicon and a language model lack, put into both, with the phones that G2P finds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.log import LOGGER
from bayes_asr.decode.align.spelling import learn_graphemes, spell
from bayes_asr.decode.graph.lexicon import Lang, Pronunciation
from bayes_asr.decode.graph.ngram import LN_10, UNSEEN_START, NgramModel
from bayes_asr.decode.graph.transducers import END, START
from bayes_asr.decode.search.hotwords import Hotword
from bayes_asr.kaldi_io.marks import find_cased

Pronounce = Callable[[str], Pronunciation]
"""As `G2P.pronounce`."""

REMEDY = "write their phones behind them, as /h ah l ow/, or give --g2p MODEL"


def add_words(
    lang: Lang, hotwords: Sequence[Hotword], g2p: Pronounce | None = None
) -> tuple[Lang, list[str]]:
    """Return the lexicon with the words of hotwords that it lacks, and these words.

    A word has the phones that stand behind it, besides those of the lexicon, or is spelled by its
    letters, or by `g2p` where the lexicon is of phones. InputError for a word of none of these.
    """
    listed = {(entry.word, entry.phones) for entry in lang.lexicon}
    listings = (Pronunciation(h.words[0], 1.0, h.phones) for h in hotwords if h.phones)
    pronounced = dict.fromkeys(listings)
    further = [entry for entry in pronounced if (entry.word, entry.phones) not in listed]
    present = {entry.word for entry in (*lang.lexicon, *further)}
    words = dict.fromkeys(word for hotword in hotwords for word in hotword.words)
    if lacking := [word for word in words if word not in present]:
        further += _pronounce(lang, lacking, g2p)
    known = {entry.word for entry in lang.lexicon}
    fresh = [word for word in words if word not in known]
    if cased := find_cased({*fresh}, known):
        LOGGER.warning(
            "hotwords: the lexicon has %s, and gets words that differ from them by case, Unicode"
            " form or punctuation alone; if the same is meant, write it so",
            name_some(cased),
        )
    return lang.extend(further), fresh


def _pronounce(lang: Lang, words: Sequence[str], g2p: Pronounce | None) -> list[Pronunciation]:
    """Words that a lexicon lacks by their letters, or by `g2p` where it is of phones."""
    if g2p is None or learn_graphemes(lang) is not None:
        return spell(lang, words, REMEDY)
    entries = pronounce_words(words, lang.lexicon, g2p)
    for entry in entries:
        LOGGER.info("pronounced %s as %s", entry.word, " ".join(entry.phones))
    return entries


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


def add_unigrams(model: NgramModel, hotwords: Sequence[Hotword]) -> NgramModel:
    """Return a model that has all words of hotwords, new ones as probable as its rarest word.

    The probabilities of others stay, so that all together exceed 1 by so much.
    """
    unigrams = {
        words: value
        for words, value in model.log_prob.items()
        if len(words) == 1 and words not in ((START,), (END,))
    }
    # What is never predicted, such as a word for unknown ones, is not the rarest word.
    least = min(value for value in unigrams.values() if value > UNSEEN_START * LN_10)
    words = dict.fromkeys(word for hotword in hotwords for word in hotword.words)
    fresh: dict[tuple[str, ...], float] = {
        (word,): least for word in words if (word,) not in unigrams
    }
    return replace(model, log_prob={**model.log_prob, **fresh})
