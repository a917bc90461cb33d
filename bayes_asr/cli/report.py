"""bayes-asr report: tables, figures and one page about scored runs."""

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from bayes_asr import __version__
from bayes_asr.base.errors import InputError, printable
from bayes_asr.base.files import real_path, together
from bayes_asr.base.log import LOGGER
from bayes_asr.cli import groups
from bayes_asr.decode.forward.network_record import warn_of_another
from bayes_asr.evaluate.report.hypotheses import Group, GroupHypothesis, answer
from bayes_asr.evaluate.report.page import explain, list_keys, write_report
from bayes_asr.evaluate.report.runs import SCORES, ReportedSystem, find_systems
from bayes_asr.evaluate.report.table import as_text, tabulate_results
from bayes_asr.evaluate.score.pair_comparisons import check_apart
from bayes_asr.evaluate.score.unlike_runs import describe_unlike_seeds
from bayes_asr.train.runs.status import warn_of_unscored


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="scored run, or a folder of runs"
    )
    parser.add_argument("--out", type=Path, help="where to write (default: the first RUN/report)")
    parser.add_argument(
        "--sound",
        type=Path,
        metavar="DATA",
        help="data directory of the set, to copy its sound beside the wrong utterances",
    )
    groups.add_group_options(parser)
    parser.add_argument("--json", action="store_true", help="print the rows of the table as JSON")


def run(args: argparse.Namespace) -> None:
    """Write the report, print the tests of hypotheses and its table; the last lines are the table.

    A hypothesis says that the systems of --group have fewer errors than those of --against.
    """
    out = args.out or args.runs[0] / "report"
    hypotheses = groups.read_groups(args)
    systems = find_systems(args.runs)
    for path in args.runs:
        warn_of_unscored(path, *SCORES)
    for system in systems:
        _warn_of_runs(system)
    # Hypotheses name folders; the report has systems, which may lie at or below these.
    stated = [GroupHypothesis(*(_choose(side, systems) for side in sides)) for sides in hypotheses]
    for hypothesis in stated:
        check_apart([r.path for group in hypothesis for s in group.systems for r in s.runs])
    answers = {key: answer(stated, key) for key in list_keys(systems)} if stated else {}
    words = ["bayes-asr", "report", *map(str, args.runs)]
    words += ["--out", str(args.out)] if args.out else []
    words += ["--sound", str(args.sound)] if args.sound else []
    for sides in zip(args.group, args.against, strict=True):
        words += ["--group", *sides[0], "--against", *sides[1]]
    with together(out):
        made_by = shlex.join(words), __version__
        has_figures = write_report(systems, out, *made_by, answers, args.sound)
    table = tabulate_results(systems)
    if args.json:
        print(json.dumps(table.to_dict("records"), indent=1))
        return
    if not has_figures:
        print("no figure files: matplotlib is not installed (pip install matplotlib)")
    for tested, left_out in answers.values():
        for result in tested:
            print(f"{result.as_text()}\n")
        for reason in left_out:
            print(f"Not tested: {reason}.\n")
    print(f"{printable(str(out / 'report.html'))}\n{explain(systems)}")
    print(as_text(table))


def _warn_of_runs(system: ReportedSystem) -> None:
    for run in system.runs:
        warn_of_another(run.path, (score.decoded for score in run.scores.values()))
    for difference in describe_unlike_seeds(system.name, [run.path for run in system.runs]):
        LOGGER.warning("%s", difference)


def _choose(group: groups.RunGroup, systems: Sequence[ReportedSystem]) -> Group:
    """The systems of the report whose runs lie in the folders of a group."""
    systems_inside: list[ReportedSystem] = []
    for path in group.systems:
        inside = [system for system in systems if _is_inside(system, path)]
        if not inside:
            raise InputError(f"{path}: no system of this report is there; name it as a RUN, too")
        # Folders of a group may lie in one another: a system counts once.
        systems_inside += [s for s in inside if all(s is not other for other in systems_inside)]
    return Group(group.name, systems_inside)


def _is_inside(system: ReportedSystem, directory: Path) -> bool:
    """Whether all runs of a system lie in a folder, or are it."""
    return all(real_path(run.path).is_relative_to(real_path(directory)) for run in system.runs)
