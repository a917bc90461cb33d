"""bayes-asr rescore: lattices at other weights; n-best lists, least expected error, times."""

import argparse
from functools import partial
from pathlib import Path

from bayes_asr.base.errors import InputError, count_of
from bayes_asr.cli.arguments import frame_shift, lm_weight, penalty, processes, whole
from bayes_asr.decode.align.transcripts import read_timer
from bayes_asr.decode.lattices.ctm import FRAME_SHIFT
from bayes_asr.decode.lattices.paths import pair_weights
from bayes_asr.decode.lattices.rescore import RescoreOptions, rescore_lattices
from bayes_asr.decode.lattices.word_times import ReadTimer, read_no_timer
from bayes_asr.kaldi_io.lattice_files import check_lattice_jobs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--lattices", nargs="+", required=True, type=Path, metavar="lat.N.gz")
    parser.add_argument("--graph", required=True, type=Path, help="folder of words.txt")
    parser.add_argument(
        "--model",
        type=Path,
        help="final.mdl, which with the lexicon of the graph tells the times of --mbr",
    )
    parser.add_argument("--out", required=True, type=Path, help="folder for the results")
    parser.add_argument("--lmwt", type=lm_weight, nargs="+", required=True, help="LM weights")
    parser.add_argument(
        "--wip",
        type=penalty,
        nargs="+",
        default=[0.0],
        help="insertion penalties",
    )
    parser.add_argument(
        "--nbest", type=whole(0, 10_000), default=0, metavar="N", help="list the N best paths"
    )
    parser.add_argument(
        "--mbr", action="store_true", help="words of least expected error; a CTM of them"
    )
    parser.add_argument(
        "--frame-shift", type=frame_shift, default=FRAME_SHIFT, help="seconds a frame"
    )
    parser.add_argument("--nj", type=processes, default=1, help="processes")


def run(args: argparse.Namespace) -> None:
    """Read the lattices and write what was asked for."""
    check_lattice_jobs(args.lattices)
    grid = tuple(pair_weights(args.lmwt, args.wip))
    timer = _find_timer(args) if args.model else read_no_timer
    options = RescoreOptions(grid, args.nbest, args.mbr, args.frame_shift, timer)
    words = args.graph / "words.txt"
    count = rescore_lattices(args.lattices, words, args.out, options, args.nj)
    weights = len(args.lmwt) * len(args.wip)
    print(f"read {count_of(count, 'lattice')} at {count_of(weights, 'weight')} into {args.out}")


def _find_timer(args: argparse.Namespace) -> ReadTimer:
    """A reader of the timer of words, for each process; InputError where it cannot be read."""
    if not args.mbr:
        raise InputError("--model goes with --mbr, whose words it times")
    timer = partial(read_timer, args.graph, args.model)
    timer()
    return timer
