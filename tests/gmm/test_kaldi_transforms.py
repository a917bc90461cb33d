"""Kaldi's own programs for LDA, MLLT, fMLLR and adapted features, on the same files."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.gmm.affine import apply_transform, compose
from bayes_asr.gmm.decoding import group_utterances
from bayes_asr.gmm.features import Pipeline, SpeakerFeatures, write_pipeline, write_transforms
from bayes_asr.gmm.fmllr import adapt_speaker
from bayes_asr.gmm.lda import LdaStatistics, estimate_lda
from bayes_asr.gmm.mllt import accumulate_mllt, estimate_mllt, transform_means
from bayes_asr.gmm.occupation import PdfWeights
from bayes_asr.gmm.randomness import Random
from bayes_asr.kaldi_io.ark import iter_matrices, read_matrix, write_matrices
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.gmm import read_gmm
from bayes_asr.kaldi_io.text import write_speakers
from tests.support.golden_data import SILENCE, write_golden_data
from tests.support.kaldi_programs import NEEDS_KALDI, run_kaldi
from tests.support.mixtures import GoldenGmms, golden_gmms

pytestmark = NEEDS_KALDI
POST = "ali-to-post {ali} ark:- | weight-silence-post {weight} 1 {model} ark:- ark:-"


@pytest.fixture(scope="module")
def golden() -> GoldenGmms:
    return golden_gmms()


@pytest.fixture(scope="module")
def features(golden: GoldenGmms, tmp_path_factory: pytest.TempPathFactory) -> SpeakerFeatures:
    """What tri2 and, before adaptation, tri3 read."""
    folder = write_golden_data(golden, tmp_path_factory.mktemp("golden") / "data")
    data = read_data_dir(folder)
    write_speakers(data.utt2spk, folder)
    matrix = read_matrix(f"{golden.root}/tri2/final.mat.txt", "the matrix")
    return SpeakerFeatures(data, Pipeline("mean", 0, 3, 3, matrix))


@pytest.fixture(scope="module")
def x(features: SpeakerFeatures) -> Mapping[str, np.ndarray]:
    return {utt: features[utt] for utt in features.utterances}


@pytest.fixture
def kaldi(tmp_path: Path, x: Mapping[str, np.ndarray]) -> Path:
    """A folder with the features for Kaldi's programs."""
    write_matrices(x.items(), tmp_path / "x.ark")
    return tmp_path


def alignment(golden: GoldenGmms, system: str, weight: float = 0.0) -> dict[str, object]:
    """What POST says of the alignment that is made with the final model of a system."""
    ali = f"ark:gunzip -c {golden.root}/{system}_ali/ali.1.gz |"
    model = golden.root / system / "final.mdl"
    return {"ali": ali, "model": model, "weight": weight}


def test_lda_is_that_of_est_lda(
    golden: GoldenGmms, kaldi: Path, x: Mapping[str, np.ndarray]
) -> None:
    program = "acc-lda --rand-prune=4.0 {model} ark:x.ark ark:- acc && est-lda --dim=20 0.mat acc"
    run_kaldi(kaldi, f"{POST} | {program}", **alignment(golden, "tri2"))
    model, _ = golden.model("tri2/final.mdl")
    statistics, random = LdaStatistics.zeros(model.num_pdfs, 40), Random()
    for utt, tids in golden.alignments("tri2_ali").items():
        pdfs = PdfWeights.from_alignment(model, tids, SILENCE)
        statistics.add(x[utt], pdfs.prune(4.0, random))
    found, _ = estimate_lda(statistics, 20)
    expected = read_matrix(str(kaldi / "0.mat"), "the matrix")
    signs = np.sign((found * expected).sum(1, keepdims=True))
    np.testing.assert_allclose(signs * found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("pruning", [4.0, 0.25, 0.0])
def test_mllt_is_that_of_est_mllt(
    pruning: float, golden: GoldenGmms, kaldi: Path, x: Mapping[str, np.ndarray]
) -> None:
    program = (
        "gmm-acc-mllt --rand-prune={pruning} {model} ark:x.ark ark:- acc && est-mllt mat acc"
        " && gmm-transform-means mat {model} new.mdl"
    )
    run_kaldi(kaldi, f"{POST} | {program}", pruning=pruning, **alignment(golden, "tri2"))
    model, mixtures = golden.model("tri2/final.mdl")
    spoken = (
        (x[utt], PdfWeights.from_alignment(model, tids, SILENCE))
        for utt, tids in golden.alignments("tri2_ali").items()
    )
    found = estimate_mllt(accumulate_mllt(mixtures, spoken, Random(), pruning))
    expected = read_matrix(str(kaldi / "mat"), "the matrix")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    _, theirs = read_gmm(kaldi / "new.mdl")
    np.testing.assert_allclose(transform_means(mixtures, found).means, theirs.means, atol=1e-3)


@pytest.mark.parametrize(("weight", "min_count"), [(0.0, 500.0), (0.01, 2000.0)])
@pytest.mark.parametrize("system", ["tri2", "tri3"])
def test_fmllr_is_that_of_gmm_est_fmllr(
    system: str,
    weight: float,
    min_count: float,
    golden: GoldenGmms,
    kaldi: Path,
    features: SpeakerFeatures,
    x: Mapping[str, np.ndarray],
) -> None:
    """With tri3, its speaker-independent model divides frames among Gaussians."""
    options = "--fmllr-min-count={min_count} --spk2utt=ark:{speakers}"
    names = {"min_count": min_count, "speakers": features.directory / "spk2utt"}
    program = f"gmm-est-fmllr {options} {{model}} ark:x.ark ark:- ark:trans"
    _, aligner = golden.model(f"{system}/final.mdl")
    if system == "tri3":
        names["first"] = golden.root / "tri3" / "final.alimdl"
        program = (
            "gmm-post-to-gpost {first} ark:x.ark ark:- ark:- |"
            f" gmm-est-fmllr-gpost {options} {{model}} ark:x.ark ark:- ark:trans"
        )
        _, aligner = read_gmm(golden.root / "tri3" / "final.alimdl")
    run_kaldi(kaldi, f"{POST} | {program}", **names, **alignment(golden, system, weight))
    model, mixtures = golden.model(f"{system}/final.mdl")
    alignments = golden.alignments(f"{system}_ali")
    for speaker, expected in iter_matrices(kaldi / "trans"):
        spoken = (
            (x[utt], PdfWeights.from_alignment(model, alignments[utt], SILENCE, weight))
            for utt in group_utterances(features.speakers)[speaker]
            if utt in alignments
        )
        found = adapt_speaker(speaker, spoken, mixtures, aligner=aligner, min_count=min_count)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_kaldi_takes_our_files_and_gives_our_features(
    golden: GoldenGmms, kaldi: Path, features: SpeakerFeatures
) -> None:
    pipeline, data = features.pipeline, features.directory
    transforms = dict(iter_matrices(golden.root / "tri3" / "trans.txt.gz"))
    write_pipeline(pipeline, kaldi)
    write_transforms(transforms.items(), kaldi)
    run_kaldi(
        kaldi,
        "apply-cmvn $(cat cmvn_opts) --utt2spk=ark:{data}/utt2spk scp:{data}/cmvn.scp"
        " scp:{data}/feats.scp ark:- | splice-feats $(cat splice_opts) ark:- ark:- |"
        " transform-feats final.mat ark:- ark:- |"
        " transform-feats --utt2spk=ark:{data}/utt2spk ark:trans.1 ark:- ark:y.ark",
        data=data,
    )
    for utt, theirs in iter_matrices(kaldi / "y.ark"):
        ours = apply_transform(transforms[features.speakers[utt]], features[utt])
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3)


@pytest.mark.parametrize("affine", [True, False])
def test_compositions_are_those_of_compose_transforms(
    affine: bool, golden: GoldenGmms, kaldi: Path, features: SpeakerFeatures
) -> None:
    transforms = [*iter_matrices(golden.root / "tri3" / "trans.txt.gz")]
    second, linear = transforms[0][1], features.pipeline.matrix
    assert linear is not None
    first = transforms[1][1] if affine else linear
    for name, matrix in (("second", second), ("first", first)):
        write_matrices([("both", matrix)], kaldi / name)
    options = f"--b-is-affine={str(affine).lower()}"
    run_kaldi(kaldi, f"compose-transforms {options} ark:second ark:first ark:whole")
    ((_, expected),) = iter_matrices(kaldi / "whole")
    found = compose(second, first, affine=affine)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
