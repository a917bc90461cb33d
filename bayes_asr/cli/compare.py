"""bayes-asr compare: is one system better than another, and how sure can one be?"""

import argparse
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bayes_asr.base.errors import InputError, printable
from bayes_asr.base.files import find_below
from bayes_asr.cli.arguments import seed, whole
from bayes_asr.cli.groups import RunGroup, add_group_options, read_groups
from bayes_asr.evaluate.score.comparison import Comparison, adjust_over, compare
from bayes_asr.evaluate.score.pairs import check_comparable
from bayes_asr.evaluate.score.scores import Score, read_scores
from bayes_asr.evaluate.score.statistics import Alternative

RUN = "scored run, or a folder of runs, whose errors are taken together"

REPLICATES = whole(100, 1_000_000)  # fewer give no quantile of 2.5 %


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("a", type=Path, nargs="?", metavar="RUN_A", help=RUN)
    parser.add_argument("b", type=Path, nargs="?", metavar="RUN_B", help=RUN)
    parser.add_argument(
        "--pair",
        type=Path,
        nargs=2,
        action="append",
        default=[],
        metavar=("RUN_A", "RUN_B"),
        help="one more pair, compared too; at the end all A together against all B (repeatable)",
    )
    add_group_options(parser)
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


class Side(NamedTuple):
    """One side of a comparison: its name, its systems, and the runs of each by convention."""

    name: str
    paths: Sequence[Path]
    systems: Sequence[Mapping[str, Sequence[Score]]]


class Entry(NamedTuple):
    """A comparison of two sides, and p of each test by Holm where several pairs are compared."""

    comparison: Comparison
    sides: Sequence[Side]
    adjusted: Mapping[str, float]


def run(args: argparse.Namespace) -> None:
    """Compare each pair, and all of them together, under each convention and print."""
    groups = read_groups(args)
    if groups and (args.a or args.pair):
        raise InputError("give RUN_A and RUN_B, or --group and --against, not both")
    pairs = [[_read_side(group, args.on) for group in pair] for pair in groups or _pair_runs(args)]
    first = pairs[0][0]
    for side in (side for pair in pairs for side in pair):
        _check_side(side, first)
    options = (args.replicates, args.seed, args.alternative)
    entries: list[Entry] = []
    for convention in first.systems[0]:
        found = [_compare(pair, convention, options, as_groups=bool(groups)) for pair in pairs]
        entries += map(Entry, found, pairs, adjust_over(found) if len(pairs) > 1 else [{}])
        if args.pair:
            all_a, all_b = zip(*pairs, strict=True)
            together = [_join("group A", all_a), _join("group B", all_b)]
            entries.append(Entry(_compare(together, convention, options), together, {}))
    if args.json:
        print(json.dumps([_as_dict(*entry, len(pairs)) for entry in entries], indent=1))
    else:
        print("\n\n".join(_format(*entry, len(pairs)) for entry in entries))


def _pair_runs(args: argparse.Namespace) -> list[tuple[RunGroup, RunGroup]]:
    """The runs that are not in groups, each a side by itself."""
    if args.b is None:
        raise InputError("give RUN_A and RUN_B, or --group and --against")
    pairs = [(args.a, args.b), *args.pair]
    a, b = ([RunGroup(printable(str(pair[i])), [pair[i]]) for pair in pairs] for i in (0, 1))
    return list(zip(a, b, strict=True))


def _read_side(group: RunGroup, on: str) -> Side:
    return Side(group.name, group.systems, [_read_system(path, on) for path in group.systems])


def _join(name: str, sides: Sequence[Side]) -> Side:
    paths = [path for side in sides for path in side.paths]
    return Side(name, paths, [system for side in sides for system in side.systems])


def _compare(
    sides: Sequence[Side],
    convention: str,
    options: tuple[int, int, Alternative],
    *,
    as_groups: bool = False,
) -> Comparison:
    a, b = sides
    of_a, of_b = ([system[convention] for system in side.systems] for side in sides)
    return compare(of_a, of_b, (a.name, b.name), *options, as_groups=as_groups)


def _read_system(path: Path, name: str) -> dict[str, list[Score]]:
    """The scores of a run, or of all runs below a folder, by convention."""
    file = f"score_{name}.json"
    below = find_below(path, file)
    files = [path / file] if path / file in below else below
    if not files:
        raise InputError(f"{path}: no scored run here ({file}); run bayes-asr score first")
    runs = [{s.convention: s for s in read_scores(f)} for f in files]
    for found, run in zip(files, runs, strict=True):
        _check_conventions(runs[0], run, (str(files[0].parent), str(found.parent)))
    return {convention: [run[convention] for run in runs] for convention in runs[0]}


def _check_side(side: Side, first: Side) -> None:
    """Raise InputError where a system is not scored as the first of all."""
    for path, system in zip(side.paths, side.systems, strict=True):
        names = printable(str(first.paths[0])), printable(str(path))
        _check_conventions(first.systems[0], system, names)
        for convention, (score, *_) in first.systems[0].items():
            check_comparable(score, system[convention][0], names)


def _check_conventions(a: Collection[str], b: Collection[str], names: tuple[str, str]) -> None:
    if set(a) != set(b):
        raise InputError(
            f"{names[0]} is scored {', '.join(a)} and {names[1]} {', '.join(b)}; score both alike"
        )


def _as_dict(
    comparison: Comparison, sides: Sequence[Side], adjusted: Mapping[str, float], pairs: int
) -> dict[str, Any]:
    """The comparison, with p by Holm over the pairs where it is one of several."""
    found = comparison.as_dict(pairs if adjusted else 1, adjusted)
    for letter, side in zip("ab", sides, strict=True):
        found[letter]["systems"] = [str(path) for path in side.paths]
    if adjusted:
        for test, entry in zip(comparison.tests, found["tests"], strict=True):
            entry["adjusted_over_pairs"] = adjusted[test.title]
    return found


def _format(
    comparison: Comparison, sides: Sequence[Side], adjusted: Mapping[str, float], pairs: int
) -> str:
    lines = [comparison.sentence(adjusted), ""]
    for letter, system, side in zip("AB", (comparison.a, comparison.b), sides, strict=True):
        beta = f"{system.beta.low:.2f} to {system.beta.high:.2f}" if system.beta else "none"
        low, high = system.bootstrap.interval
        of = f" of {', '.join(map(str, side.paths))}" if len(side.paths) > 1 else ""
        runs = f" ({system.runs} runs{printable(of)})" if system.runs > 1 else ""
        counts = system.counts.kaldi_line(comparison.metric)
        lines.append(
            f"{letter} {system.name}{runs}: {counts}, 95 %: beta {beta}, "
            f"bootstrap {low:.2f} to {high:.2f}"
        )
    asked = {"two-sided": "", "less": "; p: A has less", "greater": "; p: A has more"}
    lines += [
        f"probability that B improves on A: {100 * comparison.difference.improvement:.2f} %"
        f"{asked[comparison.alternative]}",
        comparison.seeds_sentence(),
        comparison.power_sentence(),
        *([comparison.power_sentence(pairs)] if adjusted else []),
        "",
        *_tabulate_tests(comparison, adjusted, pairs),
        *comparison.warnings,
    ]
    return "\n".join(lines)


def _tabulate_tests(
    comparison: Comparison, adjusted: Mapping[str, float], pairs: int
) -> Iterator[str]:
    directed = comparison.alternative != "two-sided"
    heading = f"{'test':30} {'units':>18} {'statistic':>10} {'p':>9}"
    heading += f" {'two-sided':>9}" * directed + f" {'p (Holm)':>9}"
    yield heading + f" {f'over {pairs} pairs':>14}" * bool(adjusted)
    for test in comparison.tests:
        line = f"{test.test:30} {test.units:>18} {test.statistic:10.3f} {test.p:9.3g}"
        line += f" {test.two_sided:9.3g}" * directed + f" {test.adjusted:9.3g}"
        yield line + (f" {adjusted[test.title]:14.3g}" if adjusted else "")
