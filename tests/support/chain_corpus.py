"""A made-up corpus to train lattice-free MMI on: phones with a mean each, their tree and graph."""

from pathlib import Path

import numpy as np

from bayes_asr.config.schema import Config
from bayes_asr.decode.graph.topology import build_chain_topology
from bayes_asr.gmm.chain_tree import derive_pairs
from bayes_asr.kaldi_io.context_dependency import PDF_CLASS, Leaf, Table, Tree
from bayes_asr.kaldi_io.fst import write_fst
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.text import write_lines, write_text
from bayes_asr.kaldi_io.tree import write_tree
from bayes_asr.tasks.chain.denominator_fst import build_denominator_fst
from bayes_asr.tasks.chain.phone_lm import PhoneLmOptions, estimate_phone_lm
from tests.support.small_corpus import (
    DIMENSIONS,
    MODEL,
    PHONES,
    SETS,
    write_alignments,
    write_data_dir,
)
from tests.support.training_runs import config_of

NAMES = dict(zip(PHONES, "abc", strict=True))
CHAIN = ("train.criterion=lfmmi", "train.monophone_weight=0", "data.chain=[exp/chain]")


def align_phones(phones: list[int], rng: np.random.Generator) -> np.ndarray:
    """Transition-ids of phones, each of whose states lasts two to four frames."""
    found: list[int] = []
    for phone in phones:
        own = MODEL.phone == phone
        for leave, loop in zip(
            np.flatnonzero(own & ~MODEL.self_loop),
            np.flatnonzero(own & MODEL.self_loop),
            strict=True,
        ):
            found += [int(leave)] + [int(loop)] * int(rng.integers(1, 4))
    return np.array(found, np.int32)


def say(name: str) -> dict[str, list[int]]:
    """The phones of the utterances of a set, of three utterances a speaker."""
    rng = np.random.default_rng(sum(map(ord, name)))
    return {
        f"{name}{number // 3}-{number}": rng.choice(PHONES, rng.integers(2, 6)).tolist()
        for number in range(SETS[name])
    }


def write_chain(folder: Path, said: list[list[int]]) -> Path:
    """Tree, model and graph: two pdfs a phone, whatever is before it, and what may follow it."""
    folder.mkdir(parents=True, exist_ok=True)
    topology = build_chain_topology(PHONES)
    leaves = iter(range(2 * len(PHONES)))
    pairs = {p: Table(PDF_CLASS, (Leaf(next(leaves)), Leaf(next(leaves)))) for p in PHONES}
    tree = Tree(2, 1, Table(1, tuple(pairs.get(p) for p in range(max(PHONES) + 1))))
    model = derive_pairs(tree, topology)
    phone_lm = estimate_phone_lm(said, PhoneLmOptions(3, 10, 2))
    write_tree(tree, folder / "tree")
    write_transition_model(model, folder / "final.mdl")
    write_fst(build_denominator_fst(phone_lm, model, tree), folder / "den.fst", "vector")
    write_lines(["<eps> 0", *(f"{name} {p}" for p, name in NAMES.items())], folder / "phones.txt")
    write_lines([f"{name} {name}" for name in NAMES.values()], folder / "lexicon.txt")
    return folder


def write_chain_corpus(root: Path) -> Path:
    """Data directories, alignments of train and dev, and exp/chain."""
    means = np.random.default_rng(0).standard_normal((max(PHONES) + 1, DIMENSIONS))
    for name in SETS:
        rng = np.random.default_rng(len(name))
        aligned = {utt: align_phones(phones, rng) for utt, phones in say(name).items()}
        features = {
            utt: means[MODEL.phone[tids]] + 0.3 * rng.standard_normal((len(tids), DIMENSIONS))
            for utt, tids in aligned.items()
        }
        write_data_dir(
            root / "data" / name, {utt: x.astype(np.float32) for utt, x in features.items()}
        )
        said = ((utt, [NAMES[phone] for phone in phones]) for utt, phones in say(name).items())
        write_text(said, root / "data" / name / "text")
        write_alignments(root / "exp" / f"ali_{name}".replace("_train", ""), aligned.items())
    write_chain(root / "exp/chain", [*say("train").values()])
    return root


def chain_config(root: Path, *more: str) -> Config:
    """A tiny network on such a corpus."""
    return config_of(root, *CHAIN, *more)
