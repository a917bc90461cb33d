"""A whole corpus of the recipe `folder`, some of whose files are other ones."""

import random
import wave
from pathlib import Path

import numpy as np

from bayes_asr.kaldi_io.text import write_lines
from tests.attacks import verbs
from tests.attacks.breakages import impatient
from tests.attacks.laboratory import inside
from tests.attacks.mutations import mutate
from tests.attacks.verbs import RefusedError, verb
from tests.support.places import RECIPES

SPEAKERS = ("anna", "bert", "carl", "dora", "emil")
WORDS = ("naïve", "words", "one", "two")
GRAMS = "\n".join(f"-0.7 {word}" for word in ("</s>", *WORDS))
TABLES = {
    "lexicon.txt": "".join(f"{word} {' '.join(word.upper())}\n" for word in WORDS),
    "lm.arpa": f"\\data\\\nngram 1=6\n\n\\1-grams:\n-99 <s>\n{GRAMS}\n\n\\end\\\n",
    "dev": "dora\n",
    "test": "emil\n",
}


def write_corpus(corpus: Path) -> None:
    """Write half a second of sound for each of ten files, and all tables that may lie there."""
    names = [f"{speaker}/take{take}" for speaker in SPEAKERS for take in range(2)]
    sound = np.random.default_rng(0).integers(-9000, 9000, 8000).astype("<i2").tobytes()
    for name in names:
        (corpus / name).parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(corpus / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(sound)
    write_lines(
        (f"{n} {WORDS[i % 4]} {WORDS[i // 4]}" for i, n in enumerate(names)), corpus / "text"
    )
    write_lines((f"{name} {name.partition('/')[0]}" for name in names), corpus / "utt2spk")
    for name, content in TABLES.items():
        (corpus / name).write_text(content, encoding="utf-8")


def prepare(*options: str) -> None:
    """Stage 0; RefusedError if it says no, a line for each thing that is wrong."""
    script = RECIPES / "folder/prepare.py"
    status, _, said = verbs.run_main(script, ["--corpus", "corpus", "--out", "out", *options])
    lines = said.splitlines()
    assert bool(status) == any(": error: " in line for line in lines), (status, lines)
    assert "Traceback" not in said, lines
    if status:
        raise RefusedError(lines[-1])


def attack_corpora(rng: random.Random, folder: Path) -> None:
    """Stage 0 of one or two changed files; what it accepts becomes features and a graph."""
    write_corpus(folder / "corpus")
    files = sorted(path for path in (folder / "corpus").rglob("*") if path.is_file())
    tables = [path for path in files if path.suffix != ".wav"]
    for name in {f for f in ("dev", "utt2spk", "lexicon.txt", "lm.arpa") if rng.random() < 0.2}:
        (folder / "corpus" / name).unlink()
        tables.remove(folder / "corpus" / name)
    for path in rng.sample(tables, rng.choice((1, 1, 2))) if rng.random() < 0.8 else files[:1]:
        mutate(path, rng, tables)
    with inside(folder), impatient():
        prepare(*rng.choice(([], [], ["--fold"])))
        verb("features", *(f"out/data/{name}" for name in ("train", "dev", "test")))
        made = "out/data/local"
        verb(
            "graph",
            "--lexicon",
            f"{made}/dict/lexicon.txt",
            "--lm",
            f"{made}/lm.arpa",
            "--silence",
            "SIL",
            "--out",
            "graph",
        )
