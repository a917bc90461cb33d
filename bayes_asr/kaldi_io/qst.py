"""Kaldi's `questions.qst`: the questions of a tree about each position and the pdf-class."""

from collections.abc import Mapping
from pathlib import Path

from bayes_asr.base.files import replacing
from bayes_asr.kaldi_io.binary import KaldiReader, open_bytes, pack_int, pack_ints

Questions = Mapping[int, tuple[tuple[int, ...], ...]]
"""Sets of values for each key, PDF_CLASS or a position in the window."""


def read_questions(path: Path) -> Questions:
    """Read binary or text questions.

    InputError where the file is truncated, damaged, or wants questions to be refined while the tree
    is built, which no recipe of Kaldi does.
    """
    with open_bytes(Path(path)) as source:
        reader = KaldiReader(source)
        reader.expect("<Questions>")
        questions = {}
        while reader.expect("<Key>", "</Questions>") == "<Key>":
            key = reader.integer()
            reader.expect("<QuestionsForKey>")
            sets = [tuple(reader.integers().tolist()) for _ in range(reader.integer())]
            reader.expect("<RefineClustersOptions>")
            refinements = reader.integer()
            reader.integer()
            reader.expect("</RefineClustersOptions>")
            reader.expect("</QuestionsForKey>")
            if refinements:
                raise reader.fail(
                    f"questions are to be refined {refinements} times at each node; write them"
                    " with --num-iters-refine=0"
                )
            questions[key] = tuple(sets)
        return questions


def write_questions(questions: Questions, path: Path) -> None:
    """Write `questions` in Kaldi's binary format, complete or not at all."""
    parts = [b"\0B<Questions> "]
    for key in sorted(questions):
        parts += [b"<Key> ", pack_int(key), b"<QuestionsForKey> ", pack_int(len(questions[key]))]
        parts += map(pack_ints, questions[key])
        # Clusters are refined 0 times, among the best 2.
        parts += [b"<RefineClustersOptions> ", pack_int(0), pack_int(2)]
        parts += [b"</RefineClustersOptions> </QuestionsForKey> "]
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(b"".join([*parts, b"</Questions> "]))
