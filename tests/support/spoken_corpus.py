"""A made-up corpus with transcripts and a dictionary: features that tell the phones apart."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bayes_asr.cli import main
from bayes_asr.kaldi_io.text import write_text
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


def write_spoken_experiment(root: Path, counts: Mapping[str, int]) -> Path:
    """Write such a corpus with first alignments of train and dev, and a graph of its words."""
    lang = write_spoken_corpus(root, counts) / "dict"
    (root / "arpa").write_text(
        "\\data\\\nngram 1=5\n\n\\1-grams:\n-0.7 <s>\n-0.7 </s>\n"
        + "".join(f"-0.7 {word}\n" for word in WORDS)
        + "\n\\end\\\n"
    )
    model = root / "exp" / "ali" / "final.mdl"
    for name, out, more in (("train", "ali", []), ("dev", "ali_dev", [f"--model={model}"])):
        given = [f"--data={root / 'data' / name}", f"--lang={lang}", f"--out={root / 'exp' / out}"]
        assert main(["align", "--flat", *given, *more]) == 0
    graph = [f"--lexicon={lang / 'lexicon.txt'}", f"--lm={root / 'arpa'}", f"--model={model}"]
    assert main(["graph", *graph, f"--out={root / 'graph'}"]) == 0
    return root
