"""A small graph, mixtures for its pdfs, and utterances that they made, of speakers apart."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.fst import write_fst
from bayes_asr.kaldi_io.gmm import write_gmm
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.text import write_lines, write_mapping, write_text

DIM = 4
ARCS = (  # source, transition-id (pdf 0: 1, 2; pdf 1: 3, 4; pdf 2: 5, 6), word, cost, target
    (0, 1, 1, 0.5, 1),
    (0, 5, 2, 0.7, 2),
    (1, 2, 0, 0.1, 1),
    (1, 3, 2, 0.7, 3),
    (2, 6, 0, 0.1, 2),
    (2, 3, 1, 0.6, 3),
    (3, 4, 0, 0.2, 3),
    (3, 1, 1, 0.4, 1),
    (3, 5, 2, 0.4, 2),
)


@dataclass(frozen=True)
class Spoken:
    """Folders of data, graph and model, and how the features of each speaker were made."""

    data: Path
    graph: Path
    model: Path
    mixtures: Mixtures
    features: dict[str, np.ndarray]


def write_spoken(folder: Path, *, per_speaker: int = 4, frames: int = 60) -> Spoken:
    """Two speakers, whose frames are those of the mixtures after an affine map of each."""
    rng = np.random.default_rng(3)
    mixtures = make_mixtures(rng)
    write_model(folder / "model", mixtures)
    write_words_graph(folder / "graph")
    features, speakers, text = {}, {}, {}
    for speaker in ("ann", "bob"):
        change = np.eye(DIM) + rng.normal(0, 0.1, (DIM, DIM))
        offset = rng.normal(0, 0.7, DIM)
        for number in range(per_speaker):
            first = rng.integers(0, 2)
            words, pdfs = (["yes", "no"], (0, 1)) if first else (["no", "yes"], (2, 1))
            path = np.repeat(pdfs, (frames // 2, frames - frames // 2))
            utt = f"{speaker}-{number}"
            features[utt] = (sample(mixtures, path, rng) @ change + offset).astype(np.float32)
            speakers[utt], text[utt] = speaker, words
    data = folder / "data"
    data.mkdir()
    write_matrices(features.items(), data / "feats.ark", data / "feats.scp")
    write_mapping(speakers.items(), data / "utt2spk")
    write_text(text.items(), data / "text")
    return Spoken(data, folder / "graph", folder / "model", mixtures, features)


def make_mixtures(rng: np.random.Generator) -> Mixtures:
    """Two Gaussians for each of three pdfs."""
    return Mixtures.from_moments(
        np.array([0, 2, 4, 6]),
        np.array([0.4, 0.6] * 3),
        np.repeat(rng.normal(0, 2, (3, DIM)), 2, axis=0) + rng.normal(0, 0.7, (6, DIM)),
        rng.uniform(0.3, 0.6, (6, DIM)),
    )


def write_model(folder: Path, mixtures: Mixtures, name: str = "final.mdl") -> None:
    """Write a model that reads the features as they are."""
    folder.mkdir(exist_ok=True)
    write_gmm(build_monophone_model([1, 2, 3], 1), mixtures, folder / name)
    write_lines(["--norm-means=false"], folder / "cmvn_opts")
    write_lines(["--delta-order=0"], folder / "delta_opts")


def sample(mixtures: Mixtures, pdfs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Frames of these pdfs [T]."""
    gaussians = mixtures.offsets[pdfs] + rng.integers(0, 2, len(pdfs))
    spread = np.sqrt(mixtures.variances[gaussians])
    return np.asarray(mixtures.means[gaussians] + spread * rng.normal(size=spread.shape))


def write_words_graph(folder: Path) -> None:
    """Write a graph of sentences of yes and no; no phone is silence."""
    source, ilabel, olabel, weight, target = (
        np.array(column) for column in zip(*ARCS, strict=True)
    )
    fst = Fst(
        start=0,
        final=np.array([np.inf, np.inf, np.inf, 0.25], np.float32),
        offsets=np.searchsorted(source, np.arange(5)).astype(np.int64),
        ilabel=ilabel.astype(np.int32),
        olabel=olabel.astype(np.int32),
        weight=weight.astype(np.float32),
        nextstate=target.astype(np.int32),
    )
    (folder / "phones").mkdir(parents=True)
    write_fst(fst, folder / "HCLG.fst")
    (folder / "words.txt").write_text("<eps> 0\nyes 1\nno 2\n")
    (folder / "phones" / "silence.csl").write_text("7:8\n")
