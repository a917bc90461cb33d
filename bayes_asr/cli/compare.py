"""bayes-asr compare: is one system better than another, and how sure can one be?"""

import argparse
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from bayes_asr.cli.arguments import seed, whole
from bayes_asr.errors import InputError, printable
from bayes_asr.files import find_below
from bayes_asr.score.comparison import Comparison, adjust_over, compare
from bayes_asr.score.scores import Score, read_scores

RUN = "scored run, or a folder of runs, whose errors are taken together"

REPLICATES = whole(100, 1_000_000)  # fewer give no quantile of 2.5 %


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("a", type=Path, metavar="RUN_A", help=RUN)
    parser.add_argument("b", type=Path, metavar="RUN_B", help=RUN)
    parser.add_argument(
        "--pair",
        type=Path,
        nargs=2,
        action="append",
        default=[],
        metavar=("RUN_A", "RUN_B"),
        help="one more pair, compared too; at the end all A together against all B (repeatable)",
    )
    parser.add_argument("--on", choices=("dev", "test"), default="test", help="default: test")
    parser.add_argument(
        "--alternative",
        choices=("two-sided", "less", "greater"),
        default="two-sided",
        help="what the tests ask: whether A has less (or greater) errors than B; default: either",
    )
    parser.add_argument(
        "--replicates",
        type=REPLICATES,
        default=10_000,
        help="of the bootstrap (default %(default)s)",
    )
    parser.add_argument("--seed", type=seed, default=0, help="of the bootstrap (default 0)")
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(args: argparse.Namespace) -> None:
    """Compare each pair, and all of them together, under each convention and print."""
    paths = [(args.a, args.b), *args.pair]
    names = [(printable(str(a)), printable(str(b))) for a, b in paths]
    pairs = [[_read_system(path, args.on) for path in pair] for pair in paths]
    for pair, pair_names in zip(pairs, names, strict=True):
        for system, name in zip(pair, pair_names, strict=True):
            _check_conventions(pairs[0][0], system, (names[0][0], name))
    options = (args.replicates, args.seed, args.alternative)
    entries: list[tuple[Comparison, dict[str, float]]] = []
    for convention in pairs[0][0]:
        scores = [(a[convention], b[convention]) for a, b in pairs]
        found = [compare(*pair, name, *options) for pair, name in zip(scores, names, strict=True)]
        entries += list(zip(found, adjust_over(found), strict=True))
        if args.pair:
            all_a, all_b = (
                [run for system in side for run in system] for side in zip(*scores, strict=True)
            )
            entries.append((compare(all_a, all_b, ("group A", "group B"), *options), {}))
    if args.json:
        print(json.dumps([_as_dict(*entry, len(pairs)) for entry in entries], indent=1))
    else:
        print("\n\n".join(_format(*entry, len(pairs)) for entry in entries))


def _read_system(path: Path, name: str) -> dict[str, list[Score]]:
    """The scores of a run, or of all runs below a folder, by convention."""
    file = f"score_{name}.json"
    below = find_below(path, file)
    files = [path / file] if path / file in below else below
    runs = [{s.convention: s for s in read_scores(f)} for f in files or [path / file]]
    for found, run in zip(files, runs, strict=True):
        _check_conventions(runs[0], run, (str(files[0].parent), str(found.parent)))
    return {convention: [run[convention] for run in runs] for convention in runs[0]}


def _check_conventions(a: Collection[str], b: Collection[str], names: tuple[str, str]) -> None:
    if set(a) != set(b):
        raise InputError(
            f"{names[0]} is scored {', '.join(a)} and {names[1]} {', '.join(b)}; score both alike"
        )


def _as_dict(comparison: Comparison, adjusted: dict[str, float], pairs: int) -> dict[str, Any]:
    """The comparison, with p by Holm over the pairs where it is one of several."""
    found = comparison.as_dict()
    if pairs > 1 and adjusted:
        for test, entry in zip(comparison.tests, found["tests"], strict=True):
            entry["adjusted_over_pairs"] = adjusted[test.title]
    return found


def _format(comparison: Comparison, adjusted: dict[str, float], pairs: int) -> str:
    lines = [comparison.sentence(), ""]
    for letter, system in (("A", comparison.a), ("B", comparison.b)):
        beta = f"{system.beta.low:.2f} to {system.beta.high:.2f}" if system.beta else "none"
        low, high = system.bootstrap.interval
        runs = f" ({system.runs} runs)" if system.runs > 1 else ""
        counts = system.counts.kaldi_line(comparison.metric)
        lines.append(
            f"{letter} {system.name}{runs}: {counts}, 95 %: beta {beta}, "
            f"bootstrap {low:.2f} to {high:.2f}"
        )
    asked = {"two-sided": "", "less": "; p: A has less", "greater": "; p: A has more"}
    over_pairs = pairs > 1 and bool(adjusted)
    lines += [
        f"probability that B improves on A: {100 * comparison.difference.improvement:.2f} %"
        f"{asked[comparison.alternative]}",
        "",
        f"{'test':30} {'units':>16} {'statistic':>10} {'p':>9} {'p (Holm)':>9}"
        + (f" {f'over {pairs} pairs':>14}" if over_pairs else ""),
    ]
    for test in comparison.tests:
        units = f"{test.number} {test.unit}{'s' if test.number != 1 else ''}"
        lines.append(
            f"{test.test:30} {units:>16} {test.statistic:10.3f} {test.p:9.3g} {test.adjusted:9.3g}"
            + (f" {adjusted[test.title]:14.3g}" if over_pairs else "")
        )
    return "\n".join(lines)
