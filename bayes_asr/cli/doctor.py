"""bayes-asr doctor: what is there, and whether a training would start."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from bayes_asr.config import load
from bayes_asr.doctor.environment import check_environment
from bayes_asr.doctor.training_data import check_corpus
from bayes_asr.errors import InputError
from bayes_asr.programs import open_pipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("config", nargs="*", type=Path, help="check the data of these YAML files")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one key")
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in scp files")


def run(args: argparse.Namespace) -> None:
    """Print the checks; InputError if one of them keeps a training from starting."""
    checks = check_environment()
    if args.config or args.set:
        config = load(args.config, args.set)
        checks += check_corpus(config, open_pipe if args.allow_pipes else None)
    if args.json:
        print(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        for check in checks:
            print(f"{check.state:7} {check.name}: {check.message}")
    errors = [check for check in checks if check.state == "error"]
    if errors:
        raise InputError(
            f"{len(errors)} of {len(checks)} checks would keep a training from running"
        )
