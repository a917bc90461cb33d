"""A made-up LibriSpeech in OpenSLR's layout: letters are tones, so that words can be recognised."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

RATE = 16000
WORDS = ("A", "BAD", "CAB", "DO", "FEED", "O'ER")
TONES = {letter: 300 + 450 * place for place, letter in enumerate("abcdefor")}  # Hz
MINI = {"train-clean-5": (6, 5), "dev-clean-2": (2, 4)}  # readers, utterances of each


def write_librispeech(corpus: Path, sets: Mapping[str, tuple[int, int]] = MINI) -> Path:
    """Write sets of so many readers and utterances of each, in two chapters, and SPEAKERS.TXT."""
    import soundfile

    root = corpus / "LibriSpeech"
    rng = np.random.default_rng(0)
    table = ["; the readers", ";ID  |SEX| SUBSET           |MINUTES| NAME"]
    for place, (name, (readers, count)) in enumerate(sets.items(), 1):
        for reader in range(100 * place, 100 * place + readers):
            table.append(f"{reader:<5}| {'FM'[reader % 2]} | {name:<16} | 1.00 | A | B")
            for number in range(count):
                chapter = root / name / str(reader) / str(7 + 70 * (number % 2))
                stem = f"{reader}-{chapter.name}"
                chapter.mkdir(parents=True, exist_ok=True)
                words = rng.choice(WORDS, 4)
                with (chapter / f"{stem}.trans.txt").open("a") as file:
                    print(f"{stem}-{number:04d}", *words, file=file)
                sound = chapter / f"{stem}-{number:04d}.flac"
                soundfile.write(sound, speak(words, rng), RATE, subtype="PCM_16")
    (root / "SPEAKERS.TXT").write_text("\n".join(table) + "\n")
    return corpus


def speak(words: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A sound of words, [N] from -1 to 1: each letter has a tone, each word a pause before it."""
    letters = " ".join(["", *words, ""]).lower().replace("'", "")
    lengths = rng.integers(1400, 2200, len(letters))
    voice = rng.uniform(0.95, 1.05)
    pitch = np.repeat([voice * TONES.get(letter, 0) for letter in letters], lengths)
    return 0.1 * np.sin(2 * np.pi * np.cumsum(pitch) / RATE) + rng.normal(0, 0.005, len(pitch))
