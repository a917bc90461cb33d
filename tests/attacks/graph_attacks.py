"""Attacks on lattices, graphs and what graphs are made of."""

import os
import random
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from bayes_asr.decode.graph.transcript_acceptors import LexiconTransducer
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.context_dependency import build_monophone_tree
from bayes_asr.kaldi_io.fst import write_fst
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.lattice_files import write_lattices
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.tree import write_tree
from tests.attacks.structures import draw_grammar, draw_graph, draw_lattice
from tests.attacks.verbs import draw_options, verb
from tests.support.decode_cases import write_small_graph

BEYOND = (5, 2**20, 2**31 - 1)


def attack_lattices(rng: random.Random, folder: Path) -> None:
    strange = rng.choice((0.0, 0.0, 0.02, 0.1))
    items = [
        (f"u{i}", draw_lattice(rng, rng.choice((0.0, 0.1)), strange))
        for i in range(rng.choice((1, 1, 1, 2)))
    ]
    write_lattices(items, folder / "lat.1.gz")
    (folder / "words.txt").write_text("<eps> 0\na 1\nb 2\nc 3\n")
    given = ["--lattices", folder / "lat.1.gz", "--graph", folder, "--out", folder / "out"]
    weights = ["--lmwt", rng.choice(("1", "0.001", "1000")), "--mbr", "--nbest", rng.choice((0, 9))]
    verb("rescore", *given, *weights, *draw_options(rng, "rescore", 1))


def attack_graphs(rng: random.Random, folder: Path) -> None:
    strange = rng.choice((0.0, 0.0, 0.05))
    write_fst(draw_graph(rng, 4, 2, strange), _graph(folder) / "HCLG.fst")
    _decode(rng, folder, rng.choice((1.0, 1.0, 1e20, 1e35)))


def attack_apart(rng: random.Random, folder: Path) -> None:
    """HCL and G of any shape, which the search composes; some of their words are in no table."""
    graph = _graph(folder)
    (graph / "HCLG.fst").unlink()
    (graph / "words.txt").write_text("<eps> 0\na 1\nb 2\nc 3\n#0 4\n")
    strange, words = rng.choice((0.0, 0.0, 0.05)), rng.choice((3, 3, 3, 5))
    hcl = draw_graph(rng, 4, words, strange)
    # Arcs without sound may write any word, also beyond those of the others.
    far = np.array([rng.choice((0, 0, 1, 3, 4, *BEYOND)) for _ in range(hcl.num_arcs)])
    olabel = np.where((hcl.ilabel == 0) & (far > 0), far, hcl.olabel)
    write_fst(replace(hcl, olabel=olabel), graph / "HCL.fst")
    write_fst(draw_grammar(rng, words, 4, strange), graph / "G.fst")
    _decode(rng, folder, rng.choice((1.0, 1.0, 1e20)))


def attack_lexicon_fsts(rng: random.Random, folder: Path) -> None:
    """L_disambig.fst with loops of phones, with two outputs for one input, or mute."""
    lang = folder / "lang"
    (lang / "phones").mkdir(parents=True)
    (lang / "phones.txt").write_text("<eps> 0\np 1\nq 2\n#0 3\n#1 4\n")
    (lang / "words.txt").write_text("<eps> 0\na 1\nb 2\n#0 3\n<s> 4\n</s> 5\n")
    fst = draw_graph(rng, 4, 3, rng.choice((0.0, 0.0, 0.05)))
    write_fst(fst, lang / "L_disambig.fst")
    model = build_monophone_model([1, 2])
    write_transition_model(model, folder / "final.mdl")
    write_tree(build_monophone_tree({1: [0], 2: [1]}), folder / "tree")
    (folder / "text").write_text("u1 a b\nu2 b\n")
    given = ["--lang", lang, "--text", folder / "text", "--model", folder / "final.mdl"]
    verb("graph", *given, "--out", folder / "out", *rng.choice(([], ["--apart"])))


def attack_lexicons(rng: random.Random, _: Path) -> None:
    """L.fst with loops, composed with transcripts and made deterministic."""
    fst = draw_graph(rng, 3, 2, rng.choice((0.0, 0.0, 0.05)))
    LexiconTransducer(fst).transcript_acceptor(rng.choices((1, 2), k=rng.randint(0, 3)))


def attack_lattice_verbs(rng: random.Random, folder: Path) -> None:
    """Lattices of any shape, read for their posteriors and for another language model."""
    strange, backward = rng.choice((0.0, 0.0, 0.02)), rng.choice((0.0, 0.1))
    write_lattices([("u", draw_lattice(rng, backward, strange))], folder / "lat.1.gz")
    write_transition_model(build_monophone_model([1, 2]), folder / "final.mdl")
    (folder / "words.txt").write_text("<eps> 0\na 1\nb 2\nc 3\n#0 4\n<s> 5\n</s> 6\n")
    for name in ("old", "new"):
        words = ["<s>", *rng.sample("abc", rng.randint(1, 3)), "</s>"]
        grams = "".join(f"-{rng.random():.2f} {word}\n" for word in words)
        text = f"\\data\\\nngram 1={len(words)}\n\n\\1-grams:\n{grams}\n\\end\\\n"
        (folder / f"{name}.arpa").write_text(text)
    lattices = ["--lattices", folder / "lat.1.gz"]
    if rng.random() < 0.5:
        drawn = draw_options(rng, "lattice-posteriors", 1)
        verb("lattice-posteriors", *lattices, "--model", folder / "final.mdl", *drawn)
    else:
        models = ["--old-lm", folder / "old.arpa", "--new-lm", folder / "new.arpa"]
        verb("lmrescore", *lattices, "--graph", folder, *models, "--out", folder / "out")


def attack_decode_options(rng: random.Random, folder: Path) -> None:
    _graph(folder)
    _decode(rng, folder, 1.0, *draw_options(rng, "decode", 3))


def _graph(folder: Path) -> Path:
    return write_small_graph(folder / "graph")


def _decode(rng: random.Random, folder: Path, size: float, *options: str) -> None:
    loglikes = [[rng.gauss(0, 1) * size for _ in range(3)] for _ in range(rng.randint(1, 6))]
    write_matrices([("u", np.array(loglikes, np.float32))], folder / "loglikes.ark")
    given = ["--loglikes", folder / "loglikes.ark", "--out", folder / "out", "--allow-partial"]
    model = ["--graph", folder / "graph", "--model", folder / "graph" / "final.mdl"]
    with patch.dict(os.environ, BAYES_ASR_DECODER=rng.choice(("", "numpy"))):
        verb("decode", *given, *model, "--lmwt=1", *options)


def attack_grammars(rng: random.Random, folder: Path) -> None:
    words = rng.sample(["a", "b", "c", "sil", "\xa0", "\u2028"], rng.randint(1, 4))
    words += rng.choices(("<s>", "#0", "<eps>"), k=rng.random() < 0.1)
    phones = ["p", "q", "sil"]
    least = rng.random() > 0.1
    lexicon = [f"{w} {' '.join(rng.choices(phones, k=rng.randint(least, 3)))}\n" for w in words]
    (folder / "lexicon.txt").write_text("".join(lexicon), encoding="utf-8")
    strange = rng.choice((0.0, 0.02))

    def number() -> str:
        beyond = ("1e308", "-1e308", "nan", "7", "-1e30", "1e-320")
        return rng.choice(beyond if rng.random() < strange else ("-1", "-0.3", "0", "-99"))

    unigrams = [f"{number()} {word} {number()}\n" for word in ["<s>", *words, "</s>"]]
    pairs = {(rng.choice(words), rng.choice([*words, "</s>"])) for _ in range(rng.randint(1, 3))}
    bigrams = [f"{number()} {one} {other}\n" for one, other in sorted(pairs)]
    (folder / "lm.arpa").write_text(
        f"\\data\\\nngram 1={len(unigrams)}\nngram 2={len(bigrams)}\n\n\\1-grams:\n"
        f"{''.join(unigrams)}\n\\2-grams:\n{''.join(bigrams)}\n\\end\\\n",
        encoding="utf-8",
    )
    (folder / "text").write_text("u1 a b\nu2 c\nu3\n")
    source = rng.choice((["--lm", folder / "lm.arpa"], ["--text", folder / "text"]))
    given = ["--lexicon", folder / "lexicon.txt", *source, "--out", folder / "out"]
    verb("graph", *given, *draw_options(rng, "graph", 3))
