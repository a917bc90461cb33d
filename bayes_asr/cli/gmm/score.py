"""bayes-asr gmm score: error rates of what mixtures have decoded, as those of a run."""

import argparse
from pathlib import Path

from bayes_asr.cli.gmm.run_dir import write_run
from bayes_asr.cli.scoring import add_options, score_run
from bayes_asr.evaluate.score.run_scores import refuse_trained


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the folder, the configuration and the options of `bayes-asr score`."""
    parser.add_argument(
        "run", type=Path, metavar="OUT", help="folder with decode_dev and, if any, decode_test"
    )
    parser.add_argument(
        "config", nargs="+", type=Path, metavar="CONFIG", help="YAML files of the recipe"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one key")
    add_options(parser)


def run(args: argparse.Namespace) -> None:
    """Make a run of the folder, then score it as one."""
    refuse_trained(args.run)
    write_run(args.run, args.config, args.set)
    score_run(args)
