"""bayes-asr gmm chain-tree: what LF-MMI is trained with, of alignments."""

import argparse
from pathlib import Path

from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.arguments import add_max_skipped, whole
from bayes_asr.cli.gmm.sharing import add_common_arguments, going_on, say
from bayes_asr.gmm.chain_tree import ChainOptions, ChainTree
from bayes_asr.gmm.resumable import StepFolders
from bayes_asr.gmm.trainers import MAX_SKIPPED
from bayes_asr.tasks.chain.phone_lm import PhoneLmOptions

DEFAULTS = ChainOptions()
OPTIONS = {  # name: what it may be, its default, what it is
    "leaves": (whole(1, 1_000_000), DEFAULTS.leaves, "leaves of the tree, at most"),
    "frame_subsampling_factor": (
        whole(1, 20),
        DEFAULTS.frame_subsampling_factor,
        "frames of the alignment for each output of the network",
    ),
    "ngram_order": (whole(2, 10), DEFAULTS.phone_lm.ngram_order, "of the phone language model"),
    "num_extra_lm_states": (
        whole(0, 10_000_000),
        DEFAULTS.phone_lm.num_extra_lm_states,
        "of its longer histories, how many are kept",
    ),
    "no_prune_ngram_order": (
        whole(1, 10),
        DEFAULTS.phone_lm.no_prune_ngram_order,
        "the order whose histories are kept all",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("data", type=Path, metavar="DATA", help="data directory with feats.scp")
    parser.add_argument("lang", type=Path, metavar="LANG", help="of gmm lang, or Kaldi's")
    parser.add_argument("ali", type=Path, metavar="ALI", help="alignments, with their model")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, or to go on with")
    for name, (number, default, what) in OPTIONS.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=number,
            metavar="N",
            default=default,
            help=f"{what} (default %(default)s)",
        )
    parser.add_argument(
        "--no-transforms",
        action="store_true",
        help="grow the tree of the features of DATA and deltas: they are transformed already",
    )
    add_max_skipped(parser, MAX_SKIPPED)
    add_common_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Make tree, model, alignments and graph, and say how large they are."""
    orders = (args.ngram_order, args.num_extra_lm_states, args.no_prune_ngram_order)
    options = ChainOptions(args.leaves, args.frame_subsampling_factor, PhoneLmOptions(*orders))
    with going_on(args, args.ali) as mapper:
        summary = ChainTree(
            options,
            StepFolders(args.data, args.lang, args.ali, args.out),
            mapper,
            max_skipped=args.max_skipped,
            no_transforms=args.no_transforms,
            open_pipe=open_pipe if args.allow_pipes else None,
        ).run()
        say(
            args,
            summary,
            f"{args.out}: {summary.pdfs} pdfs; a denominator graph of {summary.states} states,"
            f" {summary.arcs} arcs",
        )
