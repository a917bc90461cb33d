"""bayes-asr gmm features: what a speaker-adapted model reads, as Kaldi's make_fmllr_feats.sh."""

import argparse
from pathlib import Path

from bayes_asr.base.errors import count_of
from bayes_asr.base.programs import open_pipe
from bayes_asr.gmm.features import write_fmllr


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("data", type=Path, metavar="DATA", help="data directory with feats.scp")
    parser.add_argument("model", type=Path, metavar="MODEL_DIR", help="folder of the model")
    parser.add_argument(
        "transforms", type=Path, metavar="TRANSFORMS", help="folder with trans.N of the speakers"
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="data directory to write")
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in scp files")


def run(args: argparse.Namespace) -> None:
    """Write the features and their statistics."""
    pipes = open_pipe if args.allow_pipes else None
    count = write_fmllr(args.data, args.model, args.transforms, args.out, open_pipe=pipes)
    print(f"{args.out}: wrote the features of {count_of(count, 'utterance')}")
