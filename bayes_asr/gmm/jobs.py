"""Jobs: the computations on a share of the data, in this process or in another.

A job is a module-level function of its inputs, the name of a share and its items, so that it can be
pickled. `inputs` names files; each process reads them once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.safe_pickle import loadable
from bayes_asr.data.targets.target import advise_lengths
from bayes_asr.decode.align.best_path import Alignment, AlignOptions
from bayes_asr.decode.search.utterance import choose_engine
from bayes_asr.gmm.alignment import Aligner, align_all, align_equal_compiled, boost_silence
from bayes_asr.gmm.features import (
    JobInputs,
    Pipeline,
    SpeakerFeatures,
    has_transforms,
    read_pipeline,
    read_transforms,
)
from bayes_asr.gmm.fmllr import adapt_speaker
from bayes_asr.gmm.gaussian_sums import Statistics, accumulate
from bayes_asr.gmm.graphs import GraphCompiler, read_compiler
from bayes_asr.gmm.lda import LdaStatistics
from bayes_asr.gmm.mllt import MlltStatistics, accumulate_mllt
from bayes_asr.gmm.occupation import PRUNING, PdfWeights
from bayes_asr.gmm.randomness import Random
from bayes_asr.gmm.subsampling import Subsampler
from bayes_asr.gmm.transitions import count_transitions
from bayes_asr.gmm.tree_statistics import Context, TreeStatistics
from bayes_asr.gmm.tree_statistics import accumulate as accumulate_tree
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.gmm import read_gmm
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.transition_model import TransitionModel
from bayes_asr.kaldi_io.tree import read_tree

Aligned = Sequence[tuple[str, np.ndarray]]  # utterances and their transition-ids int32 [T]
Graphs = Sequence[tuple[str, Fst]]
loadable(Fst)  # `compile_graphs` returns them


class LoadedInputs:
    """The contents of `JobInputs`, each part read at its first use."""

    def __init__(self, inputs: JobInputs) -> None:
        self.inputs = inputs

    @cached_property
    def features(self) -> SpeakerFeatures:
        """The features that the model reads, adapted to speakers where there are transforms."""
        if self.inputs.pipeline:
            return self.open_features(self.inputs.pipeline)
        directory = self.inputs.directory
        transforms = read_transforms(directory) if has_transforms(directory) else None
        return self.open_features(replace(read_pipeline(directory), transforms=transforms))

    @cached_property
    def unadapted(self) -> SpeakerFeatures:
        """The features without the transforms of speakers."""
        return self.open_features(read_pipeline(self.inputs.directory))

    def open_features(self, pipeline: Pipeline) -> SpeakerFeatures:
        """The features that a pipeline makes of the data."""
        pipes = self.inputs.open_pipe
        data = read_data_dir(self.inputs.data, open_pipe=pipes)
        return SpeakerFeatures(data, pipeline, open_pipe=pipes)

    @cached_property
    def transitions(self) -> TransitionModel:
        """The transition model."""
        return read_transition_model(self.inputs.model)

    @cached_property
    def mixtures(self) -> Mixtures:
        """The Gaussians; InputError where they are not of these features."""
        mixtures = read_gmm(self.inputs.model)[1]
        self.features.check_dimension(mixtures.dim, self.inputs.model)
        return mixtures

    def iter_frames(self, aligned: Aligned) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Utterances, their transition-ids [T] and features [T, D]."""
        for utt, tids in aligned:
            x = self.features[utt]
            if len(x) != len(tids):
                advice = advise_lengths(frames=len(x), labels=len(tids))
                raise InputError(
                    f"{self.inputs.data}: {utt} has {len(x)} frames of features, but its"
                    f" alignment has {len(tids)}; {advice}"
                )
            yield utt, tids, x

    def speech_pdfs(self, tids: np.ndarray) -> PdfWeights:
        """The pdfs of frames that are not silence."""
        return PdfWeights.from_alignment(self.transitions, tids, self.inputs.silence)


@lru_cache(maxsize=1)
def load_inputs(inputs: JobInputs) -> LoadedInputs:
    """Load inputs, once in each process: a worker has many shares of the same pass in turn."""
    return LoadedInputs(inputs)


def sum_gmm(inputs: JobInputs, share: str, aligned: Aligned) -> tuple[Statistics, np.ndarray]:
    """Statistics of the Gaussians, and counts of the transition-ids (gmm-acc-stats-ali)."""
    loaded = load_inputs(inputs)
    counts = np.zeros(loaded.transitions.num_transition_ids + 1)

    # Counts are summed while the frames pass, since the features are read only once.
    def read() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for _, tids, x in loaded.iter_frames(aligned):
            counts[:] += count_transitions(loaded.transitions, tids)
            yield x, loaded.transitions.pdf[tids]

    return accumulate(loaded.mixtures, read()), counts


def sum_alimdl(inputs: JobInputs, share: str, aligned: Aligned) -> tuple[Statistics, np.ndarray]:
    """As `sum_gmm`, with posteriors by adapted features and sums of the unadapted ones.

    As Kaldi's gmm-acc-stats-twofeats.
    """
    loaded = load_inputs(inputs)
    total = Statistics.zeros(loaded.mixtures)
    counts = np.zeros(loaded.transitions.num_transition_ids + 1)
    for utt, tids, x in loaded.iter_frames(aligned):
        counts += count_transitions(loaded.transitions, tids)
        total.add(loaded.mixtures, x, loaded.transitions.pdf[tids], summed=loaded.unadapted[utt])
    return total, counts


def sum_tree(context: Context, inputs: JobInputs, share: str, aligned: Aligned) -> TreeStatistics:
    """Statistics of a decision tree (acc-tree-stats)."""
    loaded = load_inputs(inputs)
    return accumulate_tree(loaded.iter_frames(aligned), loaded.transitions, context)


def sum_chain_tree(
    converter: Subsampler, context: Context, inputs: JobInputs, share: str, aligned: Aligned
) -> TreeStatistics:
    """Statistics of a tree at a lower frame rate, by alignments that are converted first."""
    frames = (
        (utt, converter.convert_alignment(utt, tids), x[:: converter.factor])
        for utt, tids, x in load_inputs(inputs).iter_frames(aligned)
    )
    return accumulate_tree(frames, converter.new, context)


def sum_lda(inputs: JobInputs, share: str, aligned: Aligned) -> LdaStatistics:
    """Statistics of LDA, of spliced frames (acc-lda)."""
    loaded, random = load_inputs(inputs), Random()  # each job of Kaldi's begins with seed 1 too
    total = LdaStatistics.zeros(loaded.transitions.num_pdfs, loaded.features.dim)
    for _, tids, x in loaded.iter_frames(aligned):
        total.add(x, loaded.speech_pdfs(tids).prune(PRUNING, random))
    return total


def sum_mllt(inputs: JobInputs, share: str, aligned: Aligned) -> MlltStatistics:
    """Statistics of MLLT (gmm-acc-mllt)."""
    loaded = load_inputs(inputs)
    speech = ((x, loaded.speech_pdfs(tids)) for _, tids, x in loaded.iter_frames(aligned))
    return accumulate_mllt(loaded.mixtures, speech, Random())


def estimate_fmllr(
    aligner: Path | None, inputs: JobInputs, speaker: str, aligned: Aligned
) -> tuple[str, np.ndarray]:
    """The transform float32 [D, D+1] of a speaker, on top of the one that he may have.

    aligner: another model, whose posteriors divide frames among Gaussians.
    """
    loaded = load_inputs(inputs)
    speech = ((x, loaded.speech_pdfs(tids)) for _, tids, x in loaded.iter_frames(aligned))
    divider = _open_divider(inputs, aligner) if aligner else None
    return speaker, adapt_speaker(speaker, speech, loaded.mixtures, aligner=divider)


@lru_cache(maxsize=1)
def _open_divider(inputs: JobInputs, aligner: Path) -> Mixtures:
    return load_inputs(inputs).mixtures if aligner == inputs.model else read_gmm(aligner)[1]


@lru_cache(maxsize=1)
def _open_compiler(inputs: JobInputs, lang: Path) -> GraphCompiler:
    tree = read_tree(inputs.directory / "tree")
    return read_compiler(lang, load_inputs(inputs).transitions, tree)


def compile_graphs(
    lang: Path, inputs: JobInputs, share: str, transcripts: Sequence[tuple[str, Sequence[str]]]
) -> list[tuple[str, Fst | InputError]]:
    """The graph of each transcript, or the error that it has none."""
    compiler = _open_compiler(inputs, lang)
    graphs: list[tuple[str, Fst | InputError]] = []
    for utt, words in transcripts:
        try:
            graphs.append((utt, compiler.compile(utt, words)))
        except InputError as error:
            graphs.append((utt, error))
    return graphs


def align_equal(
    inputs: JobInputs, share: str, graphs: Graphs
) -> list[tuple[str, np.ndarray | InputError]]:
    """Alignments with states of equal lengths, or errors (align-equal-compiled)."""
    features = load_inputs(inputs).features
    alignments: list[tuple[str, np.ndarray | InputError]] = []
    for utt, graph in graphs:
        try:
            alignments.append((utt, align_equal_compiled(utt, graph, len(features[utt]))))
        except InputError as error:
            alignments.append((utt, error))
    return alignments


@lru_cache(maxsize=1)
def _open_aligner(
    inputs: JobInputs, options: AlignOptions, boost: float, pauses: frozenset[int]
) -> Aligner:
    loaded = load_inputs(inputs)
    boosted = boost_silence(loaded.mixtures, loaded.transitions, pauses, boost)
    return Aligner(loaded.transitions, boosted, choose_engine(), options)


def align(
    options: AlignOptions,
    boost: float,
    pauses: frozenset[int],
    inputs: JobInputs,
    share: str,
    graphs: Graphs,
) -> list[tuple[str, np.ndarray | InputError]]:
    """Alignments, or errors; boost: the factor of the likelihoods of the phones `pauses`."""
    aligner = _open_aligner(inputs, options, boost, pauses)
    results = align_all(aligner, graphs, load_inputs(inputs).features)
    return [
        (utt, result.transition_ids if isinstance(result, Alignment) else result)
        for utt, result in results
    ]
