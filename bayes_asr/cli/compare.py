"""bayes-asr compare: is one run better than another, and how sure can one be?"""

import argparse
import json
from pathlib import Path

from bayes_asr.errors import InputError
from bayes_asr.score.comparison import Comparison, compare
from bayes_asr.score.scores import read_scores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("a", type=Path, metavar="RUN_A", help="scored run directory")
    parser.add_argument("b", type=Path, metavar="RUN_B", help="scored run directory")
    parser.add_argument("--on", choices=("dev", "test"), default="test", help="default: test")
    parser.add_argument("--replicates", type=int, default=10_000, help="of the bootstrap")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(args: argparse.Namespace) -> None:
    """Compare under each convention and print."""
    names = str(args.a), str(args.b)
    scores_a, scores_b = (
        {score.convention: score for score in read_scores(run / f"score_{args.on}.json")}
        for run in (args.a, args.b)
    )
    if scores_a.keys() != scores_b.keys():
        raise InputError(
            f"{names[0]} is scored {', '.join(scores_a)} and {names[1]} {', '.join(scores_b)}; "
            "score both alike"
        )
    comparisons = [
        compare(score, scores_b[convention], names, args.replicates, args.seed)
        for convention, score in scores_a.items()
    ]
    if args.json:
        print(json.dumps([comparison.as_dict() for comparison in comparisons], indent=1))
    else:
        print("\n\n".join(_format(comparison) for comparison in comparisons))


def _format(comparison: Comparison) -> str:
    lines = [comparison.sentence(), ""]
    for letter, system in (("A", comparison.a), ("B", comparison.b)):
        beta = f"{system.beta.low:.2f} to {system.beta.high:.2f}" if system.beta else "none"
        low, high = system.bootstrap.interval
        lines.append(
            f"{letter} {system.name}: {system.counts.kaldi_line()}, 95 %: beta {beta}, "
            f"bootstrap {low:.2f} to {high:.2f}"
        )
    lines += [
        f"probability that B improves on A: {100 * comparison.difference.improvement:.2f} %",
        "",
        f"{'test':30} {'units':>16} {'statistic':>10} {'p':>9} {'p (Holm)':>9}",
    ]
    for test in comparison.tests:
        units = f"{test.number} {test.unit}{'s' if test.number != 1 else ''}"
        lines.append(
            f"{test.test:30} {units:>16} {test.statistic:10.3f} {test.p:9.3g} {test.adjusted:9.3g}"
        )
    return "\n".join(lines)
