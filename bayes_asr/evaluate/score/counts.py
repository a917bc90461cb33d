"""Error counts of a hypothesis against a reference, aligned as sclite or as Kaldi does it."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.safe_pickle import loadable

MOST_CELLS = 1 << 29  # of 4 bytes, 23,000 words against as many: two hours of speech
Costs = Literal["sclite", "levenshtein"]
Kind = Literal["correct", "substitution", "insertion", "deletion"]


@loadable
@dataclass(frozen=True)
class ErrorCounts:
    """Errors over `tokens` reference tokens; values that pool by addition, never by averaging."""

    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        if min(self.substitutions, self.insertions, self.deletions, self.tokens) < 0:
            raise InputError(f"error counts cannot be negative: {self}")
        if self.substitutions + self.deletions > self.tokens:
            raise InputError(f"more substitutions and deletions than reference tokens: {self}")

    @property
    def errors(self) -> int:
        return self.substitutions + self.insertions + self.deletions

    @property
    def rate(self) -> float:
        """Errors per 100 reference tokens; more than 100 is possible, by insertions."""
        if self.tokens == 0:
            raise InputError(
                f"no error rate without reference tokens: {self.insertions} insertions over none"
            )
        return 100.0 * self.errors / self.tokens

    def __add__(self, other: "ErrorCounts") -> "ErrorCounts":
        return ErrorCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def as_dict(self) -> dict[str, int]:
        """The counts by the names that score files use."""
        names = ("errors", "tokens", "substitutions", "insertions", "deletions")
        return {name: getattr(self, name) for name in names}

    def kaldi_line(self, metric: str = "wer") -> str:
        """The line that Kaldi's compute-wer prints, %PER for "per"; `nan` where nothing was said.

        Kaldi says %WER of phones too.
        """
        rate = self.rate if self.tokens else math.nan
        return (
            f"%{metric.upper()} {rate:.2f} [ {self.errors} / {self.tokens}, {self.insertions} ins, "
            f"{self.deletions} del, {self.substitutions} sub ]"
        )


class Edit(NamedTuple):
    """One step of an alignment; a reference token that may be missing is correct without `hyp`."""

    kind: Kind
    ref: str | None
    hyp: str | None


class _Convention(NamedTuple):
    """Costs of each error, of omitting an optional token, and whether a tie goes to the diagonal.

    Where insertion and deletion tie, both programs insert.
    """

    substitution: int
    insertion: int
    deletion: int
    omission: int
    diagonal_ties: bool


# sclite: SCTK word.c (costs) and net_dp.c (ties). levenshtein: Kaldi's edit-distance-inl.h, which
# knows no optional tokens; omitting one is free there, so that the errors stay the fewest possible.
_CONVENTIONS: dict[str, _Convention] = {
    "sclite": _Convention(4, 3, 3, 2, diagonal_ties=True),
    "levenshtein": _Convention(1, 1, 1, 0, diagonal_ties=False),
}


def align(
    ref: Sequence[str],
    hyp: Sequence[str],
    costs: Costs = "sclite",
    optional: frozenset[str] = frozenset(),
) -> list[Edit]:
    """Align `hyp` with `ref`; reference tokens in `optional` may be missing without an error.

    Of several cheapest alignments the one that sclite or Kaldi's compute-wer takes is returned.
    """
    if costs not in _CONVENTIONS:
        raise InputError(f"unknown costs {costs!r}; known: {', '.join(_CONVENTIONS)}")
    convention = _CONVENTIONS[costs]
    omission = [convention.omission if r in optional else convention.deletion for r in ref]
    check_size(len(ref), len(hyp), MOST_CELLS)
    table = _compute_least_costs(ref, hyp, convention, omission)
    edits = []
    i, j = len(ref), len(hyp)
    inf = int(table[i, j]) + 1
    # Only two rows become lists, which are quick to look into and large.
    row, above = table[i].tolist(), table[i - 1].tolist()
    # The way back from the last cell decides ties, so its order is that of the programs.
    while i or j:
        diagonal = deletion = insertion = inf
        if i and j:
            mismatch = 0 if ref[i - 1] == hyp[j - 1] else convention.substitution
            diagonal = above[j - 1] + mismatch
        if i:
            deletion = above[j] + omission[i - 1]
        if j:
            insertion = row[j - 1] + convention.insertion
        best_gap = min(deletion, insertion)
        on_diagonal = diagonal < best_gap + convention.diagonal_ties
        if on_diagonal or deletion < insertion:
            row, above = above, table[i - 2].tolist() if i > 1 else []
        if on_diagonal:
            i, j = i - 1, j - 1
            kind: Kind = "correct" if ref[i] == hyp[j] else "substitution"
            edits.append(Edit(kind, ref[i], hyp[j]))
        elif deletion < insertion:
            i -= 1
            edits.append(Edit("correct" if ref[i] in optional else "deletion", ref[i], None))
        else:
            j -= 1
            edits.append(Edit("insertion", None, hyp[j]))
    return edits[::-1]


def check_size(reference: int, hypothesis: int, most: int) -> None:
    """Raise InputError where a table of two numbers of words would have more than `most` cells."""
    if reference * hypothesis > most:
        raise InputError(
            f"{reference} words of the reference against {hypothesis} recognised ones are more than"
            f" {most} pairs to compare: cut the utterance into shorter ones"
        )


def _compute_least_costs(
    ref: Sequence[str], hyp: Sequence[str], convention: _Convention, omission: Sequence[int]
) -> np.ndarray:
    """The least cost [R+1, H+1] of aligning the first i of `ref` with the first j of `hyp`."""
    ids: dict[str, int] = {}
    hyp_ids = np.array([ids.setdefault(h, len(ids)) for h in hyp], dtype=np.int32)
    inserted = convention.insertion * np.arange(len(hyp) + 1, dtype=np.int32)
    table = np.empty((len(ref) + 1, len(hyp) + 1), dtype=np.int32)
    table[0] = inserted
    for i, r in enumerate(ref):
        best = table[i] + omission[i]
        # A reference token that the hypothesis lacks has no number, and -1 equals none.
        diagonal = table[i, :-1] + convention.substitution * (hyp_ids != ids.get(r, -1))
        np.minimum(best[1:], diagonal, out=best[1:])
        # Insertions run along the row: a cumulative minimum once their own cost is taken out.
        table[i + 1] = np.minimum.accumulate(best - inserted) + inserted
    return table


def tally(edits: Iterable[Edit]) -> ErrorCounts:
    """Count the errors of an alignment."""
    kinds: Counter[str] = Counter()
    tokens = 0
    for edit in edits:
        kinds[edit.kind] += 1
        tokens += edit.ref is not None
    return ErrorCounts(kinds["substitution"], kinds["insertion"], kinds["deletion"], tokens)


def drop_unknown(edits: Sequence[Edit], unknown: frozenset[str]) -> list[Edit]:
    """The alignment without the reference tokens in `unknown`, and the insertions beside them.

    What is recognised where a word is unknown are often several others, which are its errors.
    """
    dropped = [edit.ref in unknown for edit in edits]
    # Forward and backward: insertions on either side of what is left out go with it.
    for order in (range(1, len(edits)), range(len(edits) - 2, -1, -1)):
        for i in order:
            beside = dropped[i - order.step]
            dropped[i] = dropped[i] or (beside and edits[i].kind == "insertion")
    return [edit for edit, is_dropped in zip(edits, dropped, strict=True) if not is_dropped]


def count_errors(
    ref: Sequence[str],
    hyp: Sequence[str],
    costs: Costs = "sclite",
    optional: frozenset[str] = frozenset(),
    unknown: frozenset[str] = frozenset(),
) -> ErrorCounts:
    """Count the errors of one utterance; arguments as for `align` and `drop_unknown`."""
    return tally(drop_unknown(align(ref, hyp, costs, optional), unknown))
