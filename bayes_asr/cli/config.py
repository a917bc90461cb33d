"""bayes-asr config: a configuration as it is understood, or the meaning of a key."""

import argparse
from pathlib import Path

from bayes_asr.config.explain import explain
from bayes_asr.config.merge import load
from bayes_asr.tasks.task import task_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("config", nargs="*", type=Path, help="YAML files, the later win")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one key")
    parser.add_argument(
        "--explain",
        nargs="?",
        const="",
        metavar="KEY",
        help="say what a key, or a section, means; without KEY, list all",
    )


def run(args: argparse.Namespace) -> None:
    """Print every key with its value, or explain one."""
    if args.explain is not None:
        print(explain(args.explain))
    else:
        print(task_of(load(args.config, args.set)).config.yaml.rstrip())
