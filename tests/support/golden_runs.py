"""Golden runs: small runs of every task by the command line, whose values later code must give.

A run is a folder. `corpus` is what it learns from, `run` what the verbs write. They are called in
the folder, so that nothing of a run depends on where it lies.

    python -m tests.support.golden_runs record FOLDER   # values of all runs, FOLDER/values.json
    python -m tests.support.golden_runs compare FOLDER  # the same on later code, bit for bit

`record` also stops each training in its second epoch, and `compare` goes on from there.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.cli import main
from tests.support.chain_corpus import CHAIN, write_chain_corpus
from tests.support.golden_values import Values, describe_changes, describe_machine, read_values
from tests.support.libraries import LIBRARIES
from tests.support.places import CONF
from tests.support.small_corpus import TINY, write_corpus
from tests.support.spoken_corpus import write_spoken_experiment
from tests.support.training_runs import at_batch
from tests.train.test_classes import CLASSES, write_classes
from tests.train.test_sequences import SEQUENCES, write_labels

CORPUS, RUN, STOPPED = Path("corpus"), Path("run"), Path("stopped")
Words = tuple[str, ...]
BASE = (str(CONF / "base.yaml"), "--set=data.dir=corpus")
FORWARD, DECODE = ("forward", "run", "--on=dev"), ("decode", "run", "--on=dev")
FEW = (*TINY, "train.epochs=3", "train.noise=0.2", "train.tempo=0.1")
SPEECH = (
    *(*TINY, "model.units=16", "train.epochs=4", "train.batch_sequences=4"),
    *("data.graph=[graph]", "decode.acoustic_scale=0.5", "decode.lm_weights=[2, 3]"),
)
FRAMES = (*SPEECH, "model.layers=2", "model.tied_directions=true", "train.noise=0.2")
STREAMS = (
    *(f"data.{name}.streams.again=data/{name}" for name in ("train", "dev")),
    *("streams.again.deltas=2", "streams.again.left_context=1"),
    *("data.train.labels={again: exp/ali, tids: exp/ali/ali.1.gz}", "model.dropout=0"),
    "data.dev.labels={again: exp/ali_dev, tids: exp/ali_dev/ali.1.gz}",
    "train.target_weights={again.pdfs: 0.5, tids: 0.25}",
)
STACK = [
    {"name": "maps", "kind": "conv2d", "channels": 4, "padding": 1, "pooling": 2, "dropout": 0.1},
    {"name": "frames", "kind": "conv1d", "channels": 12, "dilation": 2, "dropout": 0.1},
    {"name": "more", "kind": "conv1d", "channels": 12, "residual": True},
    {"name": "top", "kind": "recurrent", "unit": "lstm", "units": 8},
]
SMBR = (
    *("data.train.lattices=[denlats/train]", "data.dev.lattices=[denlats/dev]"),
    *("train.sequence.silence_phones=[1]", "train.sequence.xent_regularize=0.1"),
    *("train.epochs=3", "train.learning_rate=0.01"),
)
SPEAKERS = ("model.unit=mlp", "model.activation=p-sigmoid", "model.layers=2", "model.norm=none")
ADAPT = ("adapt", "run", "--ali=dev=corpus/exp/ali_dev", "--steps=5", "--out=run/adapted")


def call(*words: str) -> None:
    """A verb, which must succeed."""
    status = main([*words])
    assert status == 0, f"bayes-asr {' '.join(words)} ended with status {status}"


def write_speech() -> None:
    """Utterances of three words, with alignments and a graph."""
    write_spoken_experiment(CORPUS, {"train": 24, "dev": 8})


def write_lattices() -> None:
    """Such utterances, a network that has learnt a little of them, and its lattices."""
    write_speech()
    call("train", *BASE, *choose(*FRAMES, "train.epochs=2"), "--out=begun")
    call("denlats", "begun", "--graph=corpus/graph", "--out=corpus/denlats")


def write_phones() -> None:
    """Utterances of phones, what lattice-free MMI reads, and a graph whose words are phones."""
    chain = write_chain_corpus(CORPUS) / "exp/chain"
    sources = (f"--lexicon={chain}/lexicon.txt", f"--text={CORPUS}/data/train/text")
    model = (f"--model={chain}/final.mdl", f"--tree={chain}/tree")
    call("graph", *sources, *model, "--silence-prob=0", "--self-loop-scale=1", "--out=corpus/graph")


def choose(*settings: str) -> Words:
    """Options of `train`."""
    return tuple(f"--set={setting}" for setting in settings)


@dataclass(frozen=True)
class NetworkRun:
    """A network that is trained, and the verbs that read it.

    prepare: writes what training reads; begin: where the configuration begins; stop: the batch, of
    training or validation, in which it is stopped: in the second epoch.
    """

    prepare: Callable[[], object]
    settings: Words
    verbs: tuple[Words, ...] = (FORWARD, DECODE)
    begin: Words = BASE
    stop: int = 12

    def run(self) -> None:
        """Prepare, train and read."""
        self.prepare()
        self.finish()

    def finish(self) -> None:
        """Train to the end, from the last checkpoint if there is one, and read."""
        call(*self.training)
        for words in self.verbs:
            call(*words)

    @property
    def training(self) -> Words:
        """The verb that trains."""
        return "train", *self.begin, *choose(*self.settings), "--out=run"

    def halt(self) -> None:
        """Prepare, and train until a signal stops it inside an epoch; the run is then `stopped`."""
        self.prepare()
        with at_batch(self.stop, lambda: os.kill(os.getpid(), signal.SIGTERM)):
            assert main([*self.training]) == 128 + signal.SIGTERM
        assert {path.name for path in RUN.glob("*.pt")} >= {"unfinished.pt", "last.pt"}
        RUN.replace(STOPPED)

    def resume(self) -> None:
        """Go on from a copy of `stopped`, and read."""
        shutil.rmtree(RUN, ignore_errors=True)
        shutil.copytree(STOPPED, RUN)
        self.finish()


class ResumedRun(NetworkRun):
    """A network that is stopped and goes on."""

    def run(self) -> None:
        """Stop, and go on."""
        self.halt()
        self.resume()


class MixtureRun:
    """Gaussian mixtures in Kaldi's steps, from equal lengths to adapted speakers."""

    passes: Words = ("--passes=11", "--gaussians=200")
    leaves: Words = ("--leaves=20", "--cluster-threshold=0")

    def run(self) -> None:
        """Train four models, each on the alignments of the one before, and decode with the last."""
        write_speech()
        self.write_lang()
        self.train("mono", "mono")
        self.train("deltas", "tri1", "run/mono_ali", *self.leaves)
        self.train("lda-mllt", "tri2", "run/tri1_ali", *self.leaves, "--dim=6")
        self.train("sat", "tri3", "run/tri2_ali", *self.leaves)
        sources = ("--lang=lang", "--lm=corpus/arpa", "--model=run/tri3/final.mdl")
        call("graph", *sources, "--out=run/graph")
        search = ("--lmwt", "2", "12", "--min-count=50")
        call("gmm", "decode", "corpus/data/dev", "run/graph", "run/tri3", "run/decode_dev", *search)

    def write_lang(self) -> None:
        """The lang folder of a dictionary with silence."""
        lexicon = CORPUS / "dict/lexicon.txt"
        lexicon.write_text(f"sil sil\n{lexicon.read_text()}")
        (lexicon.parent / "silence_phones.txt").write_text("sil\n")
        (lexicon.parent / "nonsilence_phones.txt").write_text("a\nb\nc\n")
        options = ("--oov=sil", "--position-dependent-phones=false")
        call("gmm", "lang", "corpus/dict", "lang", *options)

    def train(self, step: str, name: str, *words: str) -> None:
        """A model, and the alignments by it."""
        out, data = f"run/{name}", ("corpus/data/train", "lang")
        call("gmm", step, *data, *words[:1], out, *words[1:], *self.passes)
        call("gmm", "align", *data, out, f"{out}_ali")


RUNS: dict[str, NetworkRun | MixtureRun] = {
    "frames": NetworkRun(write_speech, FRAMES),
    "classes": NetworkRun(
        lambda: write_classes(write_corpus(CORPUS)),
        (*FEW, *CLASSES),
        (("classify", "run", "--on=dev"),),
        stop=7,
    ),
    "sequences": NetworkRun(
        lambda: write_labels(write_corpus(CORPUS)),
        (*TINY, *SEQUENCES, "train.epochs=4", "train.teacher_forcing={1: 1.0, 3: 0.4}"),
        (("generate", "run", "--on=dev"),),
        stop=7,
    ),
    "smbr": NetworkRun(write_lattices, SMBR, begin=("begun", "--criterion=smbr")),
    "lfmmi": NetworkRun(
        write_phones,
        (
            *(*TINY, *CHAIN, "train.epochs=8", "train.noise=0.2", "data.graph=[graph]"),
            *("decode.acoustic_scale=1", "decode.lm_weights=[0.5, 1]"),
        ),
        stop=7,
    ),
    "streams": NetworkRun(write_speech, (*SPEECH, *STREAMS)),
    "stack": NetworkRun(write_speech, (*SPEECH, f"model.stack={STACK}")),
    "gmm": MixtureRun(),
    "adaptation": NetworkRun(
        write_speech,
        (*SPEECH, *SPEAKERS),
        (ADAPT, *(tuple(w.replace("run", "run/adapted") for w in v) for v in (FORWARD, DECODE))),
    ),
    "resumed": ResumedRun(write_speech, FRAMES),
}


def compute(name: str, folder: Path) -> Values:
    """The values of a run in a new folder."""
    return act(RUNS[name].run, folder)


def act(action: Callable[[], None], folder: Path) -> Values:
    """The values of a run after what is done in its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with chdir(folder):
        action()
        return read_values(RUN)


def record(folder: Path) -> None:
    """Write the values of all runs, and stop each training in its second epoch."""
    values = {name: compute(name, folder / name) for name in RUNS}
    content = {"machine": describe_machine(), "runs": values}
    (folder / "values.json").write_text(json.dumps(content, indent=0) + "\n")
    for name, run in RUNS.items():
        if isinstance(run, NetworkRun):
            (folder / "stopped" / name).mkdir(parents=True)
            with chdir(folder / "stopped" / name):
                run.halt()


def compare(folder: Path) -> list[str]:
    """What is not the same as in a folder of `record`, a line each."""
    faults = [library.fault for library in LIBRARIES if library.fault]
    assert not faults, f"{'; '.join(faults)}: python setup.py build_ext --inplace"
    recorded = json.loads((folder / "values.json").read_text())["runs"]
    changes = []
    for name, run in RUNS.items():
        shutil.rmtree(folder / "again", ignore_errors=True)
        changes += [
            f"{name}: {x}"
            for x in describe_changes(recorded[name], compute(name, folder / "again"))
        ]
        if isinstance(run, NetworkRun):
            values = act(run.resume, folder / "stopped" / name)
            changes += [f"{name}, resumed: {x}" for x in describe_changes(recorded[name], values)]
    return changes


if __name__ == "__main__":
    command, place = sys.argv[1], Path(sys.argv[2]).absolute()
    if command == "record":
        record(place)
    else:
        found = compare(place)
        print(*found[:50], f"{len(found)} values differ", sep="\n", file=sys.stderr)
        sys.exit(bool(found))
