"""Decoding graphs without Kaldi: HCLG from lexicon, language model, tree and transition model.

The steps and their order are those of Kaldi's utils/prepare_lang.sh and utils/mkgraph.sh.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import discard, find_files, replacing
from bayes_asr.decode.graph.hmm import add_self_loops, build_hmm_fst
from bayes_asr.decode.graph.lang import fit_lexicon
from bayes_asr.decode.graph.lexicon import (
    Pronunciation,
    build_lexicon_fst,
    disambiguate,
    number_words,
)
from bayes_asr.decode.graph.ngram import NgramModel, build_grammar_fst
from bayes_asr.decode.graph.symbols import BACKOFF, EPSILON
from bayes_asr.decode.graph.transducers import (
    drop_labels,
    from_kaldifst,
    load_kaldifst,
    sort_arcs,
    sources,
    to_kaldifst,
)
from bayes_asr.kaldi_io.fst import Fst, read_fst, write_fst
from bayes_asr.kaldi_io.mdl import TransitionModel
from bayes_asr.kaldi_io.text import read_symbols, write_lines, write_mapping
from bayes_asr.kaldi_io.tree import Tree

OF_LANG = ("silence", "optional_silence", "disambig", "word_boundary", "align_lexicon")


@dataclass(frozen=True)
class Graph:
    """What a graph directory holds: HCLG and the symbols around it.

    With a `grammar`, which is G, `hclg` is HCL: what is composed with it while it is searched.
    `disambiguation` holds the transition-ids that stood for disambiguation symbols, none of which
    is left in `hclg`; `foreign_words` the words of the language model that the lexicon lacks;
    `lexicon` is empty where a lang folder has it.
    """

    hclg: Fst
    grammar: Fst | None
    words: dict[str, int]
    phones: dict[str, int]
    num_pdfs: int
    disambiguation: list[int]
    foreign_words: set[str]
    lexicon: list[Pronunciation]


def build_graph(
    lexicon: Sequence[Pronunciation],
    language_model: NgramModel,
    phones: Mapping[str, int],
    model: TransitionModel,
    tree: Tree,
    *,
    silence: str | None = None,
    silence_probability: float = 0.0,
    transition_scale: float = 1.0,
    self_loop_scale: float = 0.1,
    apart: bool = False,
) -> Graph:
    """Build the graph of words in `language_model`, said as `lexicon` has them.

    `phones` (phone -> phone-id) is the table of `model`; where it has the variants _B _I _E _S of a
    phone, the lexicon is taken to be without. The phone `silence` may stand at the ends and between
    words with `silence_probability`. `apart` leaves HCL and G uncomposed.
    Raises InputError for phones that the model does not have.
    """
    plain = {phone: number for phone, number in phones.items() if not phone.startswith("#")}
    lexicon = fit_lexicon(lexicon, plain, model)
    marked, most = disambiguate(lexicon)
    symbols = [BACKOFF, *(f"#{number}" for number in range(1, most + 2))]  # the last for silence
    first = max(plain.values()) + 1
    numbered = {**plain, **{symbol: first + i for i, symbol in enumerate(symbols)}}
    words = number_words(lexicon)
    pause = (silence, symbols[-1]) if silence and silence_probability else ()
    spoken = build_lexicon_fst(marked, numbered, words, pause, silence_probability)
    scales = transition_scale, self_loop_scale
    graph = _join_grammar(spoken, language_model, numbered, words, model, tree, *scales, apart)
    return replace(graph, lexicon=[*lexicon])


def build_lang_graph(
    lang: Path,
    language_model: NgramModel,
    model: TransitionModel,
    tree: Tree,
    *,
    transition_scale: float = 1.0,
    self_loop_scale: float = 0.1,
    apart: bool = False,
) -> Graph:
    """Build the graph of words in `language_model`, said as L_disambig.fst of a lang folder has it.

    Its pauses, pronunciations and word positions are those of the folder; `apart` as in
    `build_graph`. InputError where it has
    phones that the model does not have.
    """
    phones, words = read_symbols(lang / "phones.txt"), read_symbols(lang / "words.txt")
    spoken = read_fst(lang / "L_disambig.fst")
    said = {*spoken.ilabel.tolist()} - {0, *model.topology}
    if foreign := sorted({p for p, number in phones.items() if number in said and p[0] != "#"}):
        raise InputError(
            f"{lang / 'phones.txt'}: the model of {len(model.topology)} phones lacks {foreign[0]};"
            " take the lang folder that the model was trained with"
        )
    scales = transition_scale, self_loop_scale
    return _join_grammar(spoken, language_model, phones, words, model, tree, *scales, apart)


def _join_grammar(
    lexicon: Fst,
    language_model: NgramModel,
    phones: dict[str, int],
    words: dict[str, int],
    model: TransitionModel,
    tree: Tree,
    transition_scale: float,
    self_loop_scale: float,
    apart: bool,
) -> Graph:
    hashes = [number for symbol, number in phones.items() if symbol.startswith("#")]
    grammar, foreign = build_grammar_fst(language_model, words, words[BACKOFF])
    known = None if apart else grammar
    scales = transition_scale, self_loop_scale
    hclg, stand_ins = compose_graph(lexicon, known, hashes, model, tree, *scales)
    if hclg.num_states == 0:
        raise InputError("lexicon and language model have no sentence in common")
    rest = grammar if apart else None
    return Graph(hclg, rest, words, phones, model.num_pdfs, stand_ins, foreign, [])


def compose_graph(
    lexicon: Fst,
    grammar: Fst | None,
    disambiguation: Sequence[int],
    model: TransitionModel,
    tree: Tree,
    transition_scale: float = 1.0,
    self_loop_scale: float = 0.1,
) -> tuple[Fst, list[int]]:
    """Return HCLG, and the transition-ids that disambiguation symbols had on the way to it.

    Without grammar it is HCL, which writes #0 wherever a grammar may back off, by any number of
    steps.

    `disambiguation` holds the phone-ids of #0, #1, ... in `lexicon` and `grammar`.
    """
    kaldifst = load_kaldifst()
    if grammar is None:
        lg = to_kaldifst(back_off_once(lexicon, disambiguation), "olabel")
    else:
        lg = kaldifst.compose(to_kaldifst(lexicon, "olabel"), to_kaldifst(grammar, "ilabel"))
    # Sums over words would be their number where no grammar makes them probabilities.
    sums = {"use_log": grammar is not None}
    kaldifst.determinize_star(lg, **sums)
    kaldifst.minimize_encoded(lg)
    clg, windows = kaldifst.compose_context(list(disambiguation), tree.width, tree.center, lg)
    kaldifst.arcsort(clg, "ilabel")
    hmms, stand_ins = build_hmm_fst(windows, model, tree, transition_scale)
    hclg = kaldifst.compose(to_kaldifst(hmms, "olabel"), clg)
    kaldifst.determinize_star(hclg, **sums)
    hclg = to_kaldifst(drop_labels(from_kaldifst(hclg), stand_ins), "ilabel")
    kaldifst.minimize_encoded(hclg)
    return add_self_loops(from_kaldifst(hclg), model, self_loop_scale), stand_ins


def back_off_once(lexicon: Fst, disambiguation: Sequence[int]) -> Fst:
    """L without loops of #0: it is read at most once before a word.

    A state with such a loop gets a twin, to which #0 leads and from which all its other arcs leave
    too. With any number of #0 to come, HCL could not be made deterministic.
    """
    source = sources(lexicon)
    loops = (lexicon.nextstate == source) & np.isin(lexicon.ilabel, disambiguation)
    looping = np.unique(source[loops])
    twin = np.full(lexicon.num_states, -1)
    twin[looping] = lexicon.num_states + np.arange(len(looping))
    copied = (twin[source] >= 0) & ~loops
    return sort_arcs(
        source=np.concatenate([source, twin[source[copied]]]),
        ilabel=np.concatenate([lexicon.ilabel, lexicon.ilabel[copied]]),
        olabel=np.concatenate([lexicon.olabel, lexicon.olabel[copied]]),
        weight=np.concatenate([lexicon.weight, lexicon.weight[copied]]),
        nextstate=np.concatenate(
            [np.where(loops, twin[source], lexicon.nextstate), lexicon.nextstate[copied]]
        ),
        final=np.concatenate([lexicon.final, lexicon.final[looping]]),
        start=lexicon.start,
    )


def write_graph(graph: Graph, out: Path, silence: Sequence[str] = ()) -> None:
    """Write the graph directory `out` as mkgraph.sh does; the graph appears last.

    `silence` lists the silence phones, the optional one first.
    """
    out = Path(out)
    folder = out / "phones"
    _write_symbols(graph, out)
    hashes = [symbol for symbol in graph.phones if symbol.startswith("#")]
    for name, symbols in (
        ("disambig", hashes),
        ("silence", silence),
        ("optional_silence", silence[:1]),
    ):
        numbers = [graph.phones[symbol] for symbol in symbols]
        write_lines(symbols, folder / f"{name}.txt")
        write_lines(numbers, folder / f"{name}.int")
        write_lines([":".join(map(str, numbers))], folder / f"{name}.csl")
    _write_align_lexicon(graph, silence[:1], folder)
    _write_graph_files(graph, out)


def write_lang_graph(graph: Graph, lang: Path, out: Path) -> None:
    """Write the graph directory `out` with the sets of phones of the lang folder."""
    _write_symbols(graph, out)
    for name in OF_LANG:
        for path in find_files(lang / "phones", f"{name}.*"):
            with replacing(out / "phones" / path.name) as temporary:
                shutil.copyfile(path, temporary)
    _write_graph_files(graph, out)


def _write_graph_files(graph: Graph, out: Path) -> None:
    """Write HCLG.fst, or G.fst and HCL.fst; those of the other kind go."""
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


def _write_align_lexicon(graph: Graph, silence: Sequence[str], folder: Path) -> None:
    entries: list[tuple[str, tuple[str, ...]]] = [(EPSILON, (phone,)) for phone in silence]
    entries += [(entry.word, entry.phones) for entry in graph.lexicon]
    write_lines((" ".join((w, w, *phones)) for w, phones in entries), folder / "align_lexicon.txt")
    numbers = ([graph.words[w]] * 2 + [graph.phones[p] for p in phones] for w, phones in entries)
    write_lines((" ".join(map(str, row)) for row in numbers), folder / "align_lexicon.int")
