"""Places where every verb finds what it reads, and commands of each verb."""

import atexit
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from bayes_asr.kaldi_io.text import write_lines, write_mapping
from tests.attacks import laboratory
from tests.attacks.breakages import nothing, sounds
from tests.attacks.children import fetch
from tests.attacks.fuzzing import FORMATS
from tests.attacks.interference import (
    DECODE,
    WRITES,
    write_counts,
    write_language,
    write_sounds,
)
from tests.attacks.laboratory import bayes_asr, inside
from tests.attacks.replica import Replica
from tests.support import their_cfg, their_networks
from tests.support.chain_corpus import write_chain_corpus
from tests.support.small_corpus import MODEL, SETS, made_up
from tests.support.small_lattices import write_denlats
from tests.support.timit_tree import write_flat

CLASSES = """\
include: corpus.yaml
data: {classes: utt2lang}
model: {stack: [{name: whole, kind: pool}]}
"""
SEQUENCES = """\
include: corpus.yaml
data: {sequences: text}
features: {cmvn: mean-variance}
model:
  stack: [{name: top, kind: recurrent, unit: gru, units: 6}]
  decoder: {units: 6, embedding: 4, attention_units: 6, attention: location}
score: {metric: wer}
"""
LATTICES = """\
include: corpus.yaml
data: {train: {lattices: [denlats]}}
train: {criterion: smbr, init_from: [{run: run}], sequence: {silence_phones: [2]}}
"""
LATTICE_FREE = """\
data: {dir: free, chain: [exp/chain]}
model: {layers: 1, units: 8}
train: {epochs: 1, batch_sequences: 6, criterion: lfmmi, monophone_weight: 0}
"""
SPACE = "train.learning_rate: {log_uniform: [1e-4, 1e-1]}\nmodel.units: {ints: [4, 8]}\n"
MIXTURES = """\
gmm mono data/train lang mono --passes 2 --gaussians 12
gmm align data/dev lang mono mono_dev
gmm deltas data/train lang mono tri --passes 1 --leaves 8 --gaussians 12
gmm lda-mllt data/train lang tri lda --passes 2 --leaves 8 --gaussians 12 --dim 2
gmm sat data/train lang lda sat --passes 2 --leaves 8 --gaussians 12
graph --lang lang --text data/train/text --model sat/final.mdl --out sat/graph
graph --lang lang --text data/train/text --model mono/final.mdl --out mono/graph
gmm decode data/dev sat/graph sat sat/decode_dev --lmwt 1 2
gmm align data/train lang sat ali
gmm features data/dev sat sat/decode_dev adapted
"""
HEARD = f"features data/train data/dev data/test\n{laboratory.WHOLE_WAY}".replace(
    "train corpus.yaml", "train corpus.yaml --new"
)
SMALL_G2P = "--set train.epochs=8 model.units=16 train.learning_rate=0.01 train.batch_sequences=8"
STM = ";; a comment\nr 1 anna 0.00 1.50 <o,f0> hello (uh) world\nr 1 bert 1.50 2.00 yes\n"
CTM = "r 1 0.5 0.25 hello 0.9\nr 1 1.6 0.2 yes 0.7\n"
BASELINE = """\
include: corpus.yaml
data:
  train: {alignments: [ali]}
  dev: {features: [adapted]}
  test: {features: [adapted]}
  graph: [sat/graph]
"""


def write_speech(place: Path) -> None:
    """Write data/sound, of RIFF and SPHERE, and speech, segments of other formats of sound."""
    sounds(nothing)(place)
    speech = place / "speech"
    speech.mkdir()
    forms = [form for form in FORMATS if form.name.endswith(("aiff", "flac", "ogg", "mp3"))]
    for form in forms:
        form.write(speech / form.name)
    names = {form.name.partition(".")[2]: f"speech/{form.name}" for form in forms}
    write_mapping(sorted(names.items()), speech / "wav.scp")
    write_mapping(
        ((f"s-{name}", f"{name} 0.01 0.15") for name in sorted(names)), speech / "segments"
    )
    write_mapping(((f"s-{name}", "s") for name in sorted(names)), speech / "utt2spk")


def write_heard(place: Path) -> None:
    """Write sounds of the corpus, and of every format."""
    write_sounds(place)
    write_speech(place)
    (place / "words.txt").write_text("a b\n")


def write_their_training(place: Path) -> None:
    """Write a configuration of pytorch-kaldi, its networks and counts."""
    form = {"batch_norm": True, "bidirectional": True, "activation": "tanh", "dropout": 0.2}
    options = their_networks.options("liGRU", **form)
    state = their_networks.make_up("liGRU", batch_norm=True, bidirectional=True)
    head_options = {
        "dnn_lay": "N_out_lab_cd",
        "dnn_drop": "0.0",
        "dnn_act": "softmax",
        **{f"dnn_use_{n}": "False" for n in ("batchnorm", "laynorm")},
        **{f"dnn_use_{n}_inp": "False" for n in ("batchnorm", "laynorm")},
    }
    cfg = their_cfg.write_networks(place, ("liGRU", options), ("MLP", head_options))
    text = cfg.read_text().replace("exp/ali_train", "exp/ali")
    for option in (their_cfg.CMVN, their_cfg.DELTAS):
        text = text.replace(option, "")
    text = text.replace("cw_left=1", "cw_left=0").replace("cw_right=2", "cw_right=0")
    cfg.write_text(text.replace("counts_from = lab_cd", "counts_from = counts"))
    (place / "counts").write_text(f" [ {' '.join(map(str, range(1, MODEL.num_pdfs + 1)))} ]\n")
    inputs = 2 * their_networks.UNITS[-1]
    head = {
        "wx.0.weight": torch.randn(MODEL.num_pdfs, inputs),
        "wx.0.bias": torch.randn(MODEL.num_pdfs),
    }
    for number, network in enumerate((state, head), 1):
        torch.save({"model_par": network, "optimizer_par": {"lr": 0.1}}, place / f"{number}.pkl")


def write_results(place: Path) -> None:
    """Write what is counted by NIST's rules, and pdf counts."""
    write_counts(place)
    (place / "ref.stm").write_text(STM)
    (place / "hyp.ctm").write_text(CTM)
    (place / "rules.glm").write_text(";;\n[hello] => [hi] / [ ] __ [ ]\n")
    (place / "phones.map").write_text("a a x\nb b y\n")
    (place / "space.yaml").write_text(SPACE)


def write_spellings(place: Path) -> None:
    """Write a lexicon whose words are spelled by their phones."""
    words = map("".join, product("abc", "de", "abc", "df"))
    write_lines((f"{word} {' '.join(word)}" for word in words), place / "spellings.txt")


def write_tasks(place: Path) -> None:
    """Write configurations of networks with other tasks, and what these learn."""
    for name, count in SETS.items():
        classes = ((utt, "xyz"[i % 3]) for i, utt in enumerate(made_up(name, count)[0]))
        write_mapping(classes, place / "data" / name / "utt2lang")
    write_spellings(place)
    write_denlats(place / "denlats", "train", "dev")
    for name, config in (("classes", CLASSES), ("sequences", SEQUENCES), ("lattices", LATTICES)):
        (place / f"{name}.yaml").write_text(config)


def write_recipe_of_mixtures(place: Path) -> None:
    """Write a lang folder, and a configuration of adapted features."""
    write_language(place)
    (place / "baseline.yaml").write_text(BASELINE)


def write_lattice_free(place: Path) -> None:
    """Write a corpus of lattice-free MMI."""
    write_chain_corpus(place / "free")
    (place / "free/corpus.yaml").write_text(LATTICE_FREE)


@dataclass(frozen=True)
class Place:
    """A laboratory with more in it: how that is written, commands that make more, and calls.

    calls: by what they are, each on a place as it was built.
    """

    write: Callable[[Path], object]
    commands: str
    calls: dict[str, str]


PLACES = {
    "run": Place(
        write_results,
        "train corpus.yaml --out again",
        {
            "train": "train corpus.yaml --out out",
            "train, going on": "train corpus.yaml --out again --set train.epochs=3",
            "search": "search corpus.yaml --space space.yaml --out out --trials 1",
            "doctor": "doctor corpus.yaml",
            "config": "config corpus.yaml",
            "status": "status .",
            "forward": "forward run --on test --out out",
            "decode": DECODE.format("test"),
            "decode RUN": "decode run --on dev",
            "score": "score run",
            "find": "find run a --on dev",
            "compare": "compare run run --replicates 100",
            "report": "report run --out out",
            "gradients": "gradients run --lags 2 --utterances 2 --json",
            "graph": "graph --lexicon dict/lexicon.txt --lm exp/graph/lm.arpa"
            " --model exp/ali/final.mdl --phones exp/ali/phones.txt --silence sil --out out",
            "align": "align run --on dev --lang dict --out out",
            "pronunciation": "pronunciation run --on dev --lang dict --out out",
            "align --flat": "align --flat --data data/train --lang dict --out out",
            "rescore": "rescore --lattices run/decode_dev/lat.1.gz --graph exp/graph --lmwt 1"
            " --mbr --nbest 2 --out out",
            "lmrescore": "lmrescore --lattices run/decode_dev/lat.1.gz --graph exp/graph"
            " --old-lm exp/graph/lm.arpa --new-lm exp/graph/lm.arpa --out out",
            "lattice-posteriors": "lattice-posteriors --lattices run/decode_dev/lat.1.gz"
            " --model exp/ali/final.mdl --alignments exp/ali_dev --criterion smbr --out out",
            "denlats": "denlats run --graph exp/graph --out out",
            "combine": "combine run run --out out",
            "export": "export run --onnx out --counts counts",
            "wer": "wer --ref ref.stm --hyp hyp.ctm --glm rules.glm",
            "wer of texts": "wer --ref data/dev/text --hyp data/dev/text --map phones.map --to 2"
            " --by speaker --utt2spk data/dev/utt2spk",
        },
    ),
    "tasks": Place(
        write_tasks,
        """train corpus.yaml --out mlp --set model.unit=mlp model.activation=p-sigmoid
train classes.yaml --out classes
train sequences.yaml --out sequences
""",
        {
            "fold": "fold mlp --out out",
            "adapt": "adapt mlp --ali dev=exp/ali_dev --steps 2 --out out",
            "train of classes": "train classes.yaml --out out",
            "classify": "classify classes --on test --out out",
            "train of sequences": "train sequences.yaml --out out",
            "generate": "generate sequences --on test --out out",
            "g2p": f"g2p spellings.txt --out out {SMALL_G2P}",
            "train on lattices": "train lattices.yaml --out out",
        },
    ),
    "lattice-free": Place(
        write_lattice_free, "", {"train, lattice-free": "train free/corpus.yaml --out out"}
    ),
    "mixtures": Place(
        write_recipe_of_mixtures,
        MIXTURES,
        {
            "gmm lang": "gmm lang words out --oov silence",
            "gmm mono": "gmm mono data/train lang out --passes 2 --gaussians 12",
            "gmm deltas": "gmm deltas data/train lang mono out --passes 1 --leaves 8"
            " --gaussians 12",
            "gmm lda-mllt": "gmm lda-mllt data/train lang tri out --passes 2 --leaves 8"
            " --gaussians 12 --dim 2",
            "gmm sat": "gmm sat data/train lang lda out --passes 2 --leaves 8 --gaussians 12",
            "gmm align": "gmm align data/train lang sat out",
            "gmm decode": "gmm decode data/test sat/graph sat out --lmwt 1 2",
            "gmm score": "gmm score sat corpus.yaml",
            "gmm baseline": "gmm baseline baseline.yaml --out out",
            "gmm chain-tree": "gmm chain-tree data/train lang mono out --leaves 8",
            "gmm features": "gmm features data/dev sat sat/decode_dev out",
            "graph of a lang": "graph --lang lang --text data/train/text --model sat/final.mdl"
            " --out out",
        },
    ),
    "heard": Place(
        write_heard,
        HEARD.replace("\\\n", "")
        + "speed speech faster --factors 1.1\nexport run --archive run.zip\n",
        {
            "features": "features data/sound",
            "features of segments": "features speech --kind mfcc-pitch",
            "features at other speeds": "features faster",
            "speed": "speed speech out --factors 0.9",
            "transcribe": "transcribe run sounds/test0-1.wav speech/sound.flac --ctm out",
            "transcribe by an archive": "transcribe run.zip sounds/test0-1.wav --srt out",
            "align a file": "align run sounds/test0-1.wav --text words.txt --textgrid out",
        },
    ),
    "theirs": Place(
        write_their_training,
        "",
        {
            "import-cfg": "import-cfg networks.cfg --out out.yaml",
            "import-weights": "import-weights 1.pkl 2.pkl out --cfg networks.cfg --counts counts",
        },
    ),
}
PLACES["timit"] = Place(lambda place: write_flat(place / "corpus"), "", {})
CALLS = {what: name for name, place in PLACES.items() for what in place.calls}


@cache
def build(name: str) -> Path:
    """Build a place, to be copied to where it was built; it stays until this process ends."""
    place = PLACES[name]
    folder = Path(tempfile.mkdtemp(prefix="siege-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    fetch(partial(_build, place, folder))
    return folder / "built"


def _build(place: Place, folder: Path) -> None:
    lab = laboratory.copy(laboratory.build(folder / "laboratory"), folder / "lab")
    with inside(lab):
        place.write(lab)
        for command in place.commands.splitlines():
            done = bayes_asr(command)
            assert done.status == 0, (command, done.err)
    shutil.move(lab, folder / "built")


@cache
def replica(name: str) -> Replica:
    """A place that is copied to where it was built: files of runs name it."""
    built = build(name)
    return Replica(built, built.with_name("lab"))


def restore(name: str) -> Path:
    """A place as it was built."""
    return replica(name).restore()


@dataclass(frozen=True)
class Habits:
    """Names of files below a place: which a call reads, and which it writes."""

    reads: tuple[str, ...]
    writes: frozenset[str]

    def writes_in(self, folder: Path) -> bool:
        """Whether the call writes into a folder."""
        return any(Path(name).parent == folder for name in self.writes)


@cache
def habits(what: str) -> Habits:
    """What a call, which must succeed, reads and writes in a child.

    This process has then imported what the call imports late.
    """
    lab, built = restore(CALLS[what]), build(CALLS[what])
    begun = time.time()
    opened = fetch(partial(_call, what, lab))
    changed = (str(p.relative_to(lab)) for p in lab.rglob("*") if p.stat().st_mtime > begun)
    reads = (name for name in sorted(opened) if (built / name).is_file())
    return Habits(tuple(reads), frozenset(changed))


def _call(what: str, lab: Path) -> set[str]:
    """Names of the files that a call opens to read."""
    opened = _note_opened(lab)
    with inside(lab):
        done = bayes_asr(command_of(what))
    assert done.status == 0, (what, done.err)
    return opened


def command_of(what: str) -> str:
    """The command line of a call."""
    return PLACES[CALLS[what]].calls[what]


def _note_opened(lab: Path) -> set[str]:
    """Names of files below `lab` that this process opens to read, from now on."""
    opened: set[str] = set()

    def hear(event: str, given: tuple[Any, ...]) -> None:
        if event != "open" or isinstance(given[0], int) or (given[2] or 0) & WRITES:
            return
        path = os.path.abspath(os.fsdecode(given[0]))
        if path.startswith(f"{lab}/"):
            opened.add(path.removeprefix(f"{lab}/"))

    sys.addaudithook(hear)
    return opened
