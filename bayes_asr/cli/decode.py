"""bayes-asr decode: log-likelihoods and a graph to words, costs and lattices."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from bayes_asr.decode.archive import decode_archive
from bayes_asr.decode.options import DecodeOptions

HELP = "decode log-likelihoods with a graph: words, costs, lattices"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; names and defaults are those of latgen-faster-mapped."""
    default = DecodeOptions()
    parser.add_argument("--loglikes", required=True, metavar="SCP|ARK", help="log-likelihoods")
    parser.add_argument("--graph", required=True, type=Path, help="folder of HCLG.fst, words.txt")
    parser.add_argument("--model", required=True, type=Path, help="final.mdl of the graph")
    parser.add_argument("--out", required=True, type=Path, help="folder for the results")
    parser.add_argument("--acoustic-scale", type=float, default=default.acoustic_scale)
    parser.add_argument("--beam", type=float, default=default.beam)
    parser.add_argument("--lattice-beam", type=float, default=default.lattice_beam)
    parser.add_argument("--max-active", type=int, default=default.max_active)
    parser.add_argument("--min-active", type=int, default=default.min_active)
    parser.add_argument(
        "--allow-partial", action="store_true", help="keep words that reach no final state"
    )
    parser.add_argument("--lmwt", type=float, nargs="+", default=[], help="LM weights to try")
    parser.add_argument("--wip", type=float, nargs="+", default=[0.0], help="insertion penalties")
    parser.add_argument("--nj", type=int, default=1, help="processes")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> None:
    """Decode the archive and print a summary."""
    options = DecodeOptions(
        acoustic_scale=args.acoustic_scale,
        beam=args.beam,
        max_active=args.max_active,
        min_active=args.min_active,
        lattice_beam=args.lattice_beam,
        allow_partial=args.allow_partial,
    )
    summary = decode_archive(
        args.loglikes,
        args.graph,
        args.model,
        args.out,
        options,
        lmwts=args.lmwt,
        wips=args.wip,
        nj=args.nj,
    )
    if args.json:
        print(json.dumps(asdict(summary)))
    else:
        print(f"decoded {summary.utterances} utterances, {summary.frames} frames into {args.out}")
