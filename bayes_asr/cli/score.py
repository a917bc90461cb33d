"""bayes-asr score: error rates of a decoded run, with the LM weight that dev picks."""

import argparse
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.cli.scoring import add_options, score_run
from bayes_asr.evaluate.decoded.second_graph import decode_with


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the run and the options."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory with decode_SET")
    parser.add_argument(
        "--graph", type=Path, metavar="DIR", help="first decode with this graph, into --out"
    )
    parser.add_argument("--out", type=Path, help="with --graph: the folder, a run of its own")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="with --graph: one key, such as score.text=words",
    )
    add_options(parser)


def run(args: argparse.Namespace) -> None:
    """Score, write RUN/score_SET.json and print a line for each set and convention."""
    if args.graph and args.out:
        if args.cmd or args.shard:
            raise InputError("--graph decodes here: give --nj, or bayes-asr decode --graph --cmd")
        decode_with(args.graph, args.run, args.out, args.set, args.nj)
        args.run = args.out
    elif args.graph or args.out or args.set:
        raise InputError("--graph goes with --out, and --set with both")
    score_run(args)
