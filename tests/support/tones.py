"""Spoken words whose phones are tones, their alignments, and a small network for them."""

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayes_asr.cli import main
from bayes_asr.data.sound.feature_directories import write_features
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.data.targets.marks import find_frames, spread_states, write_alignments
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.kaldi_io.initial_mdl import STATES, build_monophone_model
from tests.support.sounds import riff

RATE = 16000
SETS = ("train", "dev", "test")
PHONES = {"sil": 1, "a": 2, "b": 3, "c": 4}
WORDS = {"one": "a b", "two": "b c", "six": "c a c"}
TONES = {"a": 500, "b": 1300, "c": 2900}  # Hz
TINY = {
    "features.cmvn": "mean-variance",
    "features.left_context": 2,
    "features.right_context": 2,
    "model.layers": 1,
    "model.units": 24,
    "train.epochs": 6,
    "train.learning_rate": 0.01,
    "train.batch_sequences": 4,
    "decode.acoustic_scale": 0.3,
    "decode.lm_weights": "[1, 2, 4]",
}


@dataclass(frozen=True)
class Spoken:
    """Samples [N, 1] at 16 kHz; first samples of the phones; words, begins and ends in seconds."""

    samples: np.ndarray
    phones: list[str]
    starts: np.ndarray
    words: list[tuple[str, float, float]]


def speak(words: list[str], rng: np.random.Generator) -> Spoken:
    """Pauses of noise before, between and after words, whose phones are tones of 70 to 140 ms."""
    phones = ["sil"]
    for word in words:
        phones += [*WORDS[word].split(), "sil"]
    lengths = [int(rng.uniform(0.07, 0.14) * RATE * (1 + (p == "sil"))) for p in phones]
    waves = [
        6000 * np.sin(2 * np.pi * TONES.get(p, 0) * np.arange(n) / RATE)
        for p, n in zip(phones, lengths, strict=True)
    ]
    samples = np.concatenate(waves) + rng.normal(0, 300, sum(lengths))
    starts = np.cumsum([0, *lengths])
    silences = [i for i, phone in enumerate(phones) if phone == "sil"]
    times = [(starts[a + 1] / RATE, starts[b] / RATE) for a, b in itertools.pairwise(silences)]
    spans = [(word, *span) for word, span in zip(words, times, strict=True)]
    return Spoken(samples.round().astype(np.int16)[:, None], phones, starts[:-1], spans)


def write_set(folder: Path, count: int, seed: int) -> dict[str, Spoken]:
    """Write a data directory with features, and its sounds."""
    rng, said = np.random.default_rng(seed), {}
    folder.mkdir(parents=True)
    for number in range(count):
        utt = f"s{number // 4}-{number}"
        said[utt] = speak(rng.choice(list(WORDS), 4).tolist(), rng)
        (folder / f"{utt}.wav").write_bytes(riff(said[utt].samples))
    for name, row in (
        ("wav.scp", lambda utt: f"{utt}.wav"),
        ("utt2spk", lambda utt: utt.split("-")[0]),
        ("text", lambda utt: " ".join(word for word, _, _ in said[utt].words)),
    ):
        (folder / name).write_text("".join(f"{utt} {row(utt)}\n" for utt in said))
    write_features(folder, Analysis("fbank", bands=24))
    return said


def write_aligned(root: Path, name: str, said: dict[str, Spoken]) -> None:
    """Write the alignments of a set, which are known."""
    model = build_monophone_model(list(PHONES.values()), STATES)
    alignments = {}
    for utt, matrix in iter_matrices(root / "data" / name / "feats.scp"):
        marks = find_frames(said[utt].starts, len(matrix), RATE)
        phones = [PHONES[phone] for phone in said[utt].phones]
        alignments[utt] = spread_states(phones, marks.ends, model)
    folder = root / "exp" / ("ali" if name == "train" else f"ali_{name}")
    write_alignments(alignments.items(), model, PHONES, folder)


def command(*arguments: str | Path) -> None:
    assert main([*map(str, arguments)]) == 0
