"""bayes-asr report: tables, figures and one page about scored runs."""

import argparse
import json
from pathlib import Path

from bayes_asr.report.page import NOTES, write_report
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
    drawn = write_report(systems, out)
    table = tabulate_results(systems)
    if args.json:
        print(json.dumps(table.to_dict("records"), indent=1, ensure_ascii=False))
        return
    if not drawn:
        print("no figures: matplotlib is not installed (pip install -e '.[report]')")
    print(f"{out / 'report.html'}\n{NOTES}")
    print(as_text(table))
