"""bayes-asr report: tables and figures of scored runs."""

import argparse
from pathlib import Path

from bayes_asr.files import replacing
from bayes_asr.report.runs import find_systems
from bayes_asr.report.table import as_latex, as_markdown, as_text, results


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="scored run, or a folder of runs"
    )
    parser.add_argument("--out", type=Path, help="where to write (default: the first RUN/report)")


def run(args: argparse.Namespace) -> None:
    """Write the report and print the table."""
    out = args.out or args.runs[0] / "report"
    table = results(find_systems(args.runs))
    for name, text in {"table.md": as_markdown(table), "table.tex": as_latex(table)}.items():
        with replacing(out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    print(
        f"written to {out}. LM weights are picked on dev; ± is the standard deviation over seeds."
    )
    print(as_text(table))
