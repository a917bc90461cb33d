"""Error counts against sclite, kaldialign (Kaldi's own edit distance) and brute force."""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import kaldialign
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.counts import ErrorCounts, align, count_errors
from tests.support.nist_oracles import CONVENTIONS, COUNTS, random_pairs, read_trn, sclite_scores

TOKENS = st.lists(st.sampled_from("abcd"), max_size=9)
SIL = frozenset({"a"})
split = str.split


@pytest.mark.parametrize(("name", "optional"), CONVENTIONS.items())
def test_equals_sclite_on_random_pairs(name: str, optional: frozenset[str]) -> None:
    expected = json.loads(COUNTS.read_text())[name]
    pairs = random_pairs(seed=1, number=1000)
    for (ref, hyp), scores in zip(pairs, expected, strict=True):
        c = count_errors(ref, hyp, "sclite", optional)
        correct = c.tokens - c.substitutions - c.deletions
        assert [correct, c.substitutions, c.deletions, c.insertions] == scores, (ref, hyp)


@pytest.mark.parametrize(("name", "optional"), CONVENTIONS.items())
def test_stored_counts_are_those_of_the_installed_sclite(
    tmp_path: Path, name: str, optional: frozenset[str]
) -> None:
    pairs = random_pairs(seed=1, number=1000)
    assert sclite_scores(tmp_path, pairs, optional) == json.loads(COUNTS.read_text())[name]


def test_equals_sclite_on_golden_speakers(golden: Path) -> None:
    ref, hyp = read_trn(golden / "ref.trn"), read_trn(golden / "sysA.trn")
    raw = (golden / "sysA.raw").read_text()
    rows = re.findall(r"^ *\| (s\d\d) +\|" + r"[ |]+(\d+)" * 7, raw, re.MULTILINE)
    assert len(rows) == 8
    for speaker, *numbers in rows:
        mine = [u for u in ref if u.startswith(speaker)]
        c = sum((count_errors(ref[u], hyp[u]) for u in mine), ErrorCounts())
        correct = c.tokens - c.substitutions - c.deletions
        counted = (len(mine), c.tokens, correct, c.substitutions, c.deletions, c.insertions)
        assert (*counted, c.errors) == tuple(map(int, numbers))


@given(ref=TOKENS, hyp=TOKENS)
def test_levenshtein_equals_kaldi(ref: list[str], hyp: list[str]) -> None:
    expected = kaldialign.edit_distance(ref, hyp)
    counts = count_errors(ref, hyp, "levenshtein")
    assert counts.errors == expected["total"]
    assert counts.insertions == expected["ins"]
    assert counts.deletions == expected["del"]


def brute_force(ref: Sequence[str], hyp: Sequence[str], optional: frozenset[str]) -> int:
    """The fewest errors when optional reference tokens may be missing, by plain recursion."""

    @cache
    def fewest(i: int, j: int) -> int:
        steps = []
        if i < len(ref) and j < len(hyp):
            steps.append(fewest(i + 1, j + 1) + (ref[i] != hyp[j]))
        if i < len(ref):
            steps.append(fewest(i + 1, j) + (ref[i] not in optional))
        if j < len(hyp):
            steps.append(fewest(i, j + 1) + 1)
        return min(steps, default=0)

    return fewest(0, 0)


@given(ref=TOKENS, hyp=TOKENS, optional=st.sampled_from([frozenset(), SIL]))
def test_levenshtein_errors_are_the_fewest(
    ref: list[str], hyp: list[str], optional: frozenset[str]
) -> None:
    counted = count_errors(ref, hyp, "levenshtein", optional)
    assert counted.errors == brute_force(ref, hyp, optional)


@given(ref=TOKENS, hyp=TOKENS, costs=st.sampled_from(["sclite", "levenshtein"]))
def test_alignment_spells_both_sides(ref: list[str], hyp: list[str], costs: str) -> None:
    edits = align(ref, hyp, costs, SIL)
    assert [e.ref for e in edits if e.ref is not None] == ref
    assert [e.hyp for e in edits if e.hyp is not None] == hyp


def test_conventions_disagree_where_sclite_avoids_substitutions() -> None:
    ref, hyp = list("bbbcc"), list("ccaab")
    assert count_errors(ref, hyp, "sclite").errors == 6
    assert count_errors(ref, hyp, "levenshtein").errors == 5


def test_forgiving_silence_counts_the_token_but_no_error() -> None:
    ref = split("sil dh ah sil k ae t sil")
    hyp = split("sil dh ah k ae d sil")
    assert count_errors(ref, hyp) == ErrorCounts(substitutions=1, deletions=1, tokens=8)
    forgiven = count_errors(ref, hyp, optional=frozenset({"sil"}))
    assert forgiven == ErrorCounts(substitutions=1, tokens=8)


def test_counts_pool_by_addition() -> None:
    pooled = ErrorCounts(1, 2, 3, 10) + ErrorCounts(0, 0, 1, 30)
    assert pooled == ErrorCounts(1, 2, 4, 40)
    assert pooled.rate == 17.5
    assert pooled.kaldi_line() == "%WER 17.50 [ 7 / 40, 2 ins, 4 del, 1 sub ]"


@pytest.mark.parametrize(
    ("counts", "message"),
    [((-1, 0, 0, 1), "negative"), ((2, 0, 2, 3), "more substitutions and deletions")],
)
def test_impossible_counts_are_refused(counts: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ErrorCounts(*counts)


def test_no_rate_without_tokens() -> None:
    with pytest.raises(InputError, match="without reference tokens"):
        _ = ErrorCounts(insertions=2).rate


def test_unknown_costs_are_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="'jiwer'; known: sclite, levenshtein"):
        align(["a"], ["a"], "jiwer")  # type: ignore[arg-type]
