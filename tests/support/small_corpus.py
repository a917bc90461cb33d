"""A Kaldi directory so small that a network trains on it in an instant.

Every pdf has its own mean, so that features tell the pdfs apart.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from bayes_asr.data.features.front_end import cmvn_statistics
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.text import write_mapping, write_text

PHONES, STATES, DIMENSIONS = (2, 3, 7), 2, 5
MODEL = build_monophone_model(PHONES, STATES)
SETS = {"train": 12, "dev": 4, "test": 3}
TINY = [
    "model.layers=1",
    "model.units=8",
    "train.epochs=2",
    "train.device=cpu",
    "train.batch_sequences=3",
    "train.learning_rate=0.02",
]
"""Settings of a network that trains on this corpus within a second."""


def alignment(rng: np.random.Generator, frames: int) -> np.ndarray:
    """Transition-ids [frames]: every state is entered in turn and held for a few frames."""
    ids = np.arange(1, MODEL.num_transition_ids + 1).repeat(rng.integers(1, 3))
    return np.resize(np.roll(ids, -rng.integers(len(ids))), frames).astype(np.int32)


def write_data_dir(path: Path, features: Mapping[str, np.ndarray], *, cmvn: bool = True) -> None:
    """Write a data directory; the speaker is what stands before the dash of an utterance's name."""
    path.mkdir(parents=True, exist_ok=True)
    utt2spk = {utt: utt.split("-")[0] for utt in features}
    write_matrices(features.items(), path / "feats.ark", path / "feats.scp")
    write_mapping(utt2spk.items(), path / "utt2spk")
    write_text(((utt, ["a", "b"]) for utt in features), path / "text")
    if cmvn:
        by_speaker = (
            (speaker, cmvn_statistics(x for utt, x in features.items() if utt2spk[utt] == speaker))
            for speaker in sorted(set(utt2spk.values()))
        )
        write_matrices(by_speaker, path / "cmvn.ark", path / "cmvn.scp")


def write_alignments(path: Path, alignments: Iterable[tuple[str, np.ndarray]]) -> None:
    """Write an alignment directory, its utterances spread over two archives."""
    path.mkdir(parents=True, exist_ok=True)
    items = list(alignments)
    for job in (1, 2):
        write_int_vectors(items[job - 1 :: 2], path / f"ali.{job}.gz")
    write_transition_model(MODEL, path / "final.mdl")


def made_up(name: str, count: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Features and alignments of `count` utterances, of three a speaker, of a set."""
    rng = np.random.default_rng(sum(map(ord, name)))
    means = np.random.default_rng(0).standard_normal((MODEL.num_pdfs, DIMENSIONS))
    features, alignments = {}, {}
    for number in range(count):
        utt = f"{name}{number // 3}-{number}"
        alignments[utt] = alignment(rng, int(rng.integers(9, 30)))
        noise = rng.standard_normal((len(alignments[utt]), DIMENSIONS))
        features[utt] = (means[MODEL.pdf[alignments[utt]]] + 0.3 * noise).astype(np.float32)
    return features, alignments


def write_corpus(root: Path) -> Path:
    """Write data/{train,dev,test} and the alignments of train and dev below `root`."""
    for name, count in SETS.items():
        features, alignments = made_up(name, count)
        write_data_dir(root / "data" / name, features)
        if name != "test":
            folder = "ali" if name == "train" else "ali_dev"
            write_alignments(root / "exp" / folder, alignments.items())
    return root


def settings(root: Path, *more: str) -> list[str]:
    """`--set` options of a tiny network on the corpus at `root`."""
    return [f"--set={setting}" for setting in (f"data.dir={root}", *TINY, *more)]
