"""The lang folder: symbols, topology, lexicon, sets of phones (Kaldi's utils/prepare_lang.sh)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import discard, is_there, together
from bayes_asr.base.places import refuse_foreign, refuse_read
from bayes_asr.decode.graph.dictionary import SUFFIXES, Dictionary, Sets, flatten, read_dictionary
from bayes_asr.decode.graph.lang import SILENCE_PROBABILITY
from bayes_asr.decode.graph.lexicon import (
    Pronunciation,
    build_lexicon_fst,
    disambiguate,
    mark_positions,
    number_words,
)
from bayes_asr.decode.graph.topology import build_topology, write_topology
from bayes_asr.decode.graph.transducers import BACKOFF, EPSILON, sort_by_output
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.fst import write_fst
from bayes_asr.kaldi_io.text import write_lines, write_mapping

PLACES = {"_B": "begin", "_E": "end", "_I": "internal", "_S": "singleton"}
BOUNDARIES = "word_boundary.txt"
AS_OPTION = ("silence", "nonsilence", "optional_silence", "disambig", "context_indep")
Lines = Sequence[Sequence[str]]


@dataclass(frozen=True)
class PhoneSets:
    """The phones of a lang folder, each line of `silence` and `nonsilence` in all its forms.

    `disambiguation`: #0, #1, ..., the last for pauses; `questions` as in `Dictionary`.
    """

    silence: Lines
    nonsilence: Lines
    optional: str
    disambiguation: Sequence[str]
    questions: Lines

    @property
    def table(self) -> dict[str, int]:
        """The symbols of phones.txt."""
        names = [EPSILON, *flatten(self.silence), *flatten(self.nonsilence), *self.disambiguation]
        return {name: number for number, name in enumerate(names)}

    def describe(self, share_silence: bool) -> dict[str, Lines]:
        """The lines of the files in `phones`, by their names."""
        # roots.txt: phones of a line share a tree root (shared) and may be split by their context.
        sets, roots = [*self.silence, *self.nonsilence], ["shared", "split"]
        if share_silence:
            sets = [flatten(self.silence), *self.nonsilence]
        trees = [[*roots, *phones] for phones in sets]
        if share_silence:
            trees[0][:2] = ["not-shared", "not-split"]
        each = {
            "silence": flatten(self.silence),
            "nonsilence": flatten(self.nonsilence),
            "optional_silence": [self.optional],
            "disambig": self.disambiguation,
            "context_indep": flatten(self.silence),
        }
        lists: dict[str, Lines] = {name: [[p] for p in phones] for name, phones in each.items()}
        return lists | {"sets": sets, "roots": trees, "extra_questions": self.questions}


@dataclass(frozen=True)
class LangOptions:
    """Options of Kaldi's prepare_lang.sh.

    oov: the word of the lexicon that stands for words without pronunciation; silence_probability:
    of a pause between words, 0 for none, below 1.
    """

    oov: str
    position_dependent: bool = True
    silence_probability: float = SILENCE_PROBABILITY
    silence_states: int = 5
    nonsilence_states: int = 3
    share_silence_phones: bool = False


def write_lang(dict_dir: Path, out: Path, options: LangOptions) -> None:
    """Write the lang folder `out` of a dict folder, as prepare_lang.sh does with these options.

    Text files are Kaldi's, byte for byte; the arcs of a state of L.fst and L_disambig.fst may be in
    another order. InputError as `read_dictionary` and `build_topology`, for an `oov` that the
    lexicon lacks, and where `out` is the dict folder, or has tables of a model or a graph.
    """
    _refuse_folder(dict_dir, out)
    dictionary = read_dictionary(dict_dir)
    oov, pause_share = options.oov, options.silence_probability
    if not 0 <= pause_share < 1:
        raise InputError(f"a pause has a probability from 0 to below 1, not {pause_share}")
    lexicon = dictionary.lexicon
    if all(entry.word != oov for entry in lexicon):
        raise InputError(
            f"{dict_dir}: the lexicon lacks {oov}, which shall stand for words without"
            " pronunciation; add it, or name another word"
        )
    if options.position_dependent:
        lexicon = mark_positions(lexicon)
    marked, highest = disambiguate(lexicon)
    sets = _list_phones(dictionary, options.position_dependent, highest)
    phones, words = sets.table, number_words(lexicon)
    topology = build_topology(
        [phones[name] for name in flatten(sets.nonsilence)],
        [phones[name] for name in flatten(sets.silence)],
        options.nonsilence_states,
        options.silence_states,
    )
    pause = (sets.optional,) if pause_share else ()
    disambiguated_pause = (*pause, sets.disambiguation[-1]) if pause else ()
    with together(out):
        write_mapping(phones.items(), out / "phones.txt")
        write_mapping(words.items(), out / "words.txt")
        write_lines([oov], out / "oov.txt")
        write_lines([words[oov]], out / "oov.int")
        write_topology(topology, out / "topo")
        _write_phones(sets, options.share_silence_phones, phones, out / "phones")
        _write_boundaries(dict_dir, sets, options.position_dependent, out / "phones")
        _write_words(lexicon, sets.optional, phones, words, out / "phones")
        # L is for alignment, without symbols that mean nothing there; L_disambig for graphs.
        for name, entries, between, backoff in (
            ("L.fst", lexicon, pause, False),
            ("L_disambig.fst", marked, disambiguated_pause, True),
        ):
            fst = build_lexicon_fst(entries, phones, words, between, pause_share, backoff=backoff)
            write_fst(sort_by_output(fst), out / name, "vector")


def _refuse_folder(dict_dir: Path, out: Path) -> None:
    """InputError where a folder is read, or has the tables of a model or a graph."""
    refuse_read(out, [dict_dir])
    refuse_foreign(out, ["HCLG.fst", "HCL.fst", "num_pdfs", "final.mdl"], "gmm lang")
    if not any(is_there(out / name) for name in ("topo", "L.fst", "L_disambig.fst")):
        refuse_foreign(out, ["words.txt", "phones.txt"], "gmm lang")


def _list_phones(dictionary: Dictionary, positions: bool, highest: int) -> PhoneSets:
    """The phones in all their forms; in a word silence has those of other phones."""
    silence, nonsilence = flatten(dictionary.silence), flatten(dictionary.nonsilence)
    suffixes = SUFFIXES if positions else ("",)
    # add_phone_positions: each phone in its forms _B _E _I _S; silence also without a position.
    forms = {phone: [f"{phone}{suffix}" for suffix in suffixes] for phone in nonsilence}
    pauses = dict.fromkeys(("", *suffixes))
    forms |= {phone: [f"{phone}{suffix}" for suffix in pauses] for phone in silence}

    def expand(sets: Sets) -> list[Sequence[str]]:
        return [[form for phone in phones for form in forms[phone]] for phones in sets]

    questions = expand(dictionary.questions)
    if positions:
        # Each line ends in a space, as the script's do.
        by_position = [(nonsilence, suffix) for suffix in suffixes]
        by_position += [(silence, suffix) for suffix in pauses]
        questions += [[*(phone + end for phone in base), ""] for base, end in by_position]
    return PhoneSets(
        expand(dictionary.silence),
        expand(dictionary.nonsilence),
        dictionary.optional,
        [BACKOFF, *(f"#{number}" for number in range(1, highest + 2))],
        questions,
    )


def _write_phones(
    sets: PhoneSets, share_silence: bool, phones: Mapping[str, int], phones_dir: Path
) -> None:
    """Write the lists of phones, in letters and in numbers."""
    for name, lines in sets.describe(share_silence).items():
        write_lines(map(" ".join, lines), phones_dir / f"{name}.txt")
        keywords = 2 if name == "roots" else 0  # words that are no phones
        numbers = [
            [*line[:keywords], *(str(phones[phone]) for phone in line[keywords:] if phone)]
            for line in lines
        ]
        write_lines(map(" ".join, numbers), phones_dir / f"{name}.int")
        if name in AS_OPTION:
            write_lines([":".join(flatten(numbers))], phones_dir / f"{name}.csl")


def _write_boundaries(dict_dir: Path, sets: PhoneSets, positions: bool, phones_dir: Path) -> None:
    """Write the place in a word that each phone has: by its form, or as the dict folder says."""
    source = dict_dir / BOUNDARIES
    if positions:
        phones = [*flatten(sets.silence), *flatten(sets.nonsilence)]
        rows = [[phone, PLACES.get(phone[-2:], "nonword")] for phone in phones]
    elif is_there(source):
        rows = [fields for _, fields in iter_lines(source)]
    else:
        for name in (BOUNDARIES, "word_boundary.int"):
            discard(phones_dir / name)
        return
    table = sets.table
    for phone, *_ in rows:
        if phone not in table:
            raise InputError(f"{source}: the phone {phone} is not one of the lexicon's")
    write_lines(map(" ".join, rows), phones_dir / BOUNDARIES)
    numbers = (" ".join([str(table[phone]), *place]) for phone, *place in rows)
    write_lines(numbers, phones_dir / "word_boundary.int")


def _write_words(
    lexicon: Iterable[Pronunciation],
    optional: str,
    phones: Mapping[str, int],
    words: Mapping[str, int],
    phones_dir: Path,
) -> None:
    """Write the pronunciations of words, in byte order, and the symbols that pass through L."""
    pronunciations = {(entry.word, entry.word, *entry.phones) for entry in lexicon}
    pronunciations.add((EPSILON, EPSILON, optional))
    rows = sorted(pronunciations, key=lambda row: " ".join(row).encode())
    write_lines(map(" ".join, rows), phones_dir / "align_lexicon.txt")
    numbers = ([words[w], words[w], *(phones[p] for p in row)] for w, _, *row in rows)
    write_lines((" ".join(map(str, row)) for row in numbers), phones_dir / "align_lexicon.int")
    write_lines([BACKOFF], phones_dir / "wdisambig.txt")
    write_lines([phones[BACKOFF]], phones_dir / "wdisambig_phones.int")
    write_lines([words[BACKOFF]], phones_dir / "wdisambig_words.int")
