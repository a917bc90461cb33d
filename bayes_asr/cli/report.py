"""bayes-asr report: tables, figures and one page about scored runs."""

import argparse
import json
import shlex
from pathlib import Path

from bayes_asr import __version__
from bayes_asr.errors import printable
from bayes_asr.files import together
from bayes_asr.report.page import explain, write_report
from bayes_asr.report.runs import find_systems
from bayes_asr.report.table import as_text, tabulate_results


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="scored run, or a folder of runs"
    )
    parser.add_argument("--out", type=Path, help="where to write (default: the first RUN/report)")
    parser.add_argument("--json", action="store_true", help="print the rows of the table as JSON")


def run(args: argparse.Namespace) -> None:
    """Write the report and print its table; the last lines are the table."""
    out = args.out or args.runs[0] / "report"
    systems = find_systems(args.runs)
    words = ["bayes-asr", "report", *map(str, args.runs)]
    words += ["--out", str(args.out)] if args.out else []
    with together(out):
        drawn = write_report(systems, out, shlex.join(words), __version__)
    table = tabulate_results(systems)
    if args.json:
        print(json.dumps(table.to_dict("records"), indent=1))
        return
    if not drawn:
        print("no figure files: matplotlib is not installed (pip install matplotlib)")
    print(f"{printable(str(out / 'report.html'))}\n{explain(systems)}")
    print(as_text(table))
