"""Statistics against published and NIST figures, scipy, closed forms and brute force."""

import itertools
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.counts import align, count_errors, tally
from bayes_asr.evaluate.score.statistics import (
    Alternative,
    Marks,
    Prior,
    beta_interval,
    bootstrap,
    holm,
    mapsswe_segments,
    mark,
    matched_pairs,
    mcnemar,
    paired_bootstrap,
    sign_test,
    wilcoxon,
)
from bayes_asr.evaluate.score.word_network import align_marked
from tests.support.nist_oracles import random_pairs, read_trn, write_trn

Text = dict[str, list[str]]
VALUES = st.lists(st.integers(0, 30), min_size=3, max_size=9)


@pytest.fixture
def systems(golden: Path) -> tuple[Text, Text, Text]:
    """Reference, system A and system B: 32 utterances of 8 speakers."""
    ref, a, b = (read_trn(golden / f"{name}.trn") for name in ("ref", "sysA", "sysB"))
    return ref, a, b


def mapsswe(ref: Text, a: Text, b: Text) -> tuple[np.ndarray, np.ndarray]:
    return mapsswe_segments([(mark(align(ref[u], a[u])), mark(align(ref[u], b[u]))) for u in ref])


def speaker_rates(ref: Text, hyp: Text) -> np.ndarray:
    speakers = itertools.groupby(ref, key=lambda u: u.split("-")[0])
    counts = ([count_errors(ref[u], hyp[u]) for u in us] for _, us in speakers)
    return np.array([100 * sum(c.errors for c in cs) / sum(c.tokens for c in cs) for cs in counts])


@pytest.mark.parametrize(
    ("prior", "timit", "ami"),
    [
        ("uniform", (13.6096, 15.2299), (26.1136, 26.6895)),
        ("jeffreys", (13.6048, 15.2249), (26.1133, 26.6893)),
        ("clopper-pearson", (13.5980, 15.2320), (26.1128, 26.6898)),
        ("wald", (13.5904, 15.2107), (26.1125, 26.6885)),
    ],
)
def test_beta_intervals_of_the_paper(prior: str, timit: tuple, ami: tuple) -> None:
    assert beta_interval(1039, 7215, prior=prior) == pytest.approx(timit, abs=5e-5)
    assert beta_interval(23761, 90002, prior=prior) == pytest.approx(ami, abs=5e-5)


@pytest.mark.parametrize(("errors", "tokens"), [(11, 10), (0, 0), (-1, 10)])
def test_no_beta_interval_beyond_all_tokens(errors: int, tokens: int) -> None:
    with pytest.raises(InputError, match=f"{errors} errors of {tokens} tokens; use bootstrap"):
        beta_interval(errors, tokens)


@pytest.mark.parametrize("errors", [0, 10])
def test_clopper_pearson_reaches_the_ends(errors: int) -> None:
    expected = stats.binomtest(errors, 10).proportion_ci(method="exact")
    interval = beta_interval(errors, 10, prior="clopper-pearson")
    assert interval == pytest.approx([100 * expected.low, 100 * expected.high])


@pytest.mark.parametrize("prior", ["uniform", "jeffreys"])
def test_interval_of_no_or_all_errors_holds_the_rate(prior: Prior) -> None:
    """A rate of 100 stands in its interval; the other bound is that of the beta law."""
    none, every = (beta_interval(errors, 20, prior=prior) for errors in (0, 20))
    a = 1.0 if prior == "uniform" else 0.5
    assert none == pytest.approx((0, 100 * stats.beta.ppf(0.975, a, 20 + a)))
    assert (none.low, every.high) == (0, 100)
    assert every.low == pytest.approx(100 - none.high)


def test_bootstrap_error_equals_the_delta_method() -> None:
    rng = np.random.default_rng(7)
    tokens = rng.integers(20, 60, size=400)
    errors = rng.binomial(tokens, rng.beta(2, 8, size=400))
    rate = errors.sum() / tokens.sum()
    analytic = 100 * np.sqrt(((errors - rate * tokens) ** 2).sum()) / tokens.sum()
    result = bootstrap(errors, tokens)
    assert result.standard_error == pytest.approx(analytic, rel=0.02)
    assert result.mean == pytest.approx(100 * rate, abs=analytic / 10)
    half = (result.interval.high - result.interval.low) / 2
    assert half == pytest.approx(1.96 * analytic, rel=0.03)


def test_bootstrap_is_the_same_for_the_same_seed() -> None:
    errors, tokens = np.arange(30), np.full(30, 40)
    assert bootstrap(errors, tokens, seed=3) == bootstrap(errors, tokens, seed=3)
    assert bootstrap(errors, tokens, seed=3) != bootstrap(errors, tokens, seed=4)


def test_system_does_not_improve_on_itself() -> None:
    errors, tokens = np.arange(20), np.full(20, 30)
    paired = paired_bootstrap(errors, errors, tokens, replicates=500)
    assert paired.improvement == 0
    assert paired.difference.interval == (0, 0)


def test_paired_bootstrap_of_a_difference_equals_a_bootstrap_of_it() -> None:
    """The same draws serve both systems, so the difference is resampled as one column."""
    rng = np.random.default_rng(1)
    tokens = rng.integers(5, 50, size=60)
    a, b = rng.binomial(tokens, 0.3), rng.binomial(tokens, 0.25)
    paired = paired_bootstrap(a, b, tokens, seed=5)
    assert paired.difference == bootstrap(a - b, tokens, seed=5)
    assert paired.improvement + paired_bootstrap(b, a, tokens, seed=5).improvement <= 1


def test_mapsswe_of_the_golden_systems(systems: tuple[Text, Text, Text]) -> None:
    result = matched_pairs(*mapsswe(*systems))
    assert result.segments == 109
    assert (result.mean, result.deviation) == pytest.approx((0.394, 1.305), abs=5e-4)
    assert result.z == pytest.approx(3.155, abs=5e-4)
    assert result.p == pytest.approx(0.0016, abs=5e-5)


def sc_stats(folder: Path, ref: Text, a: Text, b: Text) -> tuple[int, float]:
    """Number of segments and Z as NIST's sc_stats counts them."""
    if not shutil.which("sctk"):
        pytest.skip("sc_stats is not installed (Debian package sctk)")
    for name, text in {"ref": ref, "a": a, "b": b}.items():
        write_trn(folder / f"{name}.trn", text)
    for name in "ab":
        command = f"sctk sclite -r ref.trn trn -h {name}.trn trn -i rm -o sgml -n {name} -O ."
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    both = (folder / "a.sgml").read_bytes() + (folder / "b.sgml").read_bytes()
    command = "sctk sc_stats -p -t mapsswe -v -n -"
    printed = subprocess.run(
        command.split(), cwd=folder, check=True, capture_output=True, input=both
    ).stdout.decode()
    found = re.search(r"# segs: (\d+).*Z Stat: (-?[\d.]+)\)", printed)
    assert found, printed
    return int(found[1]), float(found[2])


@pytest.mark.parametrize("seed", range(5))
def test_mapsswe_equals_sc_stats(tmp_path: Path, seed: int) -> None:
    first, second = random_pairs(2 * seed, 60), random_pairs(2 * seed + 1, 60)
    ref = {f"s{i % 6}-{i:04d}": pair[0] for i, pair in enumerate(first)}
    a = {u: pair[1] for u, pair in zip(ref, first, strict=True)}
    b = {u: pair[1] for u, pair in zip(ref, second, strict=True)}
    segments, z = sc_stats(tmp_path, ref, a, b)
    result = matched_pairs(*mapsswe(ref, a, b))
    assert result.segments == segments
    assert abs(result.z) == pytest.approx(abs(z), abs=6e-4)


def test_segments_close_after_two_good_words() -> None:
    right = Marks([0] * 7, [0] * 8)
    a = Marks([1, 0, 1, 0, 0, 0, 1], [0] * 8)
    assert [s.tolist() for s in mapsswe_segments([(a, right)])] == [[2, 1], [0, 0]]
    late = Marks([0] * 7, [0] * 7 + [2])
    assert [s.tolist() for s in mapsswe_segments([(right, late)])] == [[0], [2]]


def test_segments_need_the_same_reference() -> None:
    with pytest.raises(InputError, match="same reference words"):
        mapsswe_segments([(Marks([0], [0, 0]), Marks([0, 0], [0, 0, 0]))])


@given(a=VALUES, seed=st.integers(0, 9))
def test_matched_pairs_by_student_equals_scipy(a: list[int], seed: int) -> None:
    b = np.random.default_rng(seed).permutation(a) + np.arange(len(a))
    result = matched_pairs(np.array(a), b)
    if result.deviation > 0:  # scipy warns of others, with which it computes nothing
        expected = stats.ttest_rel(a, b)
        assert (result.z, result.p_student) == pytest.approx(tuple(expected), abs=1e-12)
        assert result.p == pytest.approx(2 * stats.norm.sf(abs(result.z)))


def test_z_of_the_papers_p_value() -> None:
    """p = 4.96e-5 is |Z| = 4.0575 on two sides, 3.893 on one, |t| with 23 degrees 4.975."""
    d = np.array([0.0, 1.0])
    for z, alternative in ((4.0575, "two-sided"), (3.893, "greater")):
        scaled = d - d.mean() + z * d.std(ddof=1) / np.sqrt(2)
        assert matched_pairs(scaled, 0 * d, alternative).p == pytest.approx(4.96e-5, abs=2e-7)
    d = np.arange(24.0)
    scaled = d - d.mean() + 4.975 * d.std(ddof=1) / np.sqrt(24)
    assert matched_pairs(scaled, 0 * d).p_student == pytest.approx(4.96e-5, abs=5e-8)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
@pytest.mark.parametrize("n", [2, 3, 7, 40])
@pytest.mark.parametrize("difference", [-2.0, 0.1, 3.0])
def test_equal_differences_say_what_their_signs_do(
    difference: float, n: int, alternative: Alternative
) -> None:
    signs = stats.binomtest(n if difference > 0 else 0, n, alternative=alternative)
    result = matched_pairs(np.full(n, difference), np.zeros(n), alternative)
    assert (result.p, result.p_student) == pytest.approx((signs.pvalue, signs.pvalue))
    assert result.z == np.copysign(np.inf, difference)


def test_matched_pairs_without_spread() -> None:
    same = matched_pairs(np.ones(3), np.ones(3))
    assert (same.z, same.p, same.p_student) == (0, 1, 1)
    with pytest.raises(InputError, match="at least 2 segments"):
        matched_pairs(np.ones(1), np.ones(1))


def test_wilcoxon_of_the_golden_speakers(systems: tuple[Text, Text, Text]) -> None:
    ref, a, b = systems
    rates = speaker_rates(ref, a), speaker_rates(ref, b)
    normal = wilcoxon(*rates)
    assert abs(normal.statistic) == pytest.approx(2.52, abs=5e-3)
    assert normal.p == pytest.approx(0.012, abs=5e-4)
    assert wilcoxon(*rates, method="exact").p == pytest.approx(0.015625)
    assert sign_test(*rates, equal="split").p == pytest.approx(0.070, abs=5e-4)
    assert sign_test(*rates).p == pytest.approx(0.015625)


def test_wilcoxon_of_the_paper() -> None:
    """A rank sum of 35 over 24 speakers is the published p of 5.09e-4 on one side."""
    ranks = np.arange(1.0, 25.0)
    positive = np.isin(ranks, (11, 24))
    differences = np.where(positive, ranks, -ranks)
    for method in ("normal", "tied"):
        result = wilcoxon(differences, 0 * ranks, method=method, alternative="less")
        assert result.p == pytest.approx(5.086e-4, abs=1e-7)


@given(values=st.lists(st.integers(-40, 40), min_size=1, max_size=10))
def test_exact_wilcoxon_equals_all_signs(values: list[int]) -> None:
    """Ties and zeros included: count every assignment of signs to the ranks."""
    d = np.array([v for v in values if v])
    ranks = stats.rankdata(np.abs(d))
    seen = ranks[d > 0].sum()
    sums = [np.dot(s, ranks) for s in itertools.product((0, 1), repeat=len(d))]
    below, above = (np.mean(np.less_equal(*pair)) for pair in ((sums, seen), (seen, sums)))
    result = wilcoxon(np.array(values), np.zeros(len(values)), method="exact")
    assert result == pytest.approx((seen, min(1, 2 * min(below, above))))


@given(values=st.lists(st.integers(-400, 400), min_size=9, max_size=30, unique_by=abs))
def test_normal_wilcoxon_equals_scipy_without_ties(values: list[int]) -> None:
    d = np.array([v for v in values if v])
    for alternative in ("two-sided", "less", "greater"):
        expected = stats.wilcoxon(d, correction=False, method="asymptotic", alternative=alternative)
        result = wilcoxon(d, np.zeros(len(d)), alternative=alternative)
        assert result.p == pytest.approx(expected.pvalue)


@given(a=VALUES, seed=st.integers(0, 9))
def test_sign_test_and_mcnemar_equal_scipy(a: list[int], seed: int) -> None:
    first = np.array(a)
    second = np.random.default_rng(seed).integers(0, 30, size=len(a))
    for alternative in ("two-sided", "less", "greater"):
        for test, x, y in ((sign_test, first, second), (mcnemar, first > 15, second > 15)):
            more, fewer = int((x > y).sum()), int((x < y).sum())
            if more + fewer:
                expected = stats.binomtest(more, more + fewer, alternative=alternative)
                assert test(x, y, alternative) == pytest.approx((more, expected.pvalue))


@given(values=st.lists(st.integers(-30, 30), min_size=1, max_size=60))
def test_normal_wilcoxon_of_tied_ranks_equals_scipy(values: list[int]) -> None:
    """Equal pairs dropped, ties in the variance, no continuity: scipy's own normal test."""
    d = np.array([*values, 7])
    for alternative in ("two-sided", "less", "greater"):
        expected = stats.wilcoxon(d, correction=False, method="asymptotic", alternative=alternative)
        result = wilcoxon(d, np.zeros(len(d)), method="tied", alternative=alternative)
        assert result.p == pytest.approx(expected.pvalue)


def test_wilcoxon_without_a_difference() -> None:
    for method in ("tied", "exact"):
        assert wilcoxon(np.ones(4), np.ones(4), method=method).p == 1


def test_exact_sign_test_where_sc_stats_is_wrong() -> None:
    """24 speakers, 17 to 7 (sc_stats prints .002), and 62 pairs, 27 to 35 (it prints .000)."""
    for greater, pairs, p in ((17, 24, 0.064), (35, 62, 0.374)):
        a = np.array([1] * greater + [-1] * (pairs - greater))
        assert sign_test(a, 0 * a).p == pytest.approx(p, abs=5e-4)


def test_holm_of_a_worked_example() -> None:
    """Holm (1979): the smallest p by 4, the next by 3, ..., never decreasing, at most 1."""
    adjusted = holm([0.01, 0.04, 0.03, 0.005])
    assert adjusted == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1, 1])
    assert len(holm([])) == 0


@pytest.mark.parametrize("function", [bootstrap, matched_pairs, wilcoxon, sign_test, mcnemar])
def test_arrays_of_two_lengths_are_refused(function: Callable[..., object]) -> None:
    with pytest.raises(InputError, match=r"one length that is not 0, not \(3,\), \(2,\)"):
        function(np.ones(3), np.ones(2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: wilcoxon(x, x, method="fast"), "unknown method 'fast'; known: normal, exact"),
        (lambda x: sign_test(x, x, alternative="more"), "known: two-sided, less, greater"),
        (lambda x: beta_interval(1, 2, prior="flat"), "unknown prior 'flat'; known: uniform, "),
    ],
)
def test_unknown_choices_list_the_known(call: Callable[..., object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(np.ones(3))


def test_exact_wilcoxon_refuses_what_it_cannot_count() -> None:
    with pytest.raises(InputError, match="501 pairs are too many for exact; use normal"):
        wilcoxon(np.arange(501), np.zeros(501), method="exact")


def test_replicates_without_tokens_have_no_rate() -> None:
    """As by drawing all: two units, of which one has no tokens, make three kinds of replicates."""
    a, b, tokens = np.array([1, 2]), np.array([0, 0]), np.array([4, 0])
    mean = np.average([1 / 4, 3 / 4], weights=[1, 2])  # twice the first; each once, in either order
    for drawn in (bootstrap(a, tokens), paired_bootstrap(a, b, tokens).difference):
        assert drawn.mean == pytest.approx(100 * mean, abs=1)
        assert drawn.interval == (25.0, 75.0)
    assert paired_bootstrap(a, b, tokens).improvement == 1.0
    with pytest.raises(InputError, match="tokens in any of 2 units"):
        bootstrap(a, np.zeros(2, int))


def test_recognised_words_that_may_be_there_are_no_errors_of_segments() -> None:
    edits = align_marked(["a", "b"], ["a", "(uh)", "b", "c"])
    marks = mark(edits)
    assert sum(marks.wrong) + sum(marks.inserted) == tally(edits).errors == 1
