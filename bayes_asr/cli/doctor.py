"""bayes-asr doctor: what is there, and whether a training would start."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from bayes_asr.base.errors import InputError, printable
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.arguments import whole
from bayes_asr.config.merge import load
from bayes_asr.recipe.doctor.environment import check_environment
from bayes_asr.recipe.doctor.stage_inputs import FIRST, LAST, check_stage_inputs
from bayes_asr.recipe.doctor.training_data import check_corpus
from bayes_asr.tasks.task import task_of

AFTERWARDS = (5, 6)  # stages that need more than the sets, which a training is checked for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("config", nargs="*", type=Path, help="check the data of these YAML files")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one key")
    parser.add_argument(
        "--until",
        type=whole(FIRST, LAST),
        metavar="STAGE",
        help="only what is lacking for the stages 3 (train) to this one, as run.sh asks",
    )
    parser.add_argument("--out", type=Path, default=Path(), help="where runs will be written")
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in scp files")


def run(args: argparse.Namespace) -> None:
    """Print the checks; InputError if one of them keeps a training, or a stage, from starting."""
    config = None
    if args.config or args.set or args.until:
        config = task_of(load(args.config, args.set)).config
    pipe = open_pipe if args.allow_pipes else None
    # The disk is that of the nearest folder that is there already.
    out = next(
        directory for directory in (args.out, *args.out.absolute().parents) if directory.exists()
    )
    if config and args.until:
        checks = check_stage_inputs(config, range(FIRST, args.until + 1), pipe, out)
    else:
        checks = check_environment()
        if config:
            checks += check_corpus(config, pipe, out)
            checks += check_stage_inputs(config, AFTERWARDS, pipe, blocking=False)
    if args.json:
        print(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        for check in checks:
            if args.until and check.state == "ok":
                continue
            print(printable(f"{check.state:7} {check.name}: {check.message}"))
    errors = [check for check in checks if check.state == "error"]
    if errors:
        what = f"the stages 3 to {args.until}" if args.until else "a training"
        if args.until == FIRST:
            what = "stage 3"
        raise InputError(f"{len(errors)} of {len(checks)} checks would keep {what} from running")
