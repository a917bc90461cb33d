"""Tree and denominator graph of LF-MMI, as by Kaldi's steps/nnet3/chain/build_tree.sh.

The tree is of left biphones on the topology of LF-MMI, at the frame rate of the network's outputs.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.shards import Mapper
from bayes_asr.data.targets.contexts import locate_transitions, split_phones
from bayes_asr.decode.graph.topology import build_chain_topology
from bayes_asr.decode.graph.transducers import PhoneAcceptor, build_fst
from bayes_asr.gmm import jobs
from bayes_asr.gmm.features import Pipeline, find_transforms, has_transforms
from bayes_asr.gmm.files import MODEL, PIPELINE, TREE_FILES
from bayes_asr.gmm.first_model import init_mixtures
from bayes_asr.gmm.questions import cluster_phones, compile_questions, read_phone_sets
from bayes_asr.gmm.randomness import Random
from bayes_asr.gmm.resumable import (
    ALIGNMENTS,
    Aligned,
    Dependencies,
    PhaseRunner,
    StepFolders,
    share_frames,
)
from bayes_asr.gmm.roots import Root, build_stub, read_roots
from bayes_asr.gmm.splitting import TreeOptions, build_tree
from bayes_asr.gmm.subsampling import Subsampler
from bayes_asr.gmm.tree_statistics import Context, sum_tree_stats
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.fst import read_fst, write_fst
from bayes_asr.kaldi_io.gmm import write_gmm
from bayes_asr.kaldi_io.initial_mdl import build_transition_model
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.jobs import find_alignments
from bayes_asr.kaldi_io.mdl import read_topology, read_transition_model
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.text import write_lines
from bayes_asr.kaldi_io.transition_model import Topology, TransitionModel, pdf_class_counts
from bayes_asr.kaldi_io.tree import read_tree, write_tree
from bayes_asr.tasks.chain.denominator_fst import build_denominator_fst
from bayes_asr.tasks.chain.phone_lm import PhoneLmOptions, estimate_phone_lm
from bayes_asr.tasks.chain.targets import FACTOR

LM, GRAPH = "phone_lm.fst", "den.fst"
WIDTH, CENTER = 2, 1


@dataclass(frozen=True)
class ChainOptions:
    """Options of the tree and the phone language model; names and defaults are Kaldi's."""

    leaves: int = 3500
    frame_subsampling_factor: int = 3
    phone_lm: PhoneLmOptions = field(
        default_factory=partial(PhoneLmOptions, num_extra_lm_states=2000)
    )


@dataclass(frozen=True)
class ChainTreeSummary:
    """Sizes of the tree and of the denominator graph."""

    pdfs: int
    states: int
    arcs: int


class ChainTree(PhaseRunner):
    """Tree, model, alignments and denominator graph of LF-MMI, in the folder `out`.

    Writes final.mdl, tree and ali.1.gz as build_tree.sh does, with one Gaussian a pdf, phone_lm.fst
    as chain-est-phone-lm, and den.fst as chain-make-den-fst.
    """

    results = (MODEL, "tree", ALIGNMENTS, LM, GRAPH)

    def __init__(
        self,
        options: ChainOptions,
        folders: StepFolders,
        mapper: Mapper,
        *,
        max_skipped: float,
        no_transforms: bool = False,
        open_pipe: OpenPipe | None = None,
    ) -> None:
        """Begin, or go on with what is there.

        The source has the alignments to begin with, and the model that made them.
        no_transforms: the tree is grown of features with deltas, as if this model had neither
        splicing nor transforms. InputError for inputs that do not fit, and where `out` holds a
        model of another program.
        """
        self.options, self.no_transforms = options, no_transforms
        alignments = folders.initial
        required = [folders.lang / name for name in TREE_FILES]
        required += [alignments / MODEL, *find_alignments(alignments)]
        optional = [alignments / name for name in PIPELINE]
        optional += find_transforms(alignments) if has_transforms(alignments) else []
        # An option that is off is left out, so that trees of versions without it are still current.
        made_of = {**asdict(options), **({"no_transforms": True} if no_transforms else {})}
        super().__init__(
            folders,
            mapper,
            Dependencies(made_of, required, optional),
            max_skipped=max_skipped,
            open_pipe=open_pipe,
        )

    @property
    def model(self) -> Path:
        """The model, which is final from the beginning."""
        return self.out / MODEL

    @cached_property
    def topology(self) -> Topology:
        """The topology of LF-MMI, for the phones of the lang folder."""
        return build_chain_topology([*read_topology(self.lang / "topo")])

    @cached_property
    def old(self) -> TransitionModel:
        """The transition model of the source alignments."""
        return read_transition_model(self.source / MODEL)

    def run(self) -> ChainTreeSummary:
        """Do the phases that are not complete, and return the summary of all."""
        phases = {"tree": self.grow_tree, "convert": self.convert, "graph": self.make_graph}
        self.run_phases(((name, 0) for name in phases), phases)
        pdfs, graph = read_transition_model(self.model).num_pdfs, read_fst(self.out / GRAPH)
        return ChainTreeSummary(pdfs, graph.num_states, graph.num_arcs)

    @cached_property
    def simple(self) -> Subsampler:
        """The converter of the source alignments to pdfs without context."""
        # The statistics of a tree need phones and pdf-classes alone, so that any tree will do.
        alone = [Root((phone,), shared=False) for phone in self.topology]
        stub = Tree(WIDTH, CENTER, build_stub(alone, pdf_class_counts(self.topology), CENTER))
        return self.convert_to(derive_pairs(stub, self.topology), stub)

    def iter_convertible(self) -> Iterator[Aligned]:
        """The source alignments, but those with more phones than subsampled frames."""
        aligned = self.iter_aligned(self.source, self.source / MODEL)
        results = ([(utt, self._check(utt, tids))] for utt, tids in aligned)
        return self.drop_failures(
            results, f"no alignment in {self.source} of {self.data} at this rate"
        )

    def _check(self, utt: str, tids: np.ndarray) -> np.ndarray | InputError:
        """An alignment, or why it cannot be converted."""
        try:
            self.simple.convert_alignment(utt, tids)
        except InputError as error:
            return error
        return tids

    def grow_tree(self, _: int) -> None:
        """Grow the tree of left biphones, and make a model of one Gaussian for each leaf."""
        # The phases of GmmTrainer.grow_tree, on every third frame and for left biphones.
        context = Context(WIDTH, CENTER, self.read_phones("context_indep"))
        inputs = self.job_inputs(self.source, self.source / MODEL)
        if self.no_transforms:
            inputs = replace(inputs, pipeline=Pipeline())
        events = partial(jobs.sum_chain_tree, self.simple, context, inputs)
        statistics = sum_tree_stats(self.mapper(events, share_frames(self.iter_convertible())))
        sets = read_phone_sets(self.lang / "phones/sets.int")
        phone_sets = cluster_phones(statistics, sets, Random())
        phone_sets += read_phone_sets(self.lang / "phones/extra_questions.int")
        tree = build_tree(
            statistics,
            compile_questions(phone_sets, self.topology, context.width),
            read_roots(self.lang / "phones/roots.int"),
            self.topology,
            TreeOptions(self.options.leaves),
        )
        mixtures = init_mixtures(tree, statistics)[0]
        with self.commit_phase():
            write_tree(tree, self.out / "tree")
            write_gmm(derive_pairs(tree, self.topology), mixtures, self.model)
            self.copy(self.lang / "phones.txt")

    def convert(self, _: int) -> None:
        """Convert the source alignments to the transition-ids of the new tree (convert-ali)."""
        converter = self.convert_to(read_transition_model(self.model), read_tree(self.out / "tree"))
        aligned = self.iter_convertible()
        converted = ((utt, converter.convert_alignment(utt, tids)) for utt, tids in aligned)
        with self.commit_phase():
            write_int_vectors(converted, self.out / ALIGNMENTS)
            write_lines([1], self.out / "num_jobs")
            write_lines([self.options.frame_subsampling_factor], self.out / FACTOR)

    def make_graph(self, _: int) -> None:
        """Estimate the phone language model, and make the denominator graph of it."""
        index = locate_transitions(self.old)
        phones = (
            split_phones(*utterance, self.old, index).phones.tolist()
            for utterance in self.iter_convertible()
        )
        phone_lm = estimate_phone_lm(phones, self.options.phone_lm)
        new, tree = read_transition_model(self.model), read_tree(self.out / "tree")
        graph = build_denominator_fst(phone_lm, new, tree)
        with self.commit_phase():
            write_fst(accept_phones(phone_lm), self.out / LM, "vector")
            write_fst(graph, self.out / GRAPH, "vector")

    def convert_to(self, model: TransitionModel, tree: Tree) -> Subsampler:
        """The converter of the source alignments to a model and its tree."""
        return Subsampler(self.old, model, tree, self.options.frame_subsampling_factor)


def derive_pairs(tree: Tree, topology: Topology) -> TransitionModel:
    """Return the transitions of phones with one state, whose self-loop has a pdf-class of its own.

    tree: of left biphones. Its pairs of pdfs are those of all phones before, as in Kaldi's
    ContextDependency::EnumeratePairs.
    """
    windows = product((0, *topology), topology)
    return build_transition_model(
        topology, ((window[1], 0, tree.pdf(window, 0), tree.pdf(window, 1)) for window in windows)
    )


def accept_phones(phone_lm: PhoneAcceptor) -> Fst:
    """The acceptor of a phone language model."""
    arcs = [(source, phone, phone, cost, target) for source, phone, cost, target in phone_lm.arcs]
    return build_fst(arcs, phone_lm.final)
