"""Error counts against sclite, kaldialign (Kaldi's own edit distance) and brute force."""

import json
import re
import tracemalloc
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import kaldialign
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.counts import ErrorCounts, align, count_errors
from bayes_asr.evaluate.score.sweeps import Reference, score_utterances
from bayes_asr.evaluate.score.word_network import align_marked
from bayes_asr.kaldi_io.text import read_text
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


@pytest.mark.parametrize("costs", ["sclite", "levenshtein"])
def test_long_utterances_take_four_bytes_for_a_pair_of_words(costs: str) -> None:
    ref, hyp = [f"a{i}" for i in range(300)], [f"b{i}" for i in range(200)]
    tracemalloc.start()
    counted = count_errors(ref, [*hyp, *ref[200:]], costs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (counted.substitutions, counted.errors) == (200, 200)
    assert peak < 2 * 4 * 300 * 300


def test_longer_ones_are_refused_with_both_numbers(tmp_path: Path) -> None:
    words = " ".join(["a"] * 24_000)
    (tmp_path / "text").write_text(f"u1 a\nu2 {words}\n")
    texts = read_text(tmp_path / "text")
    with pytest.raises(InputError, match=r"hyp: u2: 24000 words .* 24000 recognised .* cut"):
        score_utterances(Reference(texts), texts, "hyp", "sclite")
    network = [f"{i}-" for i in range(4200)]
    with pytest.raises(InputError, match="4200 words of the reference against 4200 recognised"):
        align_marked(network, network)


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
