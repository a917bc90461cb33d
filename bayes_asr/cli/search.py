"""bayes-asr search: trials of a training with other settings, and which of them is best."""

import argparse
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError, printable
from bayes_asr.base.processes.malloc import keep_freed_memory
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.arguments import key, positive, processes, real, seed
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.tasks.task import task_of
from bayes_asr.train.start import train
from bayes_asr.train.trials.search_runs import Outcome, SearchPlan, Trial, search
from bayes_asr.train.trials.space import Settings, as_overrides, draw, list_grid, read_space


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("config", nargs="+", type=Path, help="YAML files, the later win")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one key")
    parser.add_argument(
        "--space", required=True, type=Path, metavar="FILE", help="YAML: what keys may be"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder of the runs")
    parser.add_argument(
        "--trials", type=positive, default=20, metavar="N", help="default %(default)s"
    )
    parser.add_argument("--seed", type=seed, default=1, metavar="N", help="of what is drawn")
    parser.add_argument("--grid", action="store_true", help="every combination, not N drawn ones")
    parser.add_argument(
        "--rungs",
        type=key("train.epochs"),
        nargs="+",
        metavar="EPOCHS",
        help="after so many epochs the better half goes on (default: all have train.epochs)",
    )
    parser.add_argument(
        "--stop-at",
        type=real(-1e9, 1e9),
        metavar="ERROR",
        help="dev frame error, or what else trials are judged by, that is good enough",
    )
    parser.add_argument(
        "--nj", type=processes, default=1, metavar="N", help="trials at a time (default 1)"
    )
    parser.add_argument("--json", action="store_true", help="print the trials as JSON")
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in scp files")


def run(args: argparse.Namespace) -> None:
    """Train the trials that are left, and print the table."""
    base, space = load(args.config, args.set), read_space(args.space)
    if args.grid:
        settings = list(list_grid(space))
    else:
        settings = [draw(space, args.seed, number + 1) for number in range(args.trials)]
    trials = [
        _make_trial(args, number, setting) for number, setting in enumerate(settings, start=1)
    ]
    # Without rungs all trials train to the end: a ladder of one.
    rungs = tuple(args.rungs or [base.train.epochs])
    about = {
        "configuration": base.yaml,
        "space": {name: repr(values) for name, values in space.items()},
        "seed": None if args.grid else args.seed,
        "rungs": list(rungs),
    }
    run_trial = partial(_train, open_pipe=open_pipe if args.allow_pipes else None)
    plan = SearchPlan(run_trial, rungs, args.stop_at, args.nj)
    outcomes = search(trials, plan, args.out, about)
    if args.json:
        print(json.dumps([vars(outcome) for outcome in outcomes], indent=1))
    else:
        _print_table(outcomes, list(space))


def _train(config: Config, run: Path, *, open_pipe: OpenPipe | None) -> None:
    """Train a trial in a process, of `--nj` or this one, that keeps memory from batch to batch."""
    keep_freed_memory()
    train(config, run, open_pipe=open_pipe)


def _make_trial(args: argparse.Namespace, number: int, settings: Settings) -> Trial:
    name = f"trial-{number:03d}"
    try:
        config = task_of(load(args.config, [*args.set, *as_overrides(settings)])).config
    except InputError as error:
        raise InputError(f"{args.space}: {name}: {error}") from None
    return Trial(number, settings, config, args.out / name)


def _print_table(outcomes: Sequence[Outcome], keys: Sequence[str]) -> None:
    header = ("trial", *keys, "epochs", "best on dev", "in epoch", "why")
    rows = [header, *_list_rows(outcomes, keys)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def _list_rows(outcomes: Sequence[Outcome], keys: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for outcome in outcomes:
        yield (
            Path(outcome.run).name,
            *(_show(outcome.settings[key]) for key in keys),
            str(outcome.epochs),
            "failed" if outcome.best is None else f"{outcome.judged_by} {outcome.best:.4f}",
            "" if outcome.epoch is None else str(outcome.epoch),
            printable(outcome.why or ""),
        )


def _show(value: Any) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value))
