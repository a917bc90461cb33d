"""A training on real speech: Kaldi's fMLLR beside our filter banks, with labels of two trees."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import bayes_asr
from bayes_asr.config.merge import load
from bayes_asr.data.corpus.sets import training_and_dev
from bayes_asr.data.features.front_end import cmvn_statistics
from bayes_asr.data.sound.feature_directories import write_features
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.kaldi_io.ark import iter_int_vectors, iter_matrices
from bayes_asr.kaldi_io.text import read_mapping, write_mapping
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.start import train
from tests.support.places import ROOT
from tests.support.training_runs import history_of

pytest.importorskip("kaldi_native_fbank")
SETTINGS = [
    *(f"data.{name}.streams.fbank=fbank/{name}" for name in ("train", "dev", "test")),
    "streams.fbank={cmvn: mean-variance, deltas: 1}",
    "data.train.labels.mono=exp/mono_ali",
    "train.target_weights.mono.pdfs=0.5",
    "data.dev.alignments=[]",  # mono_ali has none of dev
    "data.held_out=0.2",
    "model.layers=1",
    "model.units=32",
    "train.epochs=3",
    "train.device=cpu",
]


@pytest.fixture(scope="module")
def corpus(kaldi_corpus: Callable[[str], Path], shared_data: Path) -> Path:
    """Kaldi's directories, and filter banks of the same utterances."""
    root = kaldi_corpus("timit_sample")
    sounds = (shared_data / "timit_sample").glob("dr*-*/*.wav")
    names = {f"{path.parent.name.split('-')[1]}_{path.stem}": path for path in sounds}
    for name in ("train", "dev", "test"):
        folder = root / "fbank" / name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / "data" / name / "utt2spk", folder)
        utterances = read_mapping(folder / "utt2spk")
        write_mapping(((utt, str(names[utt])) for utt in utterances), folder / "wav.scp")
        write_features(folder, Analysis("fbank", bands=40))
    return root


@pytest.mark.slow
def test_fmllr_and_filter_banks_learn_two_trees(corpus: Path, tmp_path: Path) -> None:
    recipe = ROOT / "recipes" / "timit_sample" / "config.yaml"
    config = load([recipe], [f"data.dir={corpus}", *SETTINGS])
    data, _ = training_and_dev(config)
    aligned = {
        utt: ids
        for path in sorted((corpus / "exp/mono_ali").glob("ali.*.gz"))
        for utt, ids in iter_int_vectors(path)
    }
    model = data.further_labels["mono"].model  # type: ignore[attr-defined]
    for utt in data.lengths:  # as Kaldi's files say, frame by frame
        labels = data.targets["mono.pdfs"].labels(utt)
        np.testing.assert_array_equal(labels, model.pdf[aligned[utt]])
    train(config, tmp_path / "run")
    saved = checkpoint.read(tmp_path / "run/best.pt")
    assert saved["architecture"]["streams"] == {"features": 40, "fbank": 80}
    assert saved["architecture"]["heads"] == {
        "pdfs": 152,
        "monophones": 48,
        "mono.pdfs": data.targets["mono.pdfs"].size,
    }
    losses = [entry["train_loss"] for entry in history_of(tmp_path / "run")]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.9 * np.log(152)

    fmllr = dict(iter_matrices(corpus / "data/test/feats.scp"))
    banks = dict(iter_matrices(corpus / "fbank/test/feats.scp"))
    speakers = read_mapping(corpus / "fbank/test/utt2spk")
    network = bayes_asr.load(tmp_path / "run")
    utt = min(fmllr)
    of_speaker = cmvn_statistics(x for u, x in banks.items() if speakers[u] == speakers[utt])
    found = network(features=fmllr[utt], fbank=banks[utt], cmvn={"fbank": of_speaker})
    assert found.shape == (len(fmllr[utt]), 152)
