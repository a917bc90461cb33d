"""Decoding with Kaldi's own models: its words, and its transforms of speakers."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.data.sound.feature_directories import write_features
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.decode.graph.lang import read_silence_ids
from bayes_asr.evaluate.score.sweeps import SetPaths
from bayes_asr.gmm.adaptation import Adaptation
from bayes_asr.gmm.decoding import FeatureTable, decode_data, group_utterances, make_job
from bayes_asr.gmm.features import SpeakerFeatures, read_pipeline, read_transforms
from bayes_asr.gmm.gaussian_sums import Statistics, estimate
from bayes_asr.kaldi_io.ark import iter_int_vectors, iter_matrices, write_matrices
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.gmm import read_gmm, write_gmm
from bayes_asr.kaldi_io.text import read_mapping, read_text, write_mapping
from tests.support.decode_cases import golden_case
from tests.support.mixtures import golden_gmms
from tests.support.score_texts import score_texts

PER_OF_KALDI = 41.3  # strict, on dev


@pytest.mark.parametrize(("corpus", "tolerance"), [("timit_sample", 1e-5), ("an4", 1e-2)])
def test_words_and_costs_are_kaldis(
    corpus: str, tolerance: float, kaldi_corpus: Callable[[str], Path], tmp_path: Path
) -> None:
    """Of Kaldi's adapted features, as by gmm-compute-likes and latgen-faster-mapped.

    Those of AN4 were compressed afterwards.
    """
    root, golden = kaldi_corpus(corpus), golden_case(kaldi_corpus, corpus, "gmm")
    data, words = tmp_path / "data", golden.words("a.words")
    for table in ("feats.scp", "utt2spk"):
        found = read_mapping(root / "data" / "dev" / table)
        write_mapping(((utt, found[utt]) for utt in words), data / table)
    model, out = golden.model.parent, tmp_path / "out"
    job = make_job(data, golden.graph, model, golden.options("a"))
    decode_data(FeatureTable(data, raw=True), job, out)
    assert read_text(out / "words.txt") == words
    costs = read_text(out / "costs.txt")
    for column, name in enumerate(("a.graph_cost", "a.acoustic_cost")):
        ours = {utt: float(row[column]) for utt, row in costs.items()}
        assert ours == pytest.approx(golden.numbers(name), rel=tolerance, abs=1e-2)


@pytest.fixture(scope="module")
def model(kaldi_corpus: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kaldi's speaker-adapted model of the TIMIT sample with its final.alimdl.

    That was not kept. It is made as by train_sat.sh, from the alignments of the final model, and
    from MFCC of the training set, which differ from Kaldi's by dither.
    """
    root, folder = kaldi_corpus("timit_sample"), tmp_path_factory.mktemp("tri3")
    shutil.copyfile(root / "exp" / "tri3" / "final.mdl", folder / "final.mdl")
    for name in ("final.mat", "cmvn_opts", "splice_opts"):
        shutil.copyfile(root / "exp" / "tri3_ali" / name, folder / name)
    data, golden = tmp_path_factory.mktemp("train"), golden_gmms().root / "data"
    write_matrices(iter_matrices(golden / "mfcc_train.ark"), data / "f.ark", data / "feats.scp")
    shutil.copyfile(golden / "utt2spk", data / "utt2spk")
    plain = SpeakerFeatures(read_data_dir(data), read_pipeline(folder))
    transitions, mixtures = read_gmm(folder / "final.mdl")
    adapted = dict(iter_matrices(root / "fmllr" / "train.ark"))
    sums = Statistics.zeros(mixtures)
    for job in sorted((root / "exp" / "tri3_ali").glob("ali.*.gz")):
        for utt, tids in iter_int_vectors(job):
            sums.add(mixtures, adapted[utt], transitions.pdf[tids], summed=plain[utt])
    write_gmm(transitions, estimate(mixtures, sums, remove=False), folder / "final.alimdl")
    return folder


@pytest.fixture(scope="module")
def dev(
    kaldi_corpus: Callable[[str], Path], shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """MFCC of dev without dither."""
    data = tmp_path_factory.mktemp("dev")
    for table in ("text", "utt2spk"):
        shutil.copyfile(kaldi_corpus("timit_sample") / "data" / "dev" / table, data / table)
    sounds = {
        f"{path.parent.name[4:]}_{path.stem}": str(path)
        for path in (shared_data / "timit_sample").glob("dr6-*/s[ix]*.wav")
    }
    write_mapping(((utt, sounds[utt]) for utt in read_mapping(data / "utt2spk")), data / "wav.scp")
    write_features(data, Analysis())
    return data


@pytest.mark.slow
def test_transforms_and_errors_are_kaldis(
    model: Path, dev: Path, kaldi_corpus: Callable[[str], Path], tmp_path: Path
) -> None:
    """Kaldi's transforms are known by its features: the affine map from ours to them."""
    root = kaldi_corpus("timit_sample")
    graph, out = root / "exp" / "tri3" / "graph", tmp_path / "decode_dev"
    adaptation = Adaptation(read_silence_ids(graph))
    job = make_job(dev, graph, model, lmwts=range(1, 11))
    decode_data(FeatureTable(dev), job, out, adaptation=adaptation)
    plain = SpeakerFeatures(read_data_dir(dev), read_pipeline(model))
    theirs = dict(iter_matrices(root / "fmllr" / "dev.ark"))
    for speaker, transform in read_transforms(out).items():
        utts = group_utterances(plain.speakers)[speaker]
        x = np.concatenate([plain[utt] for utt in utts])
        y = np.concatenate([theirs[utt] for utt in utts])
        fitted, *_ = np.linalg.lstsq(np.column_stack((x, np.ones(len(x)))), y)
        assert np.abs(transform - fitted.T).max() < 0.07, speaker
        assert np.sqrt(np.square(transform - fitted.T).mean()) < 0.015, speaker
    sets = {"dev": SetPaths([dev / "text"], out)}
    strict, _ = score_texts(sets, "per", "sclite", 39)["dev"]
    assert strict.counts.rate == pytest.approx(PER_OF_KALDI, abs=1.0)
