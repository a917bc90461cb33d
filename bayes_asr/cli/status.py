"""bayes-asr status: what the runs below a folder are doing."""

import argparse
import json
import time
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from bayes_asr.base.errors import printable
from bayes_asr.base.log import LOGGER
from bayes_asr.cli.arguments import real
from bayes_asr.train.runs.live_page import write_page
from bayes_asr.train.runs.status import RunStatus, list_runs

HEADER = ("run", "state", "epoch", "best on dev", "frames/s", "left", "why")
LONGEST = 1e12  # seconds; a damaged history may promise more than a time can hold


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="a run, or a folder above runs")
    parser.add_argument("--json", action="store_true", help="print the runs as JSON")
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="write curves as HTML that loads itself anew, until no run is running",
    )
    parser.add_argument(
        "--every", type=real(1, 86_400), default=10.0, metavar="SECONDS", help="of --page"
    )


def run(args: argparse.Namespace) -> None:
    """Print a line for each run, after the page where there is one."""
    runs = list_runs(args.folder)
    if args.page:
        write_page(runs, args.page, args.every)
        LOGGER.info("%s: open it in a browser", args.page)
        while any(status.state == "running" for status in runs):
            time.sleep(args.every)
            runs = list_runs(args.folder)
            write_page(runs, args.page, args.every)
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
        f"{status.epoch}/{status.epochs or '?'}" if status.has_epochs else "",
        "" if status.best is None else f"{status.judged_by} {status.best:.4f}",
        "" if status.frames_per_second is None else f"{status.frames_per_second:.0f}",
        "" if seconds is None else str(timedelta(seconds=round(min(seconds, LONGEST)))),
        status.why or "",
    )
