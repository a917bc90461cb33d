"""Made-up scored runs for the tests of the report."""

import json
import math
import random
from pathlib import Path

from bayes_asr.evaluate.score.counts import count_errors
from bayes_asr.evaluate.score.scores import Score, UtteranceScore, write_scores

PHONES = str.split("aa ae b d dh eh er ih iy k l m n r s sil t z")


def make_score(
    seed: int, rate: float, name: str, convention: str, utterances: int = 16, speakers: int = 8
) -> Score:
    """Phones of a few speakers, wrong with about this probability."""
    said = random.Random(0 if name == "test" else 1)
    rng = random.Random(f"{seed} {rate} {name}")
    optional = frozenset({"sil"} if convention == "forgiving" else ())
    scored = []
    for i in range(utterances):
        ref = ("sil", *said.choices(PHONES, k=30), "sil")
        kept = [r for r in ref if rng.random() > rate / 3]
        hyp = tuple(rng.choice(PHONES) if rng.random() < rate / 1.5 else r for r in kept)
        counts = count_errors(ref, hyp, "sclite", optional)
        speaker = f"spk{i % speakers}"
        scored.append(UtteranceScore(f"{speaker}-{i:03d}", speaker, counts, ref, hyp))
    return Score(name, "per", convention, optional, "sclite", 5.0 + seed % 2, 0.0, scored)


def make_run(folder: Path, rate: float = 0.3, seed: int = 1) -> Path:
    """A run directory as train and score leave it, without its checkpoints."""
    for name in ("dev", "test"):
        scores = [make_score(seed, rate, name, c) for c in ("strict", "forgiving")]
        write_scores(scores, folder / f"score_{name}.json")
    history = [
        {
            "epoch": epoch,
            "train_loss": 3 * math.exp(-epoch / 5) + 0.5,
            "train_error": 0.6 * math.exp(-epoch / 5) + 0.1,
            "dev_loss": 3 * math.exp(-epoch / 5) + 0.9,
            "dev_error": 0.6 * math.exp(-epoch / 5) + 0.1 + rate / 2,
            "learning_rate": 1e-3 * 0.5 ** (epoch // 8),
            "gradient_norm": 1.0 + math.sin(epoch) / 3,
            "frames_per_second": 5000.0,
            "seconds": 20.0,
        }
        for epoch in range(1, 25)
    ]
    (folder / "history.jsonl").write_text("".join(json.dumps(h) + "\n" for h in history))
    (folder / "env.json").write_text(json.dumps({"parameters": 6_103_000}))
    return folder


def make_mixtures(folder: Path, rate: float = 0.4) -> Path:
    """The folder of Gaussian mixtures as `gmm score` leaves it."""
    make_run(folder, rate)
    (folder / "history.jsonl").unlink()
    environment = {
        "parameters": 81_000,
        "gaussians": 1000,
        "frontend": {"kind": "mfcc", "cepstra": 13},
    }
    (folder / "env.json").write_text(json.dumps(environment))
    return folder
