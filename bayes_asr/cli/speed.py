"""bayes-asr speed: a data directory with the same speech at several speeds."""

import argparse
from fractions import Fraction
from pathlib import Path

from bayes_asr.base.errors import count_of
from bayes_asr.cli.arguments import real
from bayes_asr.data.sound.speed import write_speeds

FACTORS = (0.9, 1.0, 1.1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("data", type=Path, metavar="DATA", help="folder with wav.scp and utt2spk")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write")
    parser.add_argument(
        "--factors",
        type=real(0.1, 10),
        nargs="+",
        default=FACTORS,
        metavar="F",
        help="speeds, of which 1 keeps its names (default: 0.9 1.0 1.1)",
    )


def run(args: argparse.Namespace) -> None:
    """Write the tables."""
    factors = [Fraction(str(factor)) for factor in args.factors]
    count = write_speeds(args.data, args.out, factors)
    print(
        f"wrote {count_of(count, 'utterance')} at {count_of(len(factors), 'speed')} to {args.out}"
    )
