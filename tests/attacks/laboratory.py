"""A place where things are broken: a corpus, a graph and a run of it, copied for each experiment.

Paths in the copy are relative to it, and commands run there: messages are the same everywhere.
"""

import contextlib
import io
import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.cli import main
from bayes_asr.kaldi_io.context_dependency import build_monophone_tree
from bayes_asr.kaldi_io.text import write_mapping
from bayes_asr.kaldi_io.tree import write_tree
from tests.support.places import ROOT
from tests.support.small_corpus import MODEL, write_corpus

LEXICON = "a bah\nb dah\nsilence sil\n"
PHONES = {"<eps>": 0, "sil": 2, "bah": 3, "dah": 7}
CONFIG = """\
data: {dir: .}
model: {layers: 1, units: 8}
train: {epochs: 2, batch_sequences: 3, learning_rate: 0.02}
decode: {lm_weights: [1, 2], insertion_penalties: [0]}
"""
WHOLE_WAY = """\
graph --lexicon dict/lexicon.txt --text data/train/text --model exp/ali/final.mdl \
    --phones exp/ali/phones.txt --silence sil --out exp/graph
train corpus.yaml --out run
forward run --on dev
forward run --on test
decode run --on dev
decode run --on test
score run
"""


@dataclass(frozen=True)
class Said:
    """What a command left: its exit status, what it printed, and the complaint without its verb."""

    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """What stands behind `bayes-asr VERB: error: ` in the last line."""
        last = (self.err.splitlines() or [""])[-1]
        return last.partition(": error: ")[2]


def bayes_asr(command: str) -> Said:
    """Run a command line in this process and in the working directory."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(shlex.split(command))
        except SystemExit as stop:  # argparse
            status = int(str(stop.code))
    printed, said = out.getvalue(), err.getvalue()
    for place in (Path.cwd(), ROOT):
        printed, said = printed.replace(f"{place}/", ""), said.replace(f"{place}/", "")
    return Said(status, printed, said)


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in `folder`."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def build(folder: Path) -> Path:
    """Make the laboratory at `folder`."""
    write_corpus(folder)
    (folder / "corpus.yaml").write_text(CONFIG)
    (folder / "dict").mkdir()
    (folder / "dict" / "lexicon.txt").write_text(LEXICON)
    write_mapping(PHONES.items(), folder / "exp" / "ali" / "phones.txt")
    pdfs = {phone: [2 * i, 2 * i + 1] for i, phone in enumerate(sorted(MODEL.topology))}
    write_tree(build_monophone_tree(pdfs), folder / "exp" / "ali" / "tree")
    with inside(folder):
        for command in WHOLE_WAY.replace("\\\n", "").splitlines():
            said = bayes_asr(command)
            assert said.status == 0, said.err
    return folder


def copy(laboratory: Path, folder: Path) -> Path:
    """Copy it to `folder`; its scp files become relative, its run belongs to the copy."""
    shutil.copytree(laboratory, folder)
    for scp in folder.rglob("*.scp"):
        scp.write_text(scp.read_text().replace(f"{laboratory}/", ""))
    config = folder / "run" / "config.yaml"
    config.write_text(config.read_text().replace(str(laboratory), str(folder)))
    return folder


def is_passing(name: Path) -> bool:
    """Whether a file, by its name below a folder, is a log, how a run stands, or of the index."""
    return name.suffix == ".log" or name.name == "state.json" or name.parts[0] == "index"


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` but those that pass."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and not is_passing(path.relative_to(folder))
    }
