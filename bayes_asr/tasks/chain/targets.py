"""Targets of lattice-free MMI: tree and denominator graph, and numerators of alignments."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, read_bytes, read_text
from bayes_asr.base.log import LOGGER
from bayes_asr.base.progress import follow
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.index import Index, content_hash, name_of
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.labels_index import index_vectors
from bayes_asr.data.directories import locate
from bayes_asr.data.features.skipped import report_skipped
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.data.targets.contexts import locate_transitions, split_phones
from bayes_asr.data.targets.target import Labels, Target
from bayes_asr.decode.lattices import compiled as lattice_sums
from bayes_asr.decode.lattices.aligned import AlignedLattice
from bayes_asr.kaldi_io.context_dependency import Tree, iter_leaves
from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.jobs import find_alignments
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.symbols import check_same_phones
from bayes_asr.kaldi_io.transition_model import TransitionModel
from bayes_asr.kaldi_io.tree import read_tree
from bayes_asr.tasks.chain import compiled as chain_sums
from bayes_asr.tasks.chain.denominator_graph import DenominatorGraph
from bayes_asr.tasks.chain.numerator import Numerator, NumeratorBuilder, Tolerance
from bayes_asr.tasks.chain.task import CHAIN, XENT

FILES = ("final.mdl", "tree", "den.fst")
SAME_LANG = "make the tree of the same lang folder"
FACTOR = "frame_subsampling_factor"  # the file is Kaldi's, too, but not in its trees


@dataclass
class ChainFolder(Labels):
    """Transitions, tree and denominator graph of a folder, among the labels of a set.

    digest: a hash of the three files.
    """

    directory: Path
    model: TransitionModel
    tree: Tree
    graph: DenominatorGraph
    digest: str
    lengths: Mapping[str, int] = field(default_factory=dict)


def read_chain(config: Config) -> ChainFolder:
    """Read the folder `data.chain`; InputError where its files are not there or disagree."""
    directory = locate(config.data.chain, config.data, CHAIN)
    model_path, tree_path, graph_path = paths = [directory / name for name in FILES]
    for path in paths:
        if not is_there(path):
            raise InputError(f"{path}: not there; make it by bayes-asr gmm chain-tree")
    model, tree, fst = read_transition_model(model_path), read_tree(tree_path), read_fst(graph_path)
    # Leaves of a tree are numbered from 0 without gaps.
    if (pdfs := 1 + max(iter_leaves(tree.root))) != model.num_pdfs:
        raise InputError(
            f"{tree_path}: has {pdfs} pdfs, but {model_path} {model.num_pdfs}; take both of one"
            " folder"
        )
    try:
        graph = DenominatorGraph.of_fst(fst, model.num_pdfs)
    except InputError as error:
        raise InputError(f"{graph_path}: {error}") from None
    _check_factor(directory / FACTOR, config.train.chain.frame_subsampling_factor)
    digest = content_hash(map(read_bytes, paths))
    return ChainFolder(directory, model, tree, graph, digest)


def _check_factor(path: Path, factor: int) -> None:
    """InputError where a tree says that it was grown at another rate of frames."""
    if is_there(path) and (grown := read_text(path).strip()) != str(factor):
        raise InputError(
            f"{path}: the tree is of one of {grown[:40]} frames, but train.chain.{FACTOR} is"
            f" {factor}; make a tree by bayes-asr gmm chain-tree --{FACTOR.replace('_', '-')}"
            f" {factor}, or set that key to {grown[:40]}"
        )


class ChainSupervision:
    """Supervision of a set by its alignments: phones, numerators and allowed pdfs."""

    def __init__(self, alignments: Alignments, chain: ChainFolder, tolerance: Tolerance) -> None:
        """InputError where alignments have other phones than the model."""
        self.alignments, self.chain, self.tolerance = alignments, chain, tolerance
        self._places = locate_transitions(alignments.model)
        # Index 0 of a transition model stands for no transition.
        lacking = np.setdiff1d(alignments.model.phone[1:], chain.model.phone[1:])
        if len(lacking):
            raise InputError(
                f"{alignments.directory}: has phone {lacking[0]}, which the model in"
                f" {chain.directory} lacks; {SAME_LANG}"
            )
        for part in alignments.parts:
            check_same_phones(chain.directory, part.directory, SAME_LANG)
        # A pdf of the tree may be in no arc: training has not seen its phones in that context.
        self._in_graph = np.isin(np.arange(chain.model.num_pdfs), chain.graph.pdf)

    def split(self, utt: str) -> tuple[list[int], list[int]]:
        """Phones of an utterance, and the duration of each in frames of the alignment."""
        tids = self.alignments.transition_ids(utt)
        segments = split_phones(utt, tids, self.alignments.model, self._places)
        return segments.phones.tolist(), np.bincount(segments.of_frame).tolist()

    def allowed_pdfs(self, utt: str) -> np.ndarray:
        """The pdfs that an utterance may have in each output frame, bool [T, P].

        InputError where the graph has none of them in a frame.
        """
        allowed = self.tolerance.allowed_pdfs(*self.split(utt), self.chain.model) & self._in_graph
        if not allowed.any(1).all():
            frame = int(np.argmin(allowed.any(1)))
            raise InputError(f"the graph has none of its phones in output frame {frame}")
        return allowed

    def head_targets(self, read_numerator: Callable[[str], Numerator]) -> dict[str, Target]:
        """Targets of both heads, which are the same numerators."""
        target = Target(read_numerator, self.chain.model.num_pdfs, per="value")
        return {"pdfs": target, XENT: target}

    def iter_numerators(self, utterances: Iterable[str]) -> Iterator[tuple[str, np.ndarray]]:
        """Utterances and their numerators, packed; those that have none are named."""
        chain = self.chain
        numerators = NumeratorBuilder(chain.model, chain.tree, chain.graph, self.tolerance)
        for utt in follow(list(utterances), "numerators"):
            try:
                yield utt, numerators.build(*self.split(utt)).pack()
            except InputError as error:
                LOGGER.warning("%s: no numerator: %s", utt, error)

    def select_allowed(self, utterances: Mapping[str, int]) -> dict[str, int]:
        """Lengths of the utterances whose pdfs the graph has; the others are named."""
        lengths = {}
        for utt, frames in utterances.items():
            try:
                self.allowed_pdfs(utt)
                lengths[utt] = frames
            except InputError as error:
                LOGGER.warning("%s: no numerator: %s", utt, error)
        return lengths


def open_supervision(config: Config, data: LabelledSet) -> ChainSupervision:
    """Supervision of a set; InputError where tree, graph and alignments do not go together."""
    options = config.train.chain
    tolerance = Tolerance(
        options.left_tolerance, options.right_tolerance, options.frame_subsampling_factor
    )
    return ChainSupervision(cast(Alignments, data.first_labels), read_chain(config), tolerance)


def add_numerators(config: Config, name: str, data: LabelledSet, index: Index) -> LabelledSet:
    """Return the set `name` (train or dev) with numerators of its alignments as its only targets.

    Those of dev are the pdfs that each frame may have, since the phone language model has only the
    phone sequences of training. Utterances without numerator are reported, and skipped if they are
    few. InputError as of `open_supervision`.
    """
    # Without its compiled twin each sum still works, but a warning must tell of the cost.
    for library in (lattice_sums.LIBRARY, chain_sums.LIBRARY):
        if not library.usable:
            LOGGER.warning("%s: sums over paths in Python, many times slower", library.fault)
    supervision = open_supervision(config, data)
    read_numerator: Callable[[str], Numerator] = supervision.allowed_pdfs
    available: Mapping[str, Any]
    if name == "train":
        # Numerators cost much to build, so the index keeps them from run to run.
        vectors = _index_numerators(supervision, data.lengths, index)
        read_numerator = partial(_unpack, vectors)
        available = getattr(vectors, "lengths", vectors)
    else:
        available = supervision.select_allowed(data.lengths)
    selected, missing = data.select(available)
    reason = f"{name}: no numerator by {supervision.chain.directory}"
    report_skipped(reason, missing, len(data.lengths), config.data.max_skipped)
    if not selected.lengths:
        raise InputError(f"{reason} for any utterance; make tree and graph of these alignments")
    further = {**data.further_labels, CHAIN: supervision.chain}
    targets = supervision.head_targets(read_numerator)
    return replace(selected, further_labels=further, targets=targets)


def declare_targets(config: Config, data: LabelledSet) -> LabelledSet:
    """Return a set with the targets of lattice-free MMI, none of which is built or checked.

    InputError as of `open_supervision`.
    """
    supervision = open_supervision(config, data)
    return replace(data, targets=supervision.head_targets(supervision.allowed_pdfs))


def _index_numerators(
    supervision: ChainSupervision, utterances: Iterable[str], index: Index
) -> Mapping[str, np.ndarray]:
    """The packed numerators of the utterances that have one, in the index."""
    directories = [part.directory for part in supervision.alignments.parts]
    # Numerators change with the alignments and their models, with the chain folder, and with the
    # tolerance and the choice of utterances, which are in the name.
    files = [path for directory in directories for path in find_alignments(directory)]
    files += [directory / FILES[0] for directory in directories]
    files += [supervision.chain.directory / name for name in FILES]
    kind = f"numerators-{name_of(repr(supervision.tolerance), *directories, *utterances)}"
    make = partial(supervision.iter_numerators, utterances)
    vectors, _ = index_vectors(kind, supervision.chain.directory, files, make, index)
    return vectors


def _unpack(vectors: Mapping[str, np.ndarray], utt: str) -> AlignedLattice:
    return AlignedLattice.unpack(vectors[utt])
