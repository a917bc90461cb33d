"""bayes-asr status: what the runs below a folder are doing."""

import argparse
import json
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from bayes_asr.base.errors import printable
from bayes_asr.train.runs.status import RunStatus, list_runs

HEADER = ("run", "state", "epoch", "best on dev", "frames/s", "left", "why")
LONGEST = 1e12  # seconds; a damaged history may promise more than a time can hold


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="a run, or a folder above runs")
    parser.add_argument("--json", action="store_true", help="print the runs as JSON")


def run(args: argparse.Namespace) -> None:
    """Print a line for each run."""
    runs = list_runs(args.folder)
    if args.json:
        print(json.dumps([asdict(status) for status in runs], indent=1))
        return
    rows = [HEADER, *(tuple(map(printable, _format_row(r, args.folder))) for r in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def _format_row(status: RunStatus, top: Path) -> tuple[str, ...]:
    name = str(Path(status.run).relative_to(top))
    seconds = status.seconds_left
    return (
        name if name != "." else status.run,
        status.state,
        f"{status.epoch}/{'?' if status.epochs is None else status.epochs}",
        "" if status.best is None else f"{status.judged_by} {status.best:.4f}",
        "" if status.frames_per_second is None else f"{status.frames_per_second:.0f}",
        "" if seconds is None else str(timedelta(seconds=round(min(seconds, LONGEST)))),
        status.why or "",
    )
