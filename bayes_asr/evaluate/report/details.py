"""The places of errors: by speaker, by pair of tokens, and utterance by utterance."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from bayes_asr.base.errors import printable
from bayes_asr.evaluate.report.runs import NOTHING, Key, ReportedSystem
from bayes_asr.evaluate.report.table import NONE
from bayes_asr.evaluate.score.counts import Edit, ErrorCounts
from bayes_asr.evaluate.score.scores import Score


def tabulate_speakers(systems: Sequence[ReportedSystem], key: Key) -> pd.DataFrame:
    """Error rates in per cent, mean over seeds: speakers in rows, systems in columns.

    The first column is named after what a speaker of utt2spk is.
    """
    scored = [system for system in systems if key in system.keys]
    reference = scored[0].runs[0].scores[key]
    by_run = [[run.scores[key].speakers for run in system.runs] for system in scored]
    rows = []
    for speaker, counts in reference.speakers.items():
        row = [speaker, str(counts.tokens)]
        for runs in by_run:
            # A speaker without reference tokens has no rate.
            rates = [c.rate for speakers in runs if (c := speakers.get(speaker)) and c.tokens]
            row.append(f"{np.mean(rates):.1f}" if rates else NONE)
        rows.append(row)
    # Rows, since a system may be called as another column is.
    return pd.DataFrame(rows, columns=[reference.cluster, "tokens", *(s.name for s in scored)])


def iter_edits(scores: Iterable[Score]) -> Iterator[Edit]:
    """All alignments, one after the other."""
    for score in scores:
        for utterance in score.utterances:
            yield from score.alignment(utterance)


def count_confusions(edits: Iterable[Edit]) -> pd.DataFrame:
    """Counts of each reference token (row) that was recognised as each token (column).

    Tokens are in alphabetical order. Where there are deletions or insertions, these are the last
    column and row.
    """
    pairs = Counter((e.ref or NOTHING, e.hyp or NOTHING) for e in edits)
    names = {token for pair in pairs for token in pair}
    # False sorts before True, which puts the mark of deletions and insertions last.
    tokens = sorted(names, key=lambda token: (token == NOTHING, token))
    table = pd.DataFrame(0, index=tokens, columns=tokens)
    for (ref, hyp), number in pairs.items():
        table.loc[ref, hyp] = number
    return table


def rank_errors(edits: Iterable[Edit], most: int = 20) -> pd.DataFrame:
    """The most frequent errors: what was said, what was recognised, how often."""
    pairs = Counter((e.ref or NOTHING, e.hyp or NOTHING) for e in edits if e.kind != "correct")
    rows = [
        (ref, hyp, str(number))
        # Names decide between equal counts, so that the table is the same in each run.
        for (ref, hyp), number in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    ]
    return pd.DataFrame(rows[:most], columns=["said", "recognised", "times"])


class WrongUtterance(NamedTuple):
    """An utterance with errors: its name, its counts and its alignment."""

    name: str
    counts: ErrorCounts
    edits: Sequence[Edit]


def find_wrong(score: Score) -> Iterator[WrongUtterance]:
    """Every utterance with an error, the most errors first."""
    for u in sorted(score.utterances, key=lambda u: (-u.counts.errors, u.utterance)):
        if u.counts.errors:
            yield WrongUtterance(u.utterance, u.counts, score.alignment(u))


def list_errors(score: Score) -> Iterator[str]:
    """The same as text: REF, HYP and the kinds of errors."""
    for name, c, edits in find_wrong(score):
        yield (
            f"{printable(name)}: {c.errors} error{'s' * (c.errors != 1)} of {c.tokens}, "
            f"{c.insertions} ins, {c.deletions} del, {c.substitutions} sub\n"
            f"{format_alignment(edits)}"
        )


def format_alignment(edits: Sequence[Edit]) -> str:
    """An alignment in three lines of equal columns: REF, HYP, and S, I or D below each error."""
    marks = {"correct": "", "substitution": "S", "insertion": "I", "deletion": "D"}
    lines = [["REF:"], ["HYP:"], ["    "]]
    for edit in edits:
        ref, hyp = printable(edit.ref or ""), printable(edit.hyp or "")
        width = max(len(ref), len(hyp))
        # Stars mark the side that has no token, as sclite writes them.
        cells = ref or "*" * width, hyp or "*" * width, marks[edit.kind]
        for line, cell in zip(lines, cells, strict=True):
            line.append(cell.ljust(width))
    return "".join(f"{' '.join(line).rstrip()}\n" for line in lines)
