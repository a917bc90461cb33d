"""What is computed of each share of the data, in this process or in another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.align.best_path import Alignment, AlignOptions
from bayes_asr.decode.search.embedded import choose_engine
from bayes_asr.gmm.alignment import Aligner, align_all, align_equally, boost_silence
from bayes_asr.gmm.features import (
    Pipeline,
    SpeakerFeatures,
    has_transforms,
    read_pipeline,
    read_transforms,
)
from bayes_asr.gmm.fmllr import adapt_speaker
from bayes_asr.gmm.gaussian_sums import Statistics, accumulate
from bayes_asr.gmm.graphs import Compiler, read_compiler
from bayes_asr.gmm.lda import LdaStatistics
from bayes_asr.gmm.mllt import MlltStatistics, accumulate_mllt
from bayes_asr.gmm.occupation import PRUNING, PdfWeights
from bayes_asr.gmm.randomness import Random
from bayes_asr.gmm.subsampling import Subsampler
from bayes_asr.gmm.transitions import count_transitions
from bayes_asr.gmm.tree_statistics import Context, TreeStatistics
from bayes_asr.gmm.tree_statistics import accumulate as accumulate_tree
from bayes_asr.kaldi_io.binary import OpenPipe
from bayes_asr.kaldi_io.fst import Fst
from bayes_asr.kaldi_io.gmm import read_gmm
from bayes_asr.kaldi_io.mdl import TransitionModel, read_transition_model
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.text import read_data_dir
from bayes_asr.kaldi_io.tree import read_tree

Aligned = Sequence[tuple[str, np.ndarray]]  # utterances and their transition-ids int32 [T]
Graphs = Sequence[tuple[str, Fst]]


@dataclass(frozen=True)
class Reading:
    """What shares are computed with: features of `data` as `folder` says, and a model.

    moment: tells apart what `folder` holds at different times; silence: phones that say nothing of
    LDA, MLLT and speakers; pipeline: what is done to features instead of what `folder` says.
    """

    data: Path
    folder: Path
    model: Path
    moment: int = 0
    silence: frozenset[int] = frozenset()
    open_pipe: OpenPipe | None = None
    pipeline: Pipeline | None = None


class Opened:
    """What a `Reading` leads to, each part read when it is asked for."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    @cached_property
    def features(self) -> SpeakerFeatures:
        """What the model reads of the data, adapted to speakers where there are transforms."""
        if self.reading.pipeline:
            return self.open_features(self.reading.pipeline)
        folder = self.reading.folder
        transforms = read_transforms(folder) if has_transforms(folder) else None
        return self.open_features(replace(read_pipeline(folder), transforms=transforms))

    @cached_property
    def unadapted(self) -> SpeakerFeatures:
        """The same without the transforms of speakers."""
        return self.open_features(read_pipeline(self.reading.folder))

    def open_features(self, pipeline: Pipeline) -> SpeakerFeatures:
        """The features that a pipeline makes of the data."""
        pipes = self.reading.open_pipe
        data = read_data_dir(self.reading.data, open_pipe=pipes)
        return SpeakerFeatures(data, pipeline, open_pipe=pipes)

    @cached_property
    def transitions(self) -> TransitionModel:
        """The transition model."""
        return read_transition_model(self.reading.model)

    @cached_property
    def mixtures(self) -> Mixtures:
        """The Gaussians; InputError where they are not of these features."""
        mixtures = read_gmm(self.reading.model)[1]
        self.features.check_dimension(mixtures.dim, self.reading.model)
        return mixtures

    def iter_frames(
        self, aligned: Aligned, features: SpeakerFeatures | None = None
    ) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Utterances, their transition-ids [T] and features [T, D], adapted unless given."""
        features = features or self.features
        for utt, tids in aligned:
            x = features[utt]
            if len(x) != len(tids):
                raise InputError(
                    f"{self.reading.data}: {utt} has {len(x)} frames of features, but its"
                    f" alignment has {len(tids)}; make both of the same sound"
                )
            yield utt, tids, x

    def weigh(self, tids: np.ndarray) -> PdfWeights:
        """The pdfs of frames that are not silence."""
        return PdfWeights.of_alignment(self.transitions, tids, self.reading.silence)


@lru_cache(maxsize=1)
def open_reading(reading: Reading) -> Opened:
    """Open what is read, once in each process."""
    return Opened(reading)


def sum_frames(reading: Reading, share: str, aligned: Aligned) -> tuple[Statistics, np.ndarray]:
    """What an estimation of the model takes: statistics of Gaussians, counts of transition-ids."""
    opened = open_reading(reading)
    counts = np.zeros(opened.transitions.num_transition_ids + 1)

    def read() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for _, tids, x in opened.iter_frames(aligned):
            counts[:] += count_transitions(opened.transitions, tids)
            yield x, opened.transitions.pdf[tids]

    return accumulate(opened.mixtures, read()), counts


def sum_unadapted(reading: Reading, share: str, aligned: Aligned) -> tuple[Statistics, np.ndarray]:
    """The same, Gaussians told apart by adapted features and their sums of those that are not."""
    opened = open_reading(reading)
    total = Statistics.zeros(opened.mixtures)
    counts = np.zeros(opened.transitions.num_transition_ids + 1)
    for utt, tids, x in opened.iter_frames(aligned):
        counts += count_transitions(opened.transitions, tids)
        total.add(opened.mixtures, x, opened.transitions.pdf[tids], of=opened.unadapted[utt])
    return total, counts


def sum_events(context: Context, reading: Reading, share: str, aligned: Aligned) -> TreeStatistics:
    """What a tree is grown of."""
    opened = open_reading(reading)
    return accumulate_tree(opened.iter_frames(aligned), opened.transitions, context)


def sum_subsampled(
    converter: Subsampler, context: Context, reading: Reading, share: str, aligned: Aligned
) -> TreeStatistics:
    """What a tree of fewer frames is grown of, by alignments that are converted first."""
    frames = (
        (utt, converter.convert_alignment(utt, tids), x[:: converter.factor])
        for utt, tids, x in open_reading(reading).iter_frames(aligned)
    )
    return accumulate_tree(frames, converter.new, context)


def sum_classes(
    pipeline: Pipeline, reading: Reading, share: str, aligned: Aligned
) -> LdaStatistics:
    """What LDA takes, of frames that a pipeline splices."""
    opened, random = open_reading(reading), Random()
    spliced = opened.open_features(pipeline)
    total = LdaStatistics.zeros(opened.transitions.num_pdfs, spliced.dim)
    for _, tids, x in opened.iter_frames(aligned, spliced):
        total.add(x, opened.weigh(tids).prune(PRUNING, random))
    return total


def sum_scatters(reading: Reading, share: str, aligned: Aligned) -> MlltStatistics:
    """What MLLT takes."""
    opened = open_reading(reading)
    spoken = ((x, opened.weigh(tids)) for _, tids, x in opened.iter_frames(aligned))
    return accumulate_mllt(opened.mixtures, spoken, Random())


def adapt(
    aligner: Path | None, reading: Reading, speaker: str, aligned: Aligned
) -> tuple[str, np.ndarray]:
    """The transform float32 [D, D+1] of a speaker, on top of the one that he may have.

    aligner: another model, which divides frames among Gaussians.
    """
    opened = open_reading(reading)
    spoken = ((x, opened.weigh(tids)) for _, tids, x in opened.iter_frames(aligned))
    other = read_gmm(aligner)[1] if aligner else None
    return speaker, adapt_speaker(speaker, spoken, opened.mixtures, aligner=other)


@lru_cache(maxsize=1)
def _open_compiler(reading: Reading, lang: Path) -> Compiler:
    tree = read_tree(reading.folder / "tree")
    return read_compiler(lang, open_reading(reading).transitions, tree)


def compile_graphs(
    lang: Path, reading: Reading, share: str, spoken: Sequence[tuple[str, Sequence[str]]]
) -> list[tuple[str, Fst | InputError]]:
    """The graphs of transcripts, or why there is none."""
    compiler = _open_compiler(reading, lang)
    found: list[tuple[str, Fst | InputError]] = []
    for utt, words in spoken:
        try:
            found.append((utt, compiler.compile(utt, words)))
        except InputError as error:
            found.append((utt, error))
    return found


def spread(
    reading: Reading, share: str, graphs: Graphs
) -> list[tuple[str, np.ndarray | InputError]]:
    """Alignments of states of equal lengths, or why there is none."""
    features = open_reading(reading).features
    found: list[tuple[str, np.ndarray | InputError]] = []
    for utt, graph in graphs:
        try:
            found.append((utt, align_equally(utt, graph, len(features[utt]))))
        except InputError as error:
            found.append((utt, error))
    return found


@lru_cache(maxsize=1)
def _open_aligner(
    reading: Reading, options: AlignOptions, boost: float, pauses: frozenset[int]
) -> Aligner:
    opened = open_reading(reading)
    boosted = boost_silence(opened.mixtures, opened.transitions, pauses, boost)
    return Aligner(opened.transitions, boosted, choose_engine(), options)


def align(
    options: AlignOptions,
    boost: float,
    pauses: frozenset[int],
    reading: Reading,
    share: str,
    graphs: Graphs,
) -> list[tuple[str, np.ndarray | InputError]]:
    """Alignments, or why there is none; boost: of the likelihood of the phones `pauses`."""
    aligner = _open_aligner(reading, options, boost, pauses)
    results = align_all(aligner, graphs, open_reading(reading).features)
    return [
        (utt, found.transition_ids if isinstance(found, Alignment) else found)
        for utt, found in results
    ]
