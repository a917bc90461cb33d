"""bayes-asr compare: is one system better than another, and how sure can one be?"""

import argparse
import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from bayes_asr.base.errors import InputError, printable
from bayes_asr.base.log import LOGGER
from bayes_asr.cli.arguments import seed, whole
from bayes_asr.cli.groups import RunGroup, add_group_options, read_groups
from bayes_asr.decode.forward.network_record import warn_of_another
from bayes_asr.evaluate.score.pair_comparisons import (
    Side,
    check_apart,
    compare_pairs,
    find_repeated,
    read_side,
)
from bayes_asr.evaluate.score.unlike_runs import describe_unlike_seeds
from bayes_asr.train.runs.status import warn_of_unscored

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


def run(args: argparse.Namespace) -> None:
    """Compare each pair, and all of them together, under each convention and print."""
    groups = read_groups(args)
    if groups and (args.a or args.pair):
        raise InputError("give RUN_A and RUN_B, or --group and --against, not both")
    pairs = groups or _pair_runs(args)
    sides = [[read_side(*group, args.on) for group in pair] for pair in pairs]
    _warn_of_runs(list(chain.from_iterable(sides)), f"score_{args.on}.json")
    for pair in sides:
        runs = [run for side in pair for system in side.folders for run in system]
        if groups:
            check_apart(runs)
        elif repeated := find_repeated(runs):
            LOGGER.warning("%s: is a run of both sides, so that tests say little", repeated)
    comparisons = compare_pairs(
        sides,
        args.replicates,
        args.seed,
        args.alternative,
        joined=bool(args.pair),
        as_groups=bool(groups),
    )
    if args.json:
        print(json.dumps([comparison.as_dict() for comparison in comparisons], indent=1))
    else:
        print("\n\n".join(comparison.as_text() for comparison in comparisons))


def _warn_of_runs(sides: Sequence[Side], file: str) -> None:
    """Say where runs of a system lack the score file, are no seeds of it, or have another network
    than was scored.
    """
    systems = {p: r for side in sides for p, r in zip(side.paths, side.folders, strict=True)}
    for path, runs in systems.items():
        if path not in runs:
            warn_of_unscored(path, file)
        for difference in describe_unlike_seeds(printable(str(path)), runs):
            LOGGER.warning("%s", difference)
    for folder, record in dict(chain.from_iterable(side.decodings() for side in sides)).items():
        warn_of_another(folder, [record])


def _pair_runs(args: argparse.Namespace) -> list[tuple[RunGroup, RunGroup]]:
    """The runs that are not in groups, each a side by itself."""
    if args.b is None:
        raise InputError("give RUN_A and RUN_B, or --group and --against")
    # The first pair is two arguments, further ones are options: both are pairs of runs.
    pairs = [(args.a, args.b), *args.pair]
    a, b = ([RunGroup(printable(str(pair[i])), [pair[i]]) for pair in pairs] for i in (0, 1))
    return list(zip(a, b, strict=True))
