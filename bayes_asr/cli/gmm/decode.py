"""bayes-asr gmm decode: a data directory, a graph and a model to words and lattices."""

import argparse
from dataclasses import replace
from pathlib import Path

from bayes_asr.base.errors import count_of
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.arguments import add_max_skipped, key, lm_weight, penalty, real
from bayes_asr.cli.gmm.sharing import (
    add_common_arguments,
    list_step_inputs,
    say,
    sharing_steps,
)
from bayes_asr.cli.sharing import kept_results
from bayes_asr.data.sound.recordings import MAX_SKIPPED
from bayes_asr.decode.graph.lang import read_silence_ids
from bayes_asr.gmm.adaptation import Adaptation
from bayes_asr.gmm.decoding import LM_WEIGHTS, FeatureTable, decode_data, make_job
from bayes_asr.gmm.files import is_adapted
from bayes_asr.gmm.models import SEARCH

OPTIONS = ("acoustic_scale", "beam", "lattice_beam", "max_active", "min_active")  # of the search
ADAPTING = {  # of the Adaptation: what reads each, and what it is
    "silence_weight": (real(0, 1), "how much a frame of silence counts for a transform"),
    "min_count": (real(0, 1e9), "frames of a speaker below which nothing is estimated"),
    "first_beam": (key("decode.beam"), "of the search without a transform"),
    "first_max_active": (key("decode.max_active"), "of the search without a transform"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the folders and the options; names and defaults are those of Kaldi's scripts."""
    parser.add_argument("data", type=Path, metavar="DATA", help="data directory with feats.scp")
    parser.add_argument(
        "graph",
        type=Path,
        metavar="GRAPH",
        help="folder of HCLG.fst, or HCL.fst and G.fst, and words.txt",
    )
    parser.add_argument("model", type=Path, metavar="MODEL_DIR", help="folder of final.mdl")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the results")
    for name in OPTIONS:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=key(f"decode.{name}"),
            metavar="N",
            default=getattr(SEARCH, name),
            help="default %(default)s",
        )
    parser.add_argument(
        "--adapt",
        action=argparse.BooleanOptionalAction,
        help="estimate a transform of each speaker (default: where the model has a final.alimdl)",
    )
    for name, (number, what) in ADAPTING.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=number,
            metavar="N",
            default=getattr(Adaptation(()), name),
            help=f"{what} (default %(default)s)",
        )
    parser.add_argument(
        "--lmwt", type=lm_weight, nargs="+", default=LM_WEIGHTS, help="LM weights to try"
    )
    parser.add_argument(
        "--wip", type=penalty, nargs="+", default=[0.0], help="insertion penalties to try"
    )
    add_max_skipped(parser, MAX_SKIPPED, "have no features")
    add_common_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Decode and print a summary."""
    # A model of speaker-adapted training expects transforms, whatever --adapt leaves open.
    adaptation = None
    if is_adapted(args.model) if args.adapt is None else args.adapt:
        options = {name: getattr(args, name) for name in ADAPTING}
        adaptation = Adaptation(read_silence_ids(args.graph), **options)
    folders = [args.graph, args.graph / "phones", args.model]
    with sharing_steps(args, lambda: folders) as mapper:
        search = replace(SEARCH, **{name: getattr(args, name) for name in OPTIONS})
        summary = decode_data(
            FeatureTable(args.data, open_pipe=open_pipe if args.allow_pipes else None),
            make_job(args.data, args.graph, args.model, search, args.lmwt, args.wip),
            args.out,
            adaptation=adaptation,
            max_skipped=args.max_skipped,
            mapper=mapper,
            kept=kept_results(args, args.out, lambda: list_step_inputs(args, folders)),
        )
        how = "with transforms of their speakers, where they say enough, " if adaptation else ""
        say(
            args,
            summary,
            f"decoded {count_of(summary.utterances, 'utterance')}, {summary.frames} frames"
            f" {how}into {args.out}",
        )
