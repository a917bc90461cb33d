#!/usr/bin/env python3
"""Alignments and decoding graph of a prepared TIMIT without Kaldi.

Reads OUT/data as prepare.py wrote it, with features. Writes alignments from the hand-marked times
to OUT/exp/marks_ali{,_dev,_test}, and the graph of the phone bigram to OUT/exp/marks/graph.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.data.targets.marks import (
    PhoneFrames,
    count_transitions,
    describe_phones,
    find_frames,
    spread_states,
    write_alignments,
)
from bayes_asr.decode.graph.build import build_graph, write_graph
from bayes_asr.decode.graph.lexicon import Lang, read_lexicon
from bayes_asr.decode.graph.ngram import read_arpa
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.initial_mdl import STATES, build_monophone_model
from bayes_asr.kaldi_io.transition_model import TransitionModel
from bayes_asr.kaldi_io.tree import read_tree
from bayes_asr.recipe.scripts import exit_status

ALIGNMENTS = {"train": "marks_ali", "dev": "marks_ali_dev", "test": "marks_ali_test"}
RATE = 16000  # samples a second


def main(argv: Sequence[str] | None = None) -> int:
    """Align below --out; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="what prepare.py wrote")
    args = parser.parse_args(argv)
    return exit_status(parser.prog, lambda: align(args.out))


def align(out: Path) -> None:
    """Write the alignments of all sets, and the graph."""
    lexicon = read_lexicon(out / "data/local/dict/lexicon.txt")
    phones = {entry.word: number for number, entry in enumerate(lexicon, 1)}
    model = build_monophone_model([*phones.values()], STATES)
    sets = {name: alignments(out / "data" / name, phones, model) for name in ALIGNMENTS}
    model = count_transitions(model, sets["train"].values())
    for name, folder in ALIGNMENTS.items():
        write_alignments(sets[name].items(), model, phones, out / "exp" / folder)
    graph = build_graph(
        Lang(lexicon),
        read_arpa(out / "data/local/lm.arpa"),
        phones,
        model,
        read_tree(out / "exp" / ALIGNMENTS["train"] / "tree"),
    )
    silence = (out / "data/local/dict/silence_phones.txt").read_text(encoding="utf-8").split()
    write_graph(graph, out / "exp/marks/graph", silence)
    print(f"graph: {graph.hclg.num_states} states, {graph.hclg.num_arcs} arcs")


def alignments(
    data: Path, phones: Mapping[str, int], model: TransitionModel
) -> dict[str, np.ndarray]:
    """The transition-ids int32 [T] of the utterances of a set; prints how the marks were met.

    An utterance with a phone that nobody says in training gets none.
    """
    marks = read_marks(data / "phones.ctm")
    aligned: dict[str, np.ndarray] = {}
    frames: list[PhoneFrames] = []
    for utt, matrix in iter_matrices(data / "feats.scp"):
        names = [phone for phone, _ in marks[utt]]
        unknown = sorted({*names} - phones.keys())
        if unknown:
            print(f"{data.name}: {utt} is not aligned: training has no {' '.join(unknown)}")
            continue
        starts = np.array([start for _, start in marks[utt]])
        try:
            frames.append(find_frames(starts, len(matrix), RATE))
        except InputError as error:
            raise InputError(f"{data / 'phones.ctm'}: {utt}: {error}") from error
        aligned[utt] = spread_states([phones[p] for p in names], frames[-1].ends, model)
    print(f"{data.name}: {describe_phones(frames)}")
    return aligned


def read_marks(path: Path) -> dict[str, list[tuple[str, int]]]:
    """Read `utterance 1 start duration phone` lines: each phone and its first sample."""
    marks: dict[str, list[tuple[str, int]]] = {}
    for _, (utt, _, start, _, phone) in iter_lines(path):
        marks.setdefault(utt, []).append((phone, round(float(start) * RATE)))
    return marks


if __name__ == "__main__":
    sys.exit(main())
