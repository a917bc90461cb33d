"""Made-up scored runs for the tests of the report."""

import argparse
import json
import math
import random
from html.parser import HTMLParser
from pathlib import Path

from bayes_asr.cli import report
from bayes_asr.evaluate.score.counts import count_errors
from bayes_asr.evaluate.score.scores import Score, UtteranceScore, write_scores

KEY = ("test", "strict")  # the scores of a set by a convention
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


def run_report(*argv: str | Path) -> None:
    """Run bayes-asr report with these arguments."""
    parser = argparse.ArgumentParser()
    report.add_arguments(parser)
    report.run(parser.parse_args([str(arg) for arg in argv]))


class Reader(HTMLParser):
    """The texts of a page by tag, its labels, and whether its tags are nested."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attributes)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def labels(self) -> list[str]:
        return [str(a["aria-label"]) for _, a in self.attributes if a.get("role") == "img"]


def read_page(out: Path) -> Reader:
    """The page of a report, whose tags are all closed."""
    reader = Reader((out / "report.html").read_text())
    assert not reader.open
    return reader
