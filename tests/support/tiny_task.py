"""Recognition of three words of two phones, and the verb that builds graphs of it."""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayes_asr.cli import graph as verb
from bayes_asr.kaldi_io.context_dependency import Tree, build_monophone_tree
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.transition_model import TransitionModel

PHONES = {"<eps>": 0, "sil": 1, "a": 2, "b": 3}
SENTENCES = [["ab", "a"], ["bee", "ab"], ["a"], ["a", "bee"]]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def run_verb(*arguments: object) -> None:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    verb.run(parser.parse_args([str(a) for a in arguments]))


def tiny_model() -> TransitionModel:
    """Phones of two states, every self-loop with a probability of its own."""
    model = build_monophone_model([1, 2, 3], 2)
    stay = np.linspace(0.2, 0.8, 6)
    log_prob = np.log(np.append(1.0, np.stack([stay, 1 - stay], 1).ravel()))
    return replace(model, log_prob=log_prob.astype(np.float32))


def tiny_tree(model: TransitionModel) -> Tree:
    pdfs = {p: model.tuples[model.tuples[:, 0] == p, 2].tolist() for p in (1, 2, 3)}
    return build_monophone_tree(pdfs)
