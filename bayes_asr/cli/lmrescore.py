"""bayes-asr lmrescore: lattices under another n-gram model of language."""

import argparse
from pathlib import Path

from bayes_asr.base.errors import count_of
from bayes_asr.cli.arguments import processes
from bayes_asr.decode.lmrescore import replace_lm_in
from bayes_asr.kaldi_io.lattice_files import check_lattice_jobs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--lattices", nargs="+", required=True, type=Path, metavar="lat.N.gz")
    parser.add_argument("--graph", required=True, type=Path, help="folder of words.txt")
    parser.add_argument(
        "--old-lm", required=True, type=Path, metavar="ARPA", help="what the graph was made of"
    )
    parser.add_argument("--new-lm", required=True, type=Path, metavar="ARPA")
    parser.add_argument("--out", required=True, type=Path, help="folder for lat.1.gz")
    parser.add_argument("--nj", type=processes, default=1, help="processes")


def run(args: argparse.Namespace) -> None:
    """Write the lattices, complete or not at all."""
    check_lattice_jobs(args.lattices)
    count = replace_lm_in(
        args.lattices, args.graph / "words.txt", args.old_lm, args.new_lm, args.out, nj=args.nj
    )
    written = f"{args.out / 'lat.1.gz'}: {count_of(count, 'lattice')}"
    print(f"{written}; bayes-asr rescore reads words out of them")
