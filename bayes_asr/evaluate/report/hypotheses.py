"""Hypotheses that were stated beforehand: that some systems, together, have fewer errors."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.report.runs import Key, ReportedSystem
from bayes_asr.evaluate.report.table import as_markdown, as_text, escape_markdown
from bayes_asr.evaluate.score.comparison import Comparison, adjust_over, compare
from bayes_asr.evaluate.score.scores import check_all_comparable


class Group(NamedTuple):
    """Systems and what they are called together."""

    name: str
    systems: Sequence[ReportedSystem]


class GroupHypothesis(NamedTuple):
    """That the systems of `fewer` have fewer errors than those of `than`."""

    fewer: Group
    than: Group

    @property
    def statement(self) -> str:
        """The hypothesis in words."""
        fewer, than = (
            f"{group.name} ({', '.join(system.name for system in group.systems)})" for group in self
        )
        return f"{fewer} have fewer errors than {than}"


class Answer(NamedTuple):
    """The result of testing a hypothesis on a set: sentences, and its tests as a table."""

    statement: str
    sentences: Sequence[str]
    table: pd.DataFrame

    def as_text(self) -> str:
        """For a terminal."""
        return "\n".join([f"Hypothesis: {self.statement}.", *self.sentences, as_text(self.table)])

    def as_markdown(self) -> str:
        """For a file."""
        sentences = escape_markdown("\n".join(self.sentences))
        statement = escape_markdown(self.statement)
        return f"Hypothesis: {statement}.\n\n{sentences}\n\n{as_markdown(self.table)}"


class Answers(NamedTuple):
    """The hypotheses that were tested, and why others were not."""

    tested: Sequence[Answer]
    left_out: Sequence[str]


def answer(hypotheses: Sequence[GroupHypothesis], key: Key) -> Answers:
    """Test each hypothesis as `bayes-asr compare --group --against --alternative less` does it.

    Those with a system that lacks this set and convention, or is scored on other references, are
    left out.
    """
    tested: list[tuple[GroupHypothesis, Comparison]] = []
    left_out = []
    for hypothesis in hypotheses:
        missing = [s.name for group in hypothesis for s in group.systems if key not in s.keys]
        try:
            if missing:
                raise InputError(f"{', '.join(missing)}: not scored on {key[0]}, {key[1]}")
            tested.append((hypothesis, _compare(hypothesis, key)))
        except InputError as error:
            left_out.append(f"{hypothesis.statement} ({error})")
    comparisons = [comparison for _, comparison in tested]
    # A single hypothesis needs no correction.
    adjusted = adjust_over(comparisons) if len(tested) > 1 else [{} for _ in tested]
    answers = [
        Answer(
            hypothesis.statement,
            [
                comparison.sentence(over_all),
                comparison.seeds_sentence(),
                comparison.power_sentence(len(tested)),
                *comparison.warnings,
            ],
            _tabulate(comparison, over_all),
        )
        for (hypothesis, comparison), over_all in zip(tested, adjusted, strict=True)
    ]
    return Answers(answers, left_out)


def _compare(hypothesis: GroupHypothesis, key: Key) -> Comparison:
    systems = [system for group in hypothesis for system in group.systems]
    check_all_comparable((s.name, run.scores[key]) for s in systems for run in s.runs)
    fewer, than = (
        [[run.scores[key] for run in system.runs] for system in group.systems]
        for group in hypothesis
    )
    names = hypothesis.fewer.name, hypothesis.than.name
    # The alternative is one-sided, as a hypothesis says which group has fewer errors.
    return compare(fewer, than, names, alternative="less", as_groups=True)


def _tabulate(comparison: Comparison, over_all: dict[str, float]) -> pd.DataFrame:
    """A test in each row; `over_all`: p by Holm over the hypotheses, where there are several."""
    rows = []
    for test in comparison.tests:
        row = {
            "test": test.test,
            "over": test.units,
            "statistic": f"{test.statistic:.3f}",
            "p one-sided": f"{test.p:.3g}",
            "p two-sided": f"{test.two_sided:.3g}",
        }
        if over_all:
            row["p one-sided, Holm over hypotheses"] = f"{over_all[test.title]:.3g}"
        rows.append(row)
    return pd.DataFrame(rows)
