"""Speed of training steps on a GPU: every unit by every path, beside cuDNN's LSTM and GRU and
pytorch-kaldi's own Li-GRU; and microseconds a time step of the recurrence alone.

The most important cases come first, and the script ends when its minutes are over. Paths of a case
take turns; each is compared with float32 products by the path `eager` before. A path that raises,
differs, hangs or kills its process is named, and the others go on. Before all, the tests that need
a card are run.

    python benchmarks/gpu.py --record --json gpu.json [--minutes 20] [--peer-path CLONE]
    python benchmarks/gpu.py --quick --record --json gpu.json
    python benchmarks/gpu.py --units li-bru --paths eager triton --batch 8 --precision bfloat16
    python benchmarks/gpu.py --dry
"""

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import record
from card import describe_card
from gpu_case import Row, Turns
from gpu_worker import Job, Settings, Worker
from peers import GRU, LSTM, PYTORCH_KALDI
from trained import PRECISIONS, Case, Size

from bayes_asr.config.catalogue import GPU_PATHS

PAPER = Size(inputs=50, units=550, layers=4, outputs=(1900, 48))
TINY = Size(inputs=5, units=8, layers=1, outputs=(7, 3))
NETWORKS = {
    "li-bru": 0,
    LSTM: 0,
    "lstm": 1,
    "torch-lstm": 1,
    "li-gru": 1,
    "ubru": 1,
    "ubru,transitions=from-input": 1,
    PYTORCH_KALDI: 1,
    "bru": 3,
    "gru": 3,
    "torch-gru": 3,
    GRU: 3,
}
"""Every network, and how late it comes."""

WITHOUT_PATHS = (LSTM, GRU, PYTORCH_KALDI)
QUICK = [network for network, late in NETWORKS.items() if late < 3]
BATCHES, FRAMES = (8, 32, 16, 64), (300, 800, 100)
LATE = (1, 1, 2, 2)  # for each further precision, batch, number of frames, and for ragged lengths

TESTS = (
    *("tests/nn", "tests/train/test_gpu_paths.py", "tests/train/test_run.py"),
    "tests/decode/forward/test_windows.py",
)
SHARE_OF_TESTS = 0.25  # of the minutes
RESERVE = 5.0  # seconds for the page


def plan(args: argparse.Namespace) -> list[Job]:
    """All jobs, the most important first."""
    options = (args.precision, args.batch, args.frames, (False,) if args.quick else (False, True))
    jobs: list[tuple[float, Job]] = []
    for network, places in itertools.product(
        args.units, itertools.product(*(range(len(values)) for values in options))
    ):
        values = [option[place] for option, place in zip(options, places, strict=True)]
        case = Case(network, *values)
        paths = ("",) if network in WITHOUT_PATHS else tuple(args.paths)
        rank = NETWORKS[network] + sum(n * late for n, late in zip(places, LATE, strict=True))
        # pytorch-kaldi's loop is slow: a few cases tell enough of it.
        if network != PYTORCH_KALDI or (args.peer_path and sum(places) <= 1 - args.quick):
            jobs.append((rank, Job(case, paths, launches=args.launches and not any(places))))
        if network != PYTORCH_KALDI and not any(places[1 if args.quick else 2 :]):
            jobs.append((rank + 0.5, Job(case, paths, recurrence=True)))
    return [job for _, job in sorted(jobs, key=lambda ranked: ranked[0])]


def start_workers(args: argparse.Namespace, deadline: float) -> dict[str, Worker]:
    """A process for each precision, which imports torch meanwhile.

    A CUDA graph remembers whether float32 products were in TF32 when it was captured.
    """
    size, warm_up = (TINY, 1) if args.dry else (PAPER._replace(units=args.hidden), 3)
    turns = Turns(args.rounds, args.turn, warm_up)
    settings = Settings(args.dry, size, turns, args.peer_path)
    return {
        precision: Worker(settings, deadline=deadline, limit=args.limit)
        for precision in args.precision
    }


def run(jobs: Sequence[Job], workers: Mapping[str, Worker], deadline: float) -> Iterator[Row]:
    """Rows of the jobs that end before the deadline, a moment of time.monotonic()."""
    for number, job in enumerate(jobs):
        if time.monotonic() >= deadline:
            print(f"the time is over: {len(jobs) - number} of {len(jobs)} cases are left")
            return
        yield from workers[job.case.precision].measure(job)


def run_tests(tests: Sequence[str], seconds: float, *, dry: bool) -> str:
    """The last line of the tests that need a card, or that they lacked time; dry: collect them."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", *tests]
    try:
        process = subprocess.run(  # noqa: S603 - the command is our own
            command + (["--collect-only"] if dry else []),
            cwd=record.ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return f"not done within {seconds:.0f} s"
    lines = (process.stdout + process.stderr).strip().splitlines() or [""]
    if process.returncode:
        print(*lines[-40:], sep="\n")
    return lines[-1].strip("= ")


def show(rows: Sequence[Row]) -> None:
    """Print frames a second of every network by every path, and what failed."""
    steps = [row for row in rows if "network" in row]
    keys = ("network", "precision", "batch", "frames", "lengths")
    columns = [path for path in ("", *GPU_PATHS) if any(row["path"] == path for row in steps)]
    print(f"{'frames/s':22}{'precision':10}{'batch':>6}{'frames':>7} {'lengths':8}", end="")
    print("".join(f"{path or 'itself':>10}" for path in columns))
    for key in dict.fromkeys(tuple(row[k] for k in keys) for row in steps):
        by_path = {row["path"]: row for row in steps if tuple(row[k] for k in keys) == key}
        speeds = [by_path.get(path, {}).get("frames_per_second") for path in columns]
        network, precision, batch, frames, lengths = key
        print(f"{network:22}{precision:10}{batch:6}{frames:7} {lengths:8}", end="")
        print("".join(f"{speed:10,.0f}" if speed else f"{'-':>10}" for speed in speeds))
    alone = [row for row in rows if "recurrence" in row and row["forward_microseconds"]]
    print(f"\n{'us a time step':22}{'path':8}{'precision':10}{'batch':>6}", end="")
    print(f"{'forward':>9}{'backward':>9}")
    for row in alone:
        print(
            f"{row['recurrence']:22}{row['path']:8}{row['precision']:10}{row['batch']:6}"
            f"{row['forward_microseconds']:9.1f}{row['backward_microseconds']:9.1f}"
        )
    failures = (f"{row['path'] or 'itself'}, {row['precision']}: {row['outcome']}" for row in rows)
    names = (row.get("network") or row["recurrence"] for row in rows)
    pairs = zip(names, failures, rows, strict=True)
    print("", *dict.fromkeys(f"{n} by {f}" for n, f, row in pairs if row["outcome"]), sep="\n")


def summarize(rows: Sequence[Row]) -> list[Row]:
    """The rows of steps, then those of recurrences; of paths that always fail alike, one row."""
    failures = set()
    summary = []
    for row in sorted(rows, key=lambda row: "recurrence" in row):
        failure = tuple(
            row.get(k) for k in ("network", "recurrence", "path", "precision", "outcome")
        )
        if row.get("milliseconds") or row.get("forward_microseconds"):
            summary.append(row)
        elif failure not in failures:
            failures.add(failure)
            summary.append(row)
    return summary


def parse() -> argparse.Namespace:
    """The options, with the sizes of --quick and --dry."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    record.add_options(parser)
    add = parser.add_argument
    add("--minutes", type=float, help="after which it ends, default 20, with --quick 3")
    add("--quick", action="store_true", help="the most important cases alone")
    add("--dry", action="store_true", help="tiny networks on a CPU, with a clock that counts")
    add("--units", nargs="+", choices=NETWORKS, help="networks, default all")
    add("--paths", nargs="+", choices=GPU_PATHS, default=list(GPU_PATHS))
    add("--precision", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    add("--batch", type=int, nargs="+", help="sequences, the most important number first")
    add("--frames", type=int, nargs="+", help="of the longest sequence, likewise")
    add("--hidden", type=int, default=PAPER.units, help="units of a direction, default 550")
    add("--rounds", type=int, help="turns of each path, default 5, with --quick 3")
    add("--turn", type=float, default=150, help="milliseconds of a turn, about, default 150")
    add("--limit", type=float, default=60, help="seconds after which a path hangs, default 60")
    add("--peer-path", type=Path, help="clone of pytorch-kaldi, a further network")
    add("--launches", action="store_true", help="count launches in a case of each network")
    add("--tests", nargs="+", default=TESTS, help="tests of which those marked gpu are run")
    add("--no-tests", action="store_true", help="run none")
    args = parser.parse_args()
    args.units = args.units or (QUICK if args.quick else list(NETWORKS))
    args.minutes = args.minutes or (3 if args.quick else 20)
    args.rounds = args.rounds or (1 if args.dry else 3 if args.quick else 5)
    args.batch = args.batch or ([2] if args.dry else BATCHES[:3] if args.quick else BATCHES)
    args.frames = args.frames or ([3] if args.dry else FRAMES[:1] if args.quick else FRAMES)
    if args.dry:
        args.turn = 1
        os.environ["TRITON_INTERPRET"] = "1"  # which triton reads when it is imported
    return args


def main() -> None:
    """Run the tests, measure, print tables, and write the figures."""
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and write what there is
    deadline = time.monotonic() + 60 * args.minutes - RESERVE
    device, workers = describe_card(), start_workers(args, deadline)
    rows: list[Row] = []
    try:
        if not args.no_tests:
            seconds = SHARE_OF_TESTS * 60 * args.minutes
            device["gpu tests"] = run_tests(args.tests, seconds, dry=args.dry)
            print(f"gpu tests: {device['gpu tests']}", flush=True)
        for row in run(plan(args), workers, deadline):
            rows.append(row)
            if args.json:  # whatever ends the process, this is there
                args.json.write_text(json.dumps(rows, indent=1) + "\n")
    finally:
        for worker in workers.values():
            worker.close()
        show(rows)
        record.save(summarize(rows), "gpu", args, device)


if __name__ == "__main__":
    main()
