"""bayes-asr forward: log-likelihoods of a set of a run, or of any Kaldi data directory."""

import argparse
from pathlib import Path

from bayes_asr.cli.arguments import positive, share
from bayes_asr.cli.sharing import (
    Inputs,
    add_sharing_arguments,
    add_stream_argument,
    gather_streams,
    list_inputs,
    sharing,
)
from bayes_asr.errors import InputError
from bayes_asr.forward.directory import forward
from bayes_asr.programs import open_pipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--on", choices=("train", "dev", "test"), help="a set of the run")
    which.add_argument("--data", type=Path, help="any Kaldi data directory; no alignments needed")
    add_stream_argument(parser)
    parser.add_argument("--out", type=Path, help="folder to write (default: RUN/forward_SET)")
    parser.add_argument("--counts", type=Path, help="pdf counts instead of the training ones")
    parser.add_argument(
        "--max-skipped",
        type=share,
        default=0.0,
        metavar="SHARE",
        help="of the utterances may lack features (default 0: nothing is lost)",
    )
    parser.add_argument(
        "--chunk",
        type=positive,
        metavar="N",
        help="compute N frames at a time, in little memory; for networks that read forwards only",
    )
    parser.add_argument(
        "--onnx",
        type=Path,
        metavar="FILE",
        help="what bayes-asr export wrote of the run; ONNX Runtime computes it",
    )
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in scp files")
    add_sharing_arguments(parser, jobs_only=True)


def run(args: argparse.Namespace) -> None:
    """Compute and write loglikes.{ark,scp}."""
    if args.out is None and args.on is None:
        raise InputError("--data needs --out, the folder to write")
    if args.onnx and (args.counts or args.chunk):
        raise InputError(
            "--onnx goes without --chunk and --counts: the priors are in the file; give --counts to"
            " bayes-asr export"
        )
    out = args.out or args.run / f"forward_{args.on}"
    pipes = open_pipe if args.allow_pipes else None
    streams = gather_streams(args)

    def find_inputs() -> Inputs:
        more = filter(None, [args.counts, args.onnx])
        return list_inputs(args.run, args.data, args.on, more, streams)

    with sharing(args, out, find_inputs) as way:
        forward(
            args.run,
            out,
            data=args.data,
            streams=streams,
            on=args.on,
            counts=args.counts,
            max_skipped=args.max_skipped,
            open_pipe=pipes,
            chunk=args.chunk,
            way=way,
            onnx=args.onnx,
        )
