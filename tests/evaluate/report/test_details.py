"""Speakers, confusions, errors and alignments of a report."""

import re
from pathlib import Path

import numpy as np

from bayes_asr.evaluate.report.details import (
    count_confusions,
    format_alignment,
    iter_edits,
    list_errors,
    rank_errors,
    tabulate_speakers,
)
from bayes_asr.evaluate.report.runs import ReportedSystem
from bayes_asr.evaluate.score.counts import align
from bayes_asr.evaluate.score.scores import read_scores
from tests.support.report_runs import KEY, make_score


def test_speakers_are_means_over_seeds(out: Path, systems: list[ReportedSystem]) -> None:
    table = tabulate_speakers(systems, KEY)
    assert list(table.columns) == ["speaker", "tokens", "gru", "li & <bru>", "lstm"]
    scores = [
        read_scores(out / "li & <bru>" / f"seed{seed}" / "score_test.json")[0] for seed in (1, 2)
    ]
    rates = [score.speakers["spk0"].rate for score in scores]
    assert table.iloc[0]["li & <bru>"] == f"{np.mean(rates):.1f}"
    assert table.iloc[0]["tokens"] == str(scores[0].speakers["spk0"].tokens)


def test_confusions_add_up_to_the_counts() -> None:
    score = make_score(1, 0.3, "test", "strict")
    table = count_confusions(iter_edits([score, score]))
    counts = score.counts
    assert table.loc["–"].sum() == 2 * counts.insertions
    assert table["–"].sum() == 2 * counts.deletions
    assert table.drop(index="–").to_numpy().sum() == 2 * counts.tokens
    correct = np.trace(table.to_numpy())
    assert correct == 2 * (counts.tokens - counts.substitutions - counts.deletions)


def test_frequent_errors_are_counted_and_sorted() -> None:
    edits = align(str.split("a b c a"), str.split("x b d")) + align(["a"], ["x"])
    table = rank_errors(edits, most=2)
    assert table.to_numpy().tolist() == [["a", "x", "2"], ["a", "d", "1"]]


def test_alignment_has_equal_columns() -> None:
    text = format_alignment(align(str.split("sil dh ah"), str.split("sil d iy ah")))
    assert text == "REF: sil * dh ah\nHYP: sil d iy ah\n         I S\n"


def test_listing_has_every_utterance_with_errors_once() -> None:
    score = make_score(1, 0.1, "test", "strict")
    entries = list(list_errors(score))
    wrong = [u for u in score.utterances if u.counts.errors]
    assert sorted(e.split(":")[0] for e in entries) == sorted(u.utterance for u in wrong)
    errors = [int(re.findall(r": (\d+) errors", entry)[0]) for entry in entries]
    assert errors == sorted(errors, reverse=True)
    assert sum(errors) == score.counts.errors
