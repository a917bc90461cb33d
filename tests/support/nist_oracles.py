"""NIST's sclite as an oracle, and the pairs of token sequences to ask it about."""

import json
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

CONVENTIONS = {"strict": frozenset(), "forgiving": frozenset({"a"})}
"""Reference tokens that may be missing."""
COUNTS = Path(__file__).with_name("sclite_counts.json")
"""Written by `python -m tests.support.nist_oracles`."""


def read_trn(path: Path) -> dict[str, list[str]]:
    rows = (line.rsplit("(", 1) for line in path.read_text().splitlines())
    return {name.strip(" )\n"): words.split() for words, name in rows}


def write_trn(path: Path, text: Mapping[str, Sequence[str]]) -> None:
    lines = (f"{' '.join(words)} ({utterance})\n" for utterance, words in text.items())
    path.write_text("".join(lines))


def random_pairs(seed: int, number: int) -> list[tuple[list[str], list[str]]]:
    """Pairs over two to seven letters: half unrelated, half a reference with errors."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(number):
        letters = "abcdefg"[: rng.randint(2, 7)]
        ref = rng.choices(letters, k=rng.randint(1, 14))
        if rng.random() < 0.5:
            hyp = rng.choices(letters, k=rng.randint(0, 14))
        else:
            kept = [r for r in ref if rng.random() > 0.15]
            hyp = [r if rng.random() > 0.2 else rng.choice(letters) for r in kept]
        pairs.append((ref, hyp))
    return pairs


def sclite_scores(
    folder: Path, pairs: Sequence[tuple[list[str], list[str]]], optional: frozenset[str]
) -> list[list[int]]:
    """What sclite counts in each pair: correct, substituted, deleted, inserted."""
    if not shutil.which("sctk"):
        pytest.skip("sclite is not installed (Debian package sctk)")
    names = [f"s-{i:05d}" for i in range(len(pairs))]
    refs = ([f"({r})" if r in optional else r for r in ref] for ref, _ in pairs)
    write_trn(folder / "ref.trn", dict(zip(names, refs, strict=True)))
    write_trn(folder / "hyp.trn", dict(zip(names, (hyp for _, hyp in pairs), strict=True)))
    command = "sctk sclite -r ref.trn trn -h hyp.trn trn -i rm -D -o pra -O . -n out"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    found = re.findall(
        r"^id: \(s-(\d+)\)\n(?:.*\n)*?Scores: \(#C #S #D #I\) (.*)$",
        (folder / "out.pra").read_text(),
        re.MULTILINE,
    )
    return [list(map(int, scores.split())) for _, scores in sorted(found)]


def write_counts(path: Path) -> None:
    """Store what the installed sclite counts in 1,000 random pairs."""
    pairs = random_pairs(seed=1, number=1000)
    with tempfile.TemporaryDirectory() as folder:
        counts = {
            name: sclite_scores(Path(folder), pairs, optional)
            for name, optional in CONVENTIONS.items()
        }
    path.write_text(json.dumps(counts, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write_counts(COUNTS)
