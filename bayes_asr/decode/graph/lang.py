"""Lexicon, phone table and optional silence, read from lang, dict and graph folders."""

import logging
from collections.abc import Collection, Container, Iterable
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, read_text, real_path
from bayes_asr.decode.graph.lexicon import Lang, LexiconFst, Pronunciation, read_lexicon
from bayes_asr.decode.graph.lexicon_shares import LexiconShares
from bayes_asr.decode.graph.transducers import EPSILON, check_words
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.context_dependency import Tree, build_monophone_tree
from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.initial_mdl import STATES, build_monophone_model
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.symbols import PHONES, check_same_phones, read_symbols
from bayes_asr.kaldi_io.transition_model import TransitionModel

LOG = logging.getLogger(__name__)
SILENCE_PROBABILITY = 0.5  # of a pause between words: the default of prepare_lang.sh
ALIGN_LEXICON = "phones/align_lexicon.txt"
LEXICONS = ("lexiconp.txt", "lexicon.txt", ALIGN_LEXICON)
LEXICON_FST, OOV = "L.fst", "oov.txt"
SILENCE = "phones/silence.csl"
SILENCE_FILES = (
    *("optional_silence.txt", "silence_phones.txt"),
    *("phones/optional_silence.txt", "phones/silence.txt"),
)


def read_lang(lang: Path, unknown: str | None = None, phones: Container[str] = ()) -> Lang:
    """Read Kaldi's lang or dict folder, or a graph folder; L.fst tells how likely a pause is.

    The lexicon is the first that is there of lexiconp.txt, lexicon.txt, phones/align_lexicon.txt;
    the probabilities of the last are those of L.fst. `unknown`: another word than that of oov.txt;
    phones: those of the model, for a folder that lists no silence.
    """
    path = next((lang / name for name in LEXICONS if is_there(lang / name)), None)
    if path is None:
        raise InputError(f"{lang}: has no lexicon (looked for {', '.join(LEXICONS)})")
    align = path == lang / ALIGN_LEXICON
    lexicon = _read_align_lexicon(path) if align else read_lexicon(path)
    silence = next(iter(read_silence_phones(lang, phones)), None)
    probability, transducer = pause_probability(lexicon) if silence else 0.0, None
    if is_there(lang / LEXICON_FST):
        read, shares = _read_transducer(lang, lexicon, silence)
        probability = shares.pause
        if align:
            lexicon, transducer = _weigh(lexicon, read, shares, lang / LEXICON_FST), read
    oov = lang / OOV
    unknown = unknown or (" ".join(_read_words(oov)) if is_there(oov) else None)
    if unknown and all(entry.word != unknown for entry in lexicon):
        raise InputError(f"{path}: lacks {unknown}, the word for words without pronunciation")
    return Lang(lexicon, silence, probability, unknown, transducer)


def find_lexicon(lang: Path) -> list[Path]:
    """The files of pronunciations in a folder, of which `read_lang` takes the first, and L.fst."""
    return [lang / name for name in (*LEXICONS, LEXICON_FST) if is_there(lang / name)]


def pause_probability(lexicon: Iterable[Pronunciation]) -> float:
    """The usual probability of a pause between words: none where each word is a phone."""
    return 0.0 if all(len(entry.phones) == 1 for entry in lexicon) else SILENCE_PROBABILITY


def read_lexicon_fst(path: Path, words: Collection[int] | None = None) -> Fst:
    """Read L.fst or L_disambig.fst; InputError where it says nothing, or has other words."""
    fst = read_fst(path)
    if not fst.num_arcs:
        raise InputError(f"{path}: has no pronunciations; make the lang folder again")
    if words is not None:
        check_words(fst, words, path)
    return fst


def _read_transducer(
    lang: Path, lexicon: Iterable[Pronunciation], silence: str | None
) -> tuple[LexiconFst, LexiconShares]:
    """Read L.fst and its symbol tables; InputError where the pause is none of its phones."""
    phones, words = (read_symbols(lang / name) for name in (PHONES, "words.txt"))
    if silence and silence not in phones:
        raise InputError(f"{lang / PHONES}: lacks {silence}, the phone of pauses")
    fst = read_lexicon_fst(lang / LEXICON_FST, words.values())
    spoken = frozenset(words[entry.word] for entry in lexicon if entry.word in words)
    shares = LexiconShares(fst, spoken, phones[silence] if silence else -1)
    return LexiconFst(fst, phones, words), shares


def _weigh(
    lexicon: Collection[Pronunciation], transducer: LexiconFst, shares: LexiconShares, path: Path
) -> list[Pronunciation]:
    """The lexicon with the probabilities of L.fst, which is at `path`; 1 where it has none.

    InputError for a word that words.txt lacks.
    """
    phones, words = transducer.phones, transducer.words
    measured = shares.of_pronunciations(max((len(entry.phones) for entry in lexicon), default=0))
    weighed, strange = list[Pronunciation](), 0
    for entry in lexicon:
        if entry.word not in words:
            raise InputError(
                f"{path}: the words.txt beside it lacks {entry.word}, which the lexicon of the"
                " folder has; make the folder again"
            )
        share = measured.get((words[entry.word], tuple(map(phones.get, entry.phones))))
        strange += not share
        weighed.append(Pronunciation(entry.word, share or 1.0, entry.phones))
    if strange:
        LOG.warning("%s: lacks %d of %d pronunciations", path, strange, len(weighed))
    return weighed


def read_silence_ids(lang: Path) -> tuple[int, ...]:
    """The numbers of the silence phones of a lang or graph folder: phones/silence.csl, 1:2:3."""
    path = lang / SILENCE
    if not is_there(path):
        raise InputError(f"{path}: is missing; it names the silence phones")
    try:
        return tuple(int(number) for number in read_text(path).strip().split(":") if number)
    except ValueError:
        raise InputError(f"{path}: is no list of phone-ids with colons between them") from None


def read_silence_phones(lang: Path, phones: Container[str] = ()) -> list[str]:
    """The silence phones that a lang, dict or graph folder lists, the optional one first.

    Where it lists none, SIL or else sil, if `phones` has it.
    """
    files = [lang / name for name in SILENCE_FILES if is_there(lang / name)]
    listed = list(dict.fromkeys(word for file in files for word in _read_words(file)))
    return listed or [name for name in ("SIL", "sil") if name in phones][:1]


def _read_words(path: Path) -> list[str]:
    return [word for _, fields in iter_lines(path) for word in fields]


def find_phones_file(lang: Path, model: Path) -> Path:
    """The phones.txt of a lang folder, or else that of `model`; InputError where they differ."""
    check_same_phones(lang, model.parent)
    table = lang / PHONES
    return table if is_there(table) else find_phone_table(model, lang / "lexicon.txt")


def find_phone_table(model: Path, lexicon: Path) -> Path:
    """The phones.txt of `model`, where Kaldi's scripts put it."""
    lang = [parent / "lang" / PHONES for parent in list(real_path(lexicon).parents)[1:3]]
    candidates = [model.parent / PHONES, model.parent / "graph" / PHONES, *lang]
    for candidate in candidates:
        if is_there(candidate):
            return candidate
    tried = ", ".join(map(str, candidates))
    raise InputError(f"{model}: no phones.txt belongs to it (tried {tried}): give --phones FILE")


def build_monophones(
    lang: Path, lexicon: Iterable[Pronunciation]
) -> tuple[dict[str, int], TransitionModel, Tree]:
    """Phone table, model and tree without context, of three states a phone.

    The phones are those of the lang folder's phones.txt, or else of the lexicon, silence first.
    """
    if is_there(lang / PHONES):
        table = read_symbols(lang / PHONES)
    else:
        pronounced = {phone for entry in lexicon for phone in entry.phones}
        names = dict.fromkeys((EPSILON, *read_silence_phones(lang), *sorted(pronounced)))
        table = {phone: number for number, phone in enumerate(names)}
    # The pdfs of phone i are i * STATES and those that follow.
    numbers = sorted(number for phone, number in table.items() if number and phone[0] != "#")
    pdfs = {n: range(STATES * i, STATES * (i + 1)) for i, n in enumerate(numbers)}
    return table, build_monophone_model(numbers, STATES), build_monophone_tree(pdfs)


def _read_align_lexicon(path: Path) -> list[Pronunciation]:
    """Lines `word word phone ...`; that of the optional silence is no word."""
    return [
        Pronunciation(fields[0], 1.0, tuple(fields[2:]))
        for _, fields in iter_lines(path)
        if fields[0] != EPSILON and len(fields) > 2
    ]
