"""A made-up corpus with transcripts and a dictionary: features that tell the phones apart."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bayes_asr.tables.text import write_text
from tests.support.small_corpus import DIMENSIONS, write_data_dir

WORDS = {"one": "a b", "two": "b c", "six": "c a c"}
PHONES = {"sil": 0, "a": 1, "b": 2, "c": 3}
MEANS = 3 * np.random.default_rng(0).standard_normal((len(PHONES), DIMENSIONS))


def write_spoken_corpus(root: Path, counts: Mapping[str, int]) -> Path:
    """Write data/SET with `counts[SET]` utterances of three words each, three a speaker, and dict.

    Returns `root`.
    """
    for name, count in counts.items():
        rng = np.random.default_rng(count)
        features, text = {}, {}
        for number in range(count):
            utt = f"{name}{number // 3}-{number}"
            words = rng.choice(list(WORDS), 3).tolist()
            phones = ["sil", *(p for w in words for p in WORDS[w].split()), "sil"]
            frames = np.repeat([PHONES[p] for p in phones], rng.integers(3, 9, len(phones)))
            noise = rng.standard_normal((len(frames), DIMENSIONS))
            features[utt] = (MEANS[frames] + 0.3 * noise).astype(np.float32)
            text[utt] = words
        write_data_dir(root / "data" / name, features)
        write_text(text.items(), root / "data" / name / "text")
    lang = root / "dict"
    lang.mkdir()
    (lang / "lexicon.txt").write_text("".join(f"{w} {p}\n" for w, p in WORDS.items()))
    (lang / "optional_silence.txt").write_text("sil\n")
    return root
