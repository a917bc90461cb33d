"""Questions and trees, byte for byte those that Kaldi has made of the same alignments."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.data.features.front_end import apply_cmvn, splice
from bayes_asr.gmm.affine import apply_transform
from bayes_asr.gmm.fmllr import adapt_speaker
from bayes_asr.gmm.occupation import PdfWeights
from bayes_asr.gmm.questions import cluster_phones, compile_questions, read_phone_sets
from bayes_asr.gmm.randomness import Random
from bayes_asr.gmm.roots import read_roots
from bayes_asr.gmm.splitting import TreeOptions, build_tree
from bayes_asr.gmm.tree_statistics import Context, accumulate
from bayes_asr.kaldi_io.ark import iter_matrices, read_matrix
from bayes_asr.kaldi_io.qst import write_questions
from bayes_asr.kaldi_io.text import read_text
from bayes_asr.kaldi_io.tree import write_tree
from tests.support.mixtures import GoldenGmms, golden_gmms

SILENCE = 1
LEAVES = 200
Features = dict[str, np.ndarray]


def spliced(golden: GoldenGmms, matrix: str) -> Features:
    """MFCC less the speaker's mean, seven frames of it, transformed."""
    transform = read_matrix(str(golden.root / "tri2" / matrix), matrix)
    speakers = read_text(golden.root / "data" / "utt2spk")
    stats = dict(iter_matrices(golden.root / "data" / "cmvn_train.ark"))
    return {
        utt: apply_transform(
            transform, splice(apply_cmvn(mfcc, "mean", stats[speakers[utt][0]]), 3, 3)
        )
        for utt, mfcc in iter_matrices(golden.root / "data" / "mfcc_train.ark")
    }


def adapted(golden: GoldenGmms) -> Features:
    """The first features of tri3: fMLLR by tri2 and its alignment, as train_sat.sh."""
    model, mixtures = golden.model("tri2/final.mdl")
    alignments = golden.alignments("tri2_ali")
    features = spliced(golden, "final.mat.txt")
    speakers = read_text(golden.root / "data" / "utt2spk")
    of_speaker: dict[str, list[str]] = {}
    for utt in alignments:
        of_speaker.setdefault(speakers[utt][0], []).append(utt)
    found = {}
    for speaker, utterances in of_speaker.items():
        said = (
            (features[utt], PdfWeights.from_alignment(model, alignments[utt], [SILENCE]))
            for utt in utterances
        )
        transform = adapt_speaker(speaker, said, mixtures)
        found |= {utt: apply_transform(transform, features[utt]) for utt in utterances}
    return found


def test_tri1(kaldi_corpus: Callable[[str], Path], tmp_path: Path) -> None:
    golden = golden_gmms()
    check("mono", "tri1", golden, golden.features, kaldi_corpus("timit_sample"), tmp_path)


@pytest.mark.slow
def test_tri2(kaldi_corpus: Callable[[str], Path], tmp_path: Path) -> None:
    golden = golden_gmms()
    features = spliced(golden, "0.mat.txt")
    check("tri1", "tri2", golden, features, kaldi_corpus("timit_sample"), tmp_path)


@pytest.mark.slow
def test_tri3(kaldi_corpus: Callable[[str], Path], tmp_path: Path) -> None:
    golden = golden_gmms()
    check("tri2", "tri3", golden, adapted(golden), kaldi_corpus("timit_sample"), tmp_path)


def check(
    before: str, system: str, golden: GoldenGmms, features: Features, corpus: Path, tmp_path: Path
) -> None:
    """Build the tree of `system` from the alignments of the system before, and compare the files.

    Several starts of the clustering of phones end in the same clusters, and Kaldi takes the one
    whose float32 sum is greatest in the last bit. So the order of clusters in questions.int depends
    on that bit of the features; their set, and what is compiled of it, does not.
    """
    model, _ = golden.model(f"{before}/final.mdl")
    alignments = golden.alignments(f"{before}_ali")
    aligned = ((utt, alignments[utt], x) for utt, x in features.items() if utt in alignments)
    statistics = accumulate(aligned, model, Context(3, 1, frozenset({SILENCE})))
    phones = corpus / "data" / "lang" / "phones"
    sets = cluster_phones(statistics, read_phone_sets(phones / "sets.int"), Random())
    sets += read_phone_sets(phones / "extra_questions.int")
    assert sorted(sets) == sorted(read_phone_sets(golden.root / system / "questions.int"))
    questions = compile_questions(sets, model.topology, 3)
    roots = read_roots(phones / "roots.int")
    tree = build_tree(statistics, questions, roots, model.topology, TreeOptions(LEAVES))
    write_questions(questions, tmp_path / "questions.qst")
    write_tree(tree, tmp_path / "tree")
    for name in ("questions.qst", "tree"):
        assert (tmp_path / name).read_bytes() == (golden.root / system / name).read_bytes()
