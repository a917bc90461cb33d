"""Scores of a run on the command line, for verbs that score what they or others have decoded."""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.cli.arguments import processes
from bayes_asr.cli.sharing import Inputs, add_sharing_arguments, sharing
from bayes_asr.evaluate.decoded.run import open_decoded_run
from bayes_asr.train.runs.configuration import read_configuration


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of scoring."""
    parser.add_argument(
        "--oracle-lmwt",
        action="store_true",
        help="also print each set at the LM weight best for itself (not a result; not written)",
    )
    parser.add_argument(
        "--scorer",
        choices=("auto", "native", "nist"),
        default="auto",
        help="with score.glm: count by NIST's hubscr.pl too if it is installed, never, or always",
    )
    parser.add_argument(
        "--nj", type=processes, default=1, help="processes, with score.glm; or jobs of --cmd"
    )
    add_sharing_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the score files' entries")


def score_run(args: argparse.Namespace) -> None:
    """Score what was decoded in `args.run`."""
    config = read_configuration(args.run)
    if args.scorer == "nist" and not config.score.glm:
        raise InputError(f"{args.run}: --scorer nist scores by time; set score.glm")
    decoded = open_decoded_run(args.run, config)
    with (
        TemporaryDirectory() as scratch,
        sharing(args, args.run, lambda: Inputs(decoded.list_inputs())) as mapper,
    ):
        scores = decoded.score(
            # A shard must not write into the run, which its siblings read.
            Path(scratch) if args.shard else args.run,
            mapper,
            args.nj,
            args.scorer,
            oracle=args.oracle_lmwt,
        )
        if args.json:
            print(json.dumps(scores.entries(), indent=1))
        else:
            for line in scores.lines():
                print(line)
        for warning in (*decoded.reference_warnings(scores), *decoded.search_warnings()):
            LOGGER.warning("%s", warning)
