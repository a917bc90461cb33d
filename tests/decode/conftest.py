"""What tests of several modules hear with."""

from pathlib import Path

import pytest

from tests.support.places import CONF
from tests.support.tones import TINY, WORDS, command, write_aligned, write_set


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on spoken tones that is trained and scored, not to be changed."""
    root = tmp_path_factory.mktemp("tones")
    for seed, (name, count) in enumerate({"train": 32, "dev": 8, "test": 8}.items()):
        write_aligned(root, name, write_set(root / "data" / name, count, seed))
    words = root / "dict"
    words.mkdir()
    (words / "lexicon.txt").write_text("".join(f"{w} {p}\n" for w, p in WORDS.items()))
    (words / "optional_silence.txt").write_text("sil\n")
    text, ali = root / "data" / "train" / "text", root / "exp" / "ali"
    graph = ("--lexicon", words / "lexicon.txt", "--text", text, "--model", ali / "final.mdl")
    command("graph", *graph, "--out", root / "exp" / "graph")
    run = root / "run"
    chosen = [f"--set={key}={value}" for key, value in TINY.items()]
    command("train", CONF / "base.yaml", *chosen, f"--set=data.dir={root}", "--out", run)
    for name in ("dev", "test"):
        command("forward", run, "--on", name)
        command("decode", run, "--on", name)
    command("score", run)
    return run
