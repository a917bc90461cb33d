"""Decoding graphs without Kaldi: HCLG from lexicon, language model, tree and transition model.

The steps and their order are those of Kaldi's utils/prepare_lang.sh and utils/mkgraph.sh.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import discard, find_files, is_there, read_text, replacing, together
from bayes_asr.decode.graph.compose import NOTHING_IN_COMMON, compose_graph
from bayes_asr.decode.graph.lang import LEXICON_FST, OOV, read_lexicon_fst
from bayes_asr.decode.graph.lexicon import (
    Lang,
    LexiconFst,
    Pronunciation,
    build_lexicon_fst,
    disambiguate,
    fit_lexicon,
    number_words,
)
from bayes_asr.decode.graph.ngram import NgramModel, build_grammar_fst
from bayes_asr.decode.graph.transducers import BACKOFF, EPSILON, sort_by_output
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.fst import write_fst
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import write_lines, write_mapping
from bayes_asr.kaldi_io.transition_model import TransitionModel

OF_PHONES = ("silence", "optional_silence", "disambig", "word_boundary", "align_lexicon")
OF_LANG = (*(f"phones/{name}.*" for name in OF_PHONES), OOV, "oov.int", LEXICON_FST)


@dataclass(frozen=True)
class GraphOptions:
    """Options of Kaldi's mkgraph.sh; `on_the_fly` leaves HCL and G uncomposed, for the search."""

    transition_scale: float = 1.0
    self_loop_scale: float = 0.1
    on_the_fly: bool = False


@dataclass(frozen=True)
class Graph:
    """The contents of a graph directory: HCLG and the symbols around it.

    With a `grammar`, which is G, `hclg` is HCL: what is composed with it while it is searched.
    `disambiguation` holds the transition-ids that stood for disambiguation symbols, none of which
    is left in `hclg`; `foreign_words` the words of the language model that the lexicon lacks;
    `lexicon` is empty where a lang folder has it, else `silence_probability` is of its pauses.
    """

    hclg: Fst
    grammar: Fst | None
    words: dict[str, int]
    phones: dict[str, int]
    num_pdfs: int
    disambiguation: list[int]
    foreign_words: set[str]
    lexicon: list[Pronunciation]
    silence_probability: float = 0.0


def build_graph(
    lang: Lang,
    language_model: NgramModel,
    phones: Mapping[str, int],
    model: TransitionModel,
    tree: Tree,
    options: GraphOptions = GraphOptions(),
) -> Graph:
    """Build the graph of words in `language_model`, pronounced as the lexicon of `lang` has them.

    `phones` (phone -> phone-id) is the table of `model`; where it has the variants _B _I _E _S of a
    phone, the lexicon is taken to be without. The silence of `lang` may stand at the ends and
    between words.
    Raises InputError for phones that the model does not have.
    """
    # The phones of the model, without #0, #1, ... of another lexicon.
    phone_ids = {phone: number for phone, number in phones.items() if not phone.startswith("#")}
    lexicon = fit_lexicon(lang.lexicon, phone_ids, model)
    marked, most = disambiguate(lexicon)
    symbols = [BACKOFF, *(f"#{number}" for number in range(1, most + 2))]  # the last for silence
    first_symbol = max(phone_ids.values()) + 1
    numbered = phone_ids | {s: n for n, s in enumerate(symbols, first_symbol)}
    words = number_words(lexicon)
    pause = (lang.silence, symbols[-1]) if lang.silence and lang.silence_probability else ()
    fst = build_lexicon_fst(marked, numbered, words, pause, lang.silence_probability)
    disambiguated = LexiconFst(fst, numbered, words)
    graph = _join_grammar(disambiguated, language_model, model, tree, options)
    share = lang.silence_probability if pause else 0.0
    return replace(graph, lexicon=[*lexicon], silence_probability=share)


def build_lang_graph(
    lang: Path,
    language_model: NgramModel,
    model: TransitionModel,
    tree: Tree,
    options: GraphOptions = GraphOptions(),
) -> Graph:
    """Build the graph of words in `language_model`, pronounced as a lang folder's L_disambig.fst.

    Its pauses, pronunciations and word positions are those of the folder. InputError where it has
    phones that the model does not have.
    """
    phones, words = (read_symbols(lang / name) for name in ("phones.txt", "words.txt"))
    if BACKOFF not in words:
        raise InputError(
            f"{lang / 'words.txt'}: lacks {BACKOFF}, which stands for backing off; take the"
            " words.txt that prepare_lang.sh or bayes-asr graph has written"
        )
    fst = read_lexicon_fst(lang / "L_disambig.fst", words.values())
    lexicon = LexiconFst(fst, phones, words)
    # Input labels that are no phones of the model are disambiguation symbols, or foreign.
    labels = {*lexicon.fst.ilabel.tolist()} - {0, *model.topology}
    foreign = {p for p, number in lexicon.phones.items() if number in labels and p[0] != "#"}
    if foreign:
        raise InputError(
            f"{lang / 'phones.txt'}: the model of {len(model.topology)} phones lacks"
            f" {min(foreign)}; take the lang folder that the model was trained with"
        )
    return _join_grammar(lexicon, language_model, model, tree, options)


def _join_grammar(
    lexicon: LexiconFst,
    language_model: NgramModel,
    model: TransitionModel,
    tree: Tree,
    options: GraphOptions,
) -> Graph:
    phones, words = lexicon.phones, lexicon.words
    hashes = [number for symbol, number in phones.items() if symbol.startswith("#")]
    grammar, foreign = build_grammar_fst(language_model, words, words[BACKOFF])
    composed, separate = (None, grammar) if options.on_the_fly else (grammar, None)
    scales = options.transition_scale, options.self_loop_scale
    hclg, stand_ins = compose_graph(lexicon.fst, composed, hashes, model, tree, *scales)
    if hclg.num_states == 0:
        raise InputError(NOTHING_IN_COMMON)
    return Graph(hclg, separate, words, phones, model.num_pdfs, stand_ins, foreign, [])


def write_graph(graph: Graph, out: Path, silence: Sequence[str] = ()) -> None:
    """Write the graph directory `out` as mkgraph.sh does, and L.fst; what an earlier graph has
    besides goes.

    `silence` lists the silence phones, the optional one first.
    """
    out = Path(out)
    phones_dir = out / "phones"
    hashes = [symbol for symbol in graph.phones if symbol.startswith("#")]
    with together(out):
        _discard_former(graph, out)
        _write_symbols(graph, out)
        for name, symbols in (
            ("disambig", hashes),
            ("silence", silence),
            ("optional_silence", silence[:1]),
        ):
            numbers = [graph.phones[symbol] for symbol in symbols]
            write_lines(symbols, phones_dir / f"{name}.txt")
            write_lines(numbers, phones_dir / f"{name}.int")
            write_lines([":".join(map(str, numbers))], phones_dir / f"{name}.csl")
        _write_align_lexicon(graph, silence[:1], phones_dir)
        _write_lexicon_fst(graph, silence[:1], out)
        _write_graph_files(graph, out)


def write_lang_graph(graph: Graph, lang: Path, out: Path) -> None:
    """Write the graph directory `out` with the sets of phones, oov.txt and L.fst of the folder;
    what an earlier graph has besides goes.
    """
    with together(out):
        _discard_former(graph, out)
        _write_symbols(graph, out)
        for path in _find_lang_files(lang):
            with replacing(out / path.relative_to(lang)) as temporary:
                shutil.copyfile(path, temporary)
        _write_graph_files(graph, out)


def _find_lang_files(directory: Path) -> list[Path]:
    """The files of a lang folder that a graph has, in either."""
    paths = [directory / pattern for pattern in OF_LANG]
    return [file for path in paths for file in find_files(path.parent, path.name)]


def _discard_former(graph: Graph, out: Path) -> None:
    """Discard what another lang folder or lexicon has left."""
    # A word for unknown ones may have been named by hand.
    by_hand = is_there(out / OOV) and read_text(out / OOV).strip() in graph.words
    for path in _find_lang_files(out):
        if not (by_hand and path.stem == Path(OOV).stem):
            discard(path)


def _write_graph_files(graph: Graph, out: Path) -> None:
    """Write HCLG.fst, or G.fst and HCL.fst; those of the other kind go."""
    # A folder with both would be two graphs.
    stale = ("HCL.fst", "G.fst") if graph.grammar is None else ("HCLG.fst",)
    for name in stale:
        discard(out / name)
    if graph.grammar is not None:
        write_fst(graph.grammar, out / "G.fst", "vector")
    write_fst(graph.hclg, out / ("HCLG.fst" if graph.grammar is None else "HCL.fst"))


def _write_symbols(graph: Graph, out: Path) -> None:
    write_mapping(graph.words.items(), out / "words.txt")
    write_mapping(graph.phones.items(), out / "phones.txt")
    write_lines([graph.num_pdfs], out / "num_pdfs")
    write_lines(graph.disambiguation, out / "disambig_tid.int")


def _write_lexicon_fst(graph: Graph, silence: Sequence[str], out: Path) -> None:
    """Write L.fst, by which transcripts are aligned: it has the probabilities of the lexicon."""
    share = graph.silence_probability
    tables, pause = (graph.phones, graph.words), silence if share else ()
    fst = build_lexicon_fst(graph.lexicon, *tables, pause, share, backoff=False)
    write_fst(sort_by_output(fst), out / LEXICON_FST, "vector")


def _write_align_lexicon(graph: Graph, silence: Sequence[str], phones_dir: Path) -> None:
    entries: list[tuple[str, tuple[str, ...]]] = [(EPSILON, (phone,)) for phone in silence]
    entries += [(entry.word, entry.phones) for entry in graph.lexicon]
    lines = (" ".join((w, w, *phones)) for w, phones in entries)
    write_lines(lines, phones_dir / "align_lexicon.txt")
    numbers = ([graph.words[w]] * 2 + [graph.phones[p] for p in phones] for w, phones in entries)
    write_lines((" ".join(map(str, row)) for row in numbers), phones_dir / "align_lexicon.int")
