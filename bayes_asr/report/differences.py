"""Is any system better than the others? Paired tests against the one that is best on dev."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bayes_asr.report.details import Key
from bayes_asr.report.runs import System
from bayes_asr.score.statistics import (
    EXACT_LIMIT,
    holm,
    matched_pairs,
    paired_bootstrap,
    wilcoxon,
)


def find_best_on_dev(systems: Sequence[System], convention: str) -> System:
    """The system with the lowest mean rate on dev; without dev scores, the first."""
    key = ("dev", convention)
    scored = [system for system in systems if key in system.keys]
    return min(scored, key=lambda s: float(s.rates(key).mean())) if scored else systems[0]


def compare_with_best(systems: Sequence[System], key: Key) -> pd.DataFrame:
    """Each system against the best on dev: difference, interval, and p by matched pairs.

    Errors of an utterance are means over seeds. The interval is a bootstrap over utterances, p is
    by matched pairs over utterances, adjusted by Holm for the number of rows, and by Wilcoxon's
    test over speakers, exact for up to 500. Systems scored on other utterances are left out.
    """
    best = find_best_on_dev(systems, key[1])
    reference = [u.utterance for u in best.runs[0].scores[key].utterances]
    rows = []
    for system in systems:
        if system is best or key not in system.keys:
            continue
        if [u.utterance for u in system.runs[0].scores[key].utterances] != reference:
            continue
        rows.append(_compare_row(system, best, key))
    table = pd.DataFrame(
        rows, columns=["system", "against", "points more", "95 %", "p", "p by speaker"]
    )
    table.insert(5, "p (Holm)", [_format_p(p) for p in holm([row[4] for row in rows])])
    for column in ("p", "p by speaker"):
        table[column] = [_format_p(p) for p in table[column]]
    return table


def _compare_row(system: System, best: System, key: Key) -> tuple[str, str, str, str, float, float]:
    tokens = np.array([u.counts.tokens for u in best.runs[0].scores[key].utterances])
    errors, fewest = _mean_errors(system, key), _mean_errors(best, key)
    difference = paired_bootstrap(errors, fewest, tokens).difference
    low, high = difference.interval
    points = 100 * (errors.sum() - fewest.sum()) / tokens.sum()
    speakers = np.array([u.speaker for u in best.runs[0].scores[key].utterances])
    names = [name for name in dict.fromkeys(speakers) if tokens[speakers == name].sum()]
    first, second = (
        np.array([column[speakers == n].sum() / tokens[speakers == n].sum() for n in names])
        for column in (errors, fewest)
    )
    p = matched_pairs(errors, fewest).p if len(tokens) > 1 else 1.0
    by_speaker = wilcoxon(first, second, "exact" if len(names) <= EXACT_LIMIT else "normal").p
    return system.name, best.name, f"{points:+.2f}", f"[{low:+.2f}, {high:+.2f}]", p, by_speaker


def _mean_errors(system: System, key: Key) -> np.ndarray:
    """Errors of each utterance [S], mean over seeds."""
    seeds = [[u.counts.errors for u in run.scores[key].utterances] for run in system.runs]
    return np.array(seeds, dtype=float).mean(axis=0)


def _format_p(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"
