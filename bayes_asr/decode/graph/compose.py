"""Composition of H, C, L and G by kaldifst, with the steps and the order of utils/mkgraph.sh."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.hmm import add_self_loops, build_hmm_fst
from bayes_asr.decode.graph.transducers import drop_labels, sort_arcs, sources
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.fst import read_fst, write_fst
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.transition_model import TransitionModel

# states of what is made deterministic: so many, and so many for each that it had
MOST_STATES, MOST_GROWTH = 10_000, 10

NOTHING_IN_COMMON = (
    "lexicon and language model have no sentence in common; spell the words of both alike, also in"
    " upper and lower case"
)


def compose_graph(
    lexicon: Fst,
    grammar: Fst | None,
    disambiguation: Sequence[int],
    model: TransitionModel,
    tree: Tree,
    transition_scale: float = 1.0,
    self_loop_scale: float = 0.1,
) -> tuple[Fst, list[int]]:
    """Return HCLG, and the transition-ids that stood for disambiguation symbols in Ha.

    H o min(det(C o min(det(L o G)))) of Mohri, Pereira & Riley (2002), as in Kaldi's mkgraph.sh.
    Without grammar it is HCL, which writes #0 wherever a grammar may back off, by any number of
    steps. `disambiguation` holds the phone-ids of #0, #1, ... in `lexicon` and `grammar`.
    """
    kaldifst = load_kaldifst()
    if grammar is None:
        lg = to_kaldifst(back_off_once(lexicon, disambiguation), "olabel")
    else:
        lg = kaldifst.compose(to_kaldifst(lexicon, "olabel"), to_kaldifst(grammar, "ilabel"))
    # In the log semiring, which keeps the graph stochastic. Without a grammar the words have no
    # probabilities, and a sum over them would be their number.
    sums = {"use_log": grammar is not None}
    _determinize(lg, "L composed with G", **sums)
    kaldifst.minimize_encoded(lg)
    clg, windows = kaldifst.compose_context(list(disambiguation), tree.width, tree.center, lg)
    if not any(label > 0 for window in windows for label in window):
        raise InputError(NOTHING_IN_COMMON)
    kaldifst.arcsort(clg, "ilabel")
    hmms, stand_ins = build_hmm_fst(windows, model, tree, transition_scale)
    hclg = kaldifst.compose(to_kaldifst(hmms, "olabel"), clg)
    # Disambiguation symbols keep HCLG determinizable; they become epsilons before it is minimized.
    _determinize(hclg, "H composed with CLG", **sums)
    hclg = to_kaldifst(drop_labels(from_kaldifst(hclg), stand_ins), "ilabel")
    kaldifst.minimize_encoded(hclg)
    # Self-loops come last: with them the graph would be larger in every step before.
    return add_self_loops(from_kaldifst(hclg), model, self_loop_scale), stand_ins


def _determinize(fst: Any, name: str, *, use_log: bool) -> None:
    """Determinize in place; InputError where that is not possible, or would not end."""
    most = MOST_STATES + MOST_GROWTH * fst.num_states
    try:
        is_stopped = load_kaldifst().determinize_star(fst, max_states=most, use_log=use_log)
        fault = f"would have over {most} states" if is_stopped else ""
    except RuntimeError as error:
        # The last line of several says why; those before are places in the source.
        fault = str(error).strip().rpartition("[E] ")[2].partition("\n")[0]
    if fault:
        raise InputError(
            f"{name} cannot be made deterministic: {fault}; take an L_disambig.fst of"
            " prepare_lang.sh, in which words of equal phones end in different symbols #1, #2, ..."
        )


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


def load_kaldifst() -> Any:
    """The module kaldifst, or InputError saying how to get it."""
    try:
        import kaldifst
    except ImportError as error:
        raise InputError(
            f"building a graph needs kaldifst: pip install kaldifst ({error})"
        ) from error
    return kaldifst


def to_kaldifst(fst: Fst, sort: str) -> Any:
    """The same FST as a kaldifst object, its arcs sorted by "ilabel" or "olabel"."""
    kaldifst = load_kaldifst()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "fst"
        write_fst(fst, path, "vector")
        converted = kaldifst.StdVectorFst.read(str(path))
    kaldifst.arcsort(converted, sort)
    return converted


def from_kaldifst(fst: Any) -> Fst:
    """The arrays of a kaldifst object."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "fst"
        fst.write(str(path))
        return read_fst(path)
