"""Twelve passes of Kaldi's train_lda_mllt.sh and train_sat.sh, which align anew in the tenth."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.decode.search.utterance import choose_engine
from bayes_asr.gmm.affine import apply_transform, compose, identity
from bayes_asr.gmm.alignment import Aligner, align_all
from bayes_asr.gmm.decoding import group_utterances
from bayes_asr.gmm.features import Pipeline, SpeakerFeatures
from bayes_asr.gmm.first_model import Converter, derive_transitions, init_mixtures
from bayes_asr.gmm.fmllr import adapt_speaker
from bayes_asr.gmm.gaussian_sums import accumulate, estimate
from bayes_asr.gmm.graphs import read_compiler
from bayes_asr.gmm.mixing import mix_up
from bayes_asr.gmm.mllt import accumulate_mllt, estimate_mllt, transform_means
from bayes_asr.gmm.occupation import PdfWeights
from bayes_asr.gmm.randomness import Random
from bayes_asr.gmm.transitions import count_transitions, update_transitions
from bayes_asr.gmm.tree_statistics import Context
from bayes_asr.gmm.tree_statistics import accumulate as accumulate_tree
from bayes_asr.kaldi_io.ark import iter_matrices, read_matrix
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.transition_model import TransitionModel
from bayes_asr.kaldi_io.tree import read_tree
from tests.support.golden_data import SILENCE, write_golden_data
from tests.support.mixtures import GoldenGmms, golden_gmms

LEAVES, GROWTH = 200, 32  # Gaussians at first, and more in each pass
ADAPTED, ALIGNED = (2, 4, 6, 12), 10  # passes
Frames = dict[str, np.ndarray]
Spoken = dict[str, PdfWeights]


@dataclass
class Course:
    """A training that begins with Kaldi's tree and with alignments of the model before it."""

    x: Frames
    tree: Tree
    model: TransitionModel
    mixtures: Mixtures
    aligned: dict[str, np.ndarray]
    fits: list[float] = field(default_factory=list)

    @property
    def spoken(self) -> Spoken:
        return {
            utt: PdfWeights.from_alignment(self.model, tids, SILENCE)
            for utt, tids in self.aligned.items()
        }

    def align(self, lang: Path, text: Mapping[str, list[str]]) -> None:
        compiler = read_compiler(lang, self.model, self.tree)
        graphs = ((utt, compiler.compile(utt, text[utt])) for utt in self.x)
        results = align_all(Aligner(self.model, self.mixtures, choose_engine()), graphs, self.x)
        self.aligned = {u: r.transition_ids for u, r in results if not isinstance(r, Exception)}

    def estimate(self, target: int, power: float) -> None:
        pairs = ((self.x[utt], self.model.pdf[tids]) for utt, tids in self.aligned.items())
        statistics = accumulate(self.mixtures, pairs)
        self.fits.append(statistics.log_likelihood_per_frame)
        counts = sum(count_transitions(self.model, tids) for tids in self.aligned.values())
        self.model = update_transitions(self.model, np.asarray(counts))
        updated = estimate(self.mixtures, statistics)
        self.mixtures = mix_up(updated, statistics.pdf_occupancy, target, power=power)


@pytest.fixture(scope="module")
def golden() -> GoldenGmms:
    return golden_gmms()


@pytest.fixture(scope="module")
def features(golden: GoldenGmms, tmp_path_factory: pytest.TempPathFactory) -> SpeakerFeatures:
    folder = write_golden_data(golden, tmp_path_factory.mktemp("golden") / "data")
    return SpeakerFeatures(read_data_dir(folder), Pipeline.spliced(3, 3))


def begin(golden: GoldenGmms, before: str, system: str, x: Frames) -> Course:
    old, _ = golden.model(f"{before}/final.mdl")
    alignments = golden.alignments(f"{before}_ali")
    tree = read_tree(golden.root / system / "tree")
    context = Context(independent=frozenset(SILENCE))
    each = ((utt, tids, x[utt]) for utt, tids in alignments.items())
    mixtures, _ = init_mixtures(tree, accumulate_tree(each, old, context))
    model = derive_transitions(tree, old.topology)
    converter = Converter(old, model, tree)
    aligned = {utt: converter.convert_alignment(utt, tids) for utt, tids in alignments.items()}
    return Course(x, tree, model, mixtures, aligned)


def go_through(
    course: Course, golden: GoldenGmms, system: str, adapt: Callable[[int], None], power: float
) -> None:
    """Twelve passes; each must fit as Kaldi's did."""
    lang = golden.root.parents[1] / "data" / "lang"
    text = read_data_dir(golden.root / "data").text or {}
    for number in range(1, ADAPTED[-1] + 1):
        if number == ALIGNED:
            course.align(lang, text)
        if number in ADAPTED:
            adapt(number)
        course.estimate(LEAVES + GROWTH * (number - 1), power)
    lines = (golden.root / system / "loglike_per_frame").read_text().splitlines()
    expected = [float(line.split()[1]) for line in lines[: len(course.fits)]]
    np.testing.assert_allclose(course.fits, expected, rtol=0, atol=2e-3)


@pytest.mark.slow
def test_mllt_of_each_pass_is_kaldis(golden: GoldenGmms, features: SpeakerFeatures) -> None:
    matrix = read_matrix(f"{golden.root}/tri2/0.mat.txt", "the matrix")
    spliced = {utt: features[utt] for utt in features.utterances}
    course = begin(
        golden, "tri1", "tri2", {u: apply_transform(matrix, x) for u, x in spliced.items()}
    )

    def adapt(number: int) -> None:
        nonlocal matrix
        spoken = ((course.x[utt], pdfs) for utt, pdfs in course.spoken.items())
        new = estimate_mllt(accumulate_mllt(course.mixtures, spoken, Random()))
        matrix = compose(new, matrix)
        expected = read_matrix(f"{golden.root}/tri2/{number}.mat.txt", "the matrix")
        np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-4)
        course.mixtures = transform_means(course.mixtures, new)
        course.x = {utt: apply_transform(matrix, x) for utt, x in spliced.items()}

    go_through(course, golden, "tri2", adapt, power=0.25)


@pytest.mark.slow
def test_transforms_of_speakers_are_kaldis(golden: GoldenGmms, features: SpeakerFeatures) -> None:
    matrix = read_matrix(f"{golden.root}/tri2/final.mat.txt", "the matrix")
    plain = {utt: apply_transform(matrix, features[utt]) for utt in features.utterances}
    transforms = {speaker: identity(len(matrix)) for speaker in features.speakers.values()}

    def transform(x: Frames, spoken: Spoken, mixtures: Mixtures) -> Frames:
        """Adapt each speaker a step further."""
        for speaker, utterances in group_utterances(features.speakers).items():
            pairs = ((x[utt], spoken[utt]) for utt in utterances if utt in spoken)
            new = adapt_speaker(speaker, pairs, mixtures)
            transforms[speaker] = compose(new, transforms[speaker], affine=True)
        speakers = features.speakers
        return {utt: apply_transform(transforms[speakers[utt]], x) for utt, x in plain.items()}

    old, mixtures = golden.model("tri2/final.mdl")
    alignments = golden.alignments("tri2_ali").items()
    spoken = {utt: PdfWeights.from_alignment(old, tids, SILENCE) for utt, tids in alignments}
    course = begin(golden, "tri2", "tri3", transform(plain, spoken, mixtures))

    def adapt(number: int) -> None:
        course.x = transform(course.x, course.spoken, course.mixtures)

    go_through(course, golden, "tri3", adapt, power=0.2)
    for speaker, expected in iter_matrices(golden.root / "tri3" / "trans.txt.gz"):
        np.testing.assert_allclose(transforms[speaker], expected, rtol=0, atol=1e-3)
