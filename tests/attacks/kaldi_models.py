"""Kaldi's own readers of trees and topologies, in the wheel kaldi_hmm_gmm.

They run in a process of their own, as the wheel's OpenFst and that of kaldifst wait for each other
for ever. The wheel reads neither transition models nor Gaussians nor lattices.
"""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.binary import open_bytes
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.mdl import read_topology, read_transition_model
from bayes_asr.kaldi_io.transition_model import Topology
from bayes_asr.kaldi_io.tree import read_tree

KALDI_MODELS = find_spec("_kaldi_hmm_gmm") is not None
MISSING = "kaldi_hmm_gmm, which has Kaldi's readers of trees and topologies, is not installed"
PHONES, CLASSES, MOST = range(5), range(-1, 4), 600
SECTION = re.compile(r"<Topology>.*?</Topology>\s", re.S)
ANSWER = """
import json, sys
from _kaldi_hmm_gmm import ContextDependency, HmmTopology
def topology(text):
    topo = HmmTopology()
    topo.read(text)
    return [[phone, [[state.forward_pdf_class, state.self_loop_pdf_class, state.transitions]
                     for state in topo.topology_for_phone(phone)]] for phone in topo.phones]
def tree(content, windows):
    tree = ContextDependency.__new__(ContextDependency)
    tree.__setstate__((content,))
    return [tree.context_width, tree.central_position, [tree.compute(*w) for w in windows]]
kind, *given = json.load(sys.stdin)
try:
    print(json.dumps(["", globals()[kind](*given)]))
except Exception as error:
    print(json.dumps([str(error), None]))
"""


def ask(kind: str, *given: object) -> Any:
    """What Kaldi reads; AssertionError if it refuses, or dies of it."""
    command = [sys.executable, "-c", ANSWER]
    asked = json.dumps([kind, *given])
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=300)
    assert done.stdout, f"status {done.returncode}: {done.stderr[-500:]}"
    refused, read = json.loads(done.stdout)
    assert not refused, refused
    return read


def windows_of(tree: Tree) -> list[tuple[list[int], int]]:
    """Windows of phones, all or some of many, and pdf-classes."""
    windows = islice(product(PHONES, repeat=tree.width), MOST)
    return [([*window], pdf_class) for window in windows for pdf_class in CLASSES]


def kaldi_tree(path: Path) -> list[object]:
    """Width, center and the pdfs of windows by a binary tree."""
    raw = path.read_bytes()
    if raw[:2] != b"\0B":  # the wheel has no other reader
        return our_tree(path)
    content = np.frombuffer(raw[2:], np.int8).tolist()
    width, center, pdfs = ask("tree", content, windows_of(read_tree(path)))
    return [width, center, [pdf if known else None for known, pdf in pdfs]]


def our_tree(path: Path) -> list[object]:
    """The same of ours."""
    tree = read_tree(path)

    def pdf(phones: list[int], pdf_class: int) -> int | None:
        try:
            return tree.pdf(phones, pdf_class)
        except InputError:
            return None

    return [tree.width, tree.center, [pdf(*window) for window in windows_of(tree)]]


def kaldi_topology(path: Path) -> list[object]:
    """States and transitions by phone of a topology in text, alone or in a transition model."""
    section = SECTION.search(path.read_text(encoding="utf-8", errors="replace"))
    assert section, "no topology"
    return [
        [
            phone,
            [[*classes, [[to, np.float32(p)] for to, p in moves]] for *classes, moves in states],
        ]
        for phone, states in ask("topology", section[0])
    ]


def our_topology(path: Path) -> list[object]:
    """The same of ours."""
    with open_bytes(path) as source:
        whole = source.read_some(20).lstrip().startswith(b"<Topology>")
    topology: Topology = read_topology(path) if whole else read_transition_model(path).topology
    return [
        [
            phone,
            [
                [s.forward_class, s.self_loop_class, [[t, np.float32(p)] for t, p in s.transitions]]
                for s in topology[phone]
            ],
        ]
        for phone in sorted(topology)
    ]
