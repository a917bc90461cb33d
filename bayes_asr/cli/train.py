"""bayes-asr train: from a configuration to a run directory."""

import argparse
from contextlib import nullcontext
from pathlib import Path

from bayes_asr.base import log
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.base.processes.malloc import keep_freed_memory
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.arguments import whole
from bayes_asr.config.catalogue import CRITERIA, find
from bayes_asr.config.changes import describe_changes, describe_presets
from bayes_asr.config.merge import load
from bayes_asr.tasks.task import task_of
from bayes_asr.train.start import train


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "config",
        nargs="+",
        type=Path,
        help="YAML files, the later win; a run stands for its configuration, a few more epochs at a"
        " small rate (conf/continued.yaml), and its network to begin with",
    )
    parser.add_argument(
        "--criterion",
        metavar="NAME",
        help=f"the same as --set train.criterion=NAME: {', '.join(CRITERIA)}",
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one key")
    parser.add_argument("--out", required=True, type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--new", action="store_true", help="discard a run that is there")
    parser.add_argument("--nproc", type=whole(1, 64), default=1, help="processes (default: 1)")
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in scp files")


def run(args: argparse.Namespace) -> None:
    """Train, or go on; in several processes, each of which runs this verb again."""
    if args.nproc > 1:
        raise SystemExit(find("base.processes.launch:launch")(args.nproc, _arguments(args)))
    keep_freed_memory()
    with group.process_group():
        layers = args.config
        if any(path.is_dir() for path in layers):
            layers = find("train.runs.continued:continue_runs")(layers)
        criterion = [f"train.criterion={args.criterion}"] if args.criterion else []
        config = task_of(load(layers, [*criterion, *args.set])).config
        files = [layer for layer in layers if isinstance(layer, Path)]
        with log.also_in(args.out / "train.log") if group.is_rank0() else nullcontext():
            notes = (*describe_presets(files), *describe_changes(files))
            for line in notes if group.is_rank0() else ():
                LOGGER.info("%s", line)
            pipes = open_pipe if args.allow_pipes else None
            train(config, args.out, new=args.new, open_pipe=pipes)


def _arguments(args: argparse.Namespace) -> list[str]:
    """The command line of one of several processes."""
    criterion = [f"--criterion={args.criterion}"] if args.criterion else []
    switches = [*criterion, *["--new"] * args.new, *["--allow-pipes"] * args.allow_pipes]
    configs, values = map(str, args.config), (f"--set={value}" for value in args.set)
    return ["train", *configs, *values, f"--out={args.out}", *switches]
