"""Runs that may be compared: on the same references, counted alike, each training once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.evaluate.score.comparison import compare
from bayes_asr.evaluate.score.counts import tally
from bayes_asr.evaluate.score.scores import Score, UtteranceScore, write_scores
from tests.support.report_runs import make_score

NAMES = ("A", "B")


def made(seed: int, convention: str = "strict") -> Score:
    return make_score(seed, 0.3, "test", convention, utterances=12, speakers=3)


def write(run: Path, *scores: Score) -> str:
    write_scores(scores, run / "score_test.json")
    return str(run)


def with_reference(score: Score, place: int, words: str) -> Score:
    """A score of another transcript of one utterance."""
    utterances: list[UtteranceScore] = [*score.utterances]
    changed = replace(utterances[place], reference=tuple(words.split()))
    utterances[place] = replace(changed, counts=tally(score.alignment(changed)))
    return replace(score, utterances=utterances)


def with_unknown(score: Score, *words: str) -> Score:
    """A score of the convention `known`, without the errors at these words."""
    known = replace(score, convention="known", unknown=frozenset(words))
    return replace(
        known,
        utterances=[replace(u, counts=tally(known.alignment(u))) for u in known.utterances],
    )


def test_other_unknown_words_leave_the_other_conventions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (
        write(tmp_path / name, made(i), with_unknown(made(i), *unknown))
        for i, (name, unknown) in enumerate({"a": ("aa", "ih", "sil"), "b": ("aa", "z")}.items())
    )
    assert main(["compare", a, b, "--json", "--replicates=100"]) == 0
    printed = capsys.readouterr()
    (entry,) = json.loads(printed.out)
    expected = compare(made(0), made(1), (a, b), 100)
    assert (entry["convention"], entry["difference"]) == ("strict", expected.points)
    assert f"known: not compared: {a} and {b} differ in unknown: 3 and 2, such as ih" in printed.err


def test_what_has_no_convention_in_common_that_is_counted_alike_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path / "a", with_unknown(made(0), "aa"))
    b = write(tmp_path / "b", with_unknown(made(1), "ih", "z"))
    assert main(["compare", a, b]) == 1
    assert "differ in unknown: 1 and 2, such as aa" in capsys.readouterr().err


def test_the_run_that_is_scored_on_other_references_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With both numbers, and both texts of the first utterance that differs."""
    other = with_reference(with_reference(made(2), 4, "aa b"), 7, "d")
    short = replace(made(3), utterances=made(3).utterances[:-1])
    for name, score in (("a/seed1", made(0)), ("a/seed2", other), ("b", made(1)), ("c", short)):
        write(tmp_path / name, score)
    a, b, c = (str(tmp_path / name) for name in "abc")
    fourth, last = (made(0).utterances[i] for i in (4, -1))
    assert main(["compare", b, a]) == 1
    message = capsys.readouterr().err
    assert f"{b} and {a}/seed2 do not score the same test references" in message
    assert f"of 12 and 12 utterances 2 utterances differ, such as {fourth.utterance}: " in message
    assert f"'{' '.join(fourth.reference)}' and 'aa b'" in message
    assert main(["compare", b, c]) == 1
    message = capsys.readouterr().err
    assert f"of 12 and 11 utterances 1 utterance differs, such as {last.utterance}: " in message
    assert message.rstrip().endswith("and nothing")


@pytest.mark.parametrize("clusters", [("speaker", "session"), ("session", "speaker")])
def test_speakers_and_sessions_are_not_compared(clusters: tuple[str, str]) -> None:
    a, b = (replace(made(i), cluster=cluster) for i, cluster in enumerate(clusters))
    with pytest.raises(InputError, match=f"differ in cluster: {' and '.join(clusters)}"):
        compare(a, b, NAMES, 100)
