#!/usr/bin/env python3
"""What hotwords do: how many of them are right, how many wrongly there, and what the rest loses.

A row of a Markdown table for each hypothesis: hotwords of the reference that are right, hotwords
that the hypothesis has and the reference lacks, right words among those that train has, WER.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import read_text as read_file
from bayes_asr.evaluate.score.counts import Edit, align
from bayes_asr.kaldi_io.text import read_text
from bayes_asr.recipe.scripts import exit_status

COSTS = "levenshtein"  # as the recipe scores
Transcripts = Mapping[str, Sequence[str]]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("hypotheses", nargs="+", type=Path, metavar="HYP", help="Kaldi text files")
    parser.add_argument("--names", type=Path, required=True, help="hotwords: a word begins a line")
    parser.add_argument("--ref", type=Path, required=True, help="text_words of test")
    parser.add_argument("--train", type=Path, required=True, help="text_words of train")
    args = parser.parse_args(argv)
    files = args.names, args.ref, args.train
    return exit_status(parser.prog, lambda: tabulate(args.hypotheses, *files))


def tabulate(hypotheses: Sequence[Path], names: Path, ref: Path, train: Path) -> None:
    """Print the table of hypotheses."""
    lines = read_file(names).splitlines()
    hotwords = {line.split()[0] for line in lines if line.strip()}
    known = {word for words in read_text(train).values() for word in words} - hotwords
    reference = read_text(ref)
    spoken = [word for words in reference.values() for word in words]
    if not spoken:
        raise InputError(f"{ref}: has no words, so there is no error rate; give text_words of test")
    print(
        f"| | hotwords right, of {sum(word in hotwords for word in spoken)} | hotwords wrongly"
        f" | other known words right, of {sum(word in known for word in spoken)} | WER |",
        "|---|---|---|---|---|",
        *(describe(path, reference, hotwords, known) for path in hypotheses),
        sep="\n",
    )


def describe(path: Path, reference: Transcripts, names: Set[str], known: Set[str]) -> str:
    """The row of a hypothesis; InputError where it lacks an utterance."""
    hypothesis = read_text(path)
    lacking = [utt for utt in reference if utt not in hypothesis]
    if lacking:
        raise InputError(
            f"{path}: {len(lacking)} of {len(reference)} utterances are missing, first"
            f" {lacking[0]}; decode the whole set"
        )
    edits = [
        edit for utt, words in reference.items() for edit in align(words, hypothesis[utt], COSTS)
    ]
    right = [edit.ref for edit in edits if edit.kind == "correct"]
    wrongly = [edit.hyp for edit in edits if edit.kind != "correct"]
    counts = (
        sum(word in names for word in right),
        sum(word in names for word in wrongly),
        sum(word in known for word in right),
    )
    return f"| {path} | {' | '.join(map(str, counts))} | {error_rate(edits):.2f} |"


def error_rate(edits: Sequence[Edit]) -> float:
    """Errors per 100 words of the reference."""
    errors = sum(edit.kind != "correct" for edit in edits)
    return 100 * errors / sum(edit.ref is not None for edit in edits)


if __name__ == "__main__":
    sys.exit(main())
