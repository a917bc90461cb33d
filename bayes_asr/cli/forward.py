"""bayes-asr forward: log-likelihoods, posteriors or layers, of a set or any data directory."""

import argparse
from pathlib import Path

import torch

from bayes_asr.base.errors import InputError
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.arguments import positive
from bayes_asr.cli.sharing import (
    Inputs,
    add_set_arguments,
    add_sharing_arguments,
    gather_streams,
    list_inputs,
    sharing,
)
from bayes_asr.decode.forward.directory import ForwardOptions, StreamSource, forward
from bayes_asr.decode.forward.interface import DECODED, KINDS, Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    add_set_arguments(parser, "forward", "alignments")
    parser.add_argument(
        "--layer", metavar="NAME", help="write a data directory of what this layer gives"
    )
    parser.add_argument("--head", metavar="TARGET", help="by default the first, which is decoded")
    parser.add_argument("--kind", choices=KINDS, help="of a head: by default the first that it has")
    parser.add_argument("--counts", type=Path, help="pdf counts instead of the training ones")
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
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="cuda: compute on a GPU, within 1e-5 of the CPU (default cpu)",
    )
    add_sharing_arguments(parser, jobs_only=True)


def run(args: argparse.Namespace) -> None:
    """Compute and write loglikes.{ark,scp}, or what else is asked for."""
    output = Output(args.layer, args.head, args.kind)
    special = output not in (Output(), DECODED)
    if args.out is None and (args.on is None or special):
        reason = "--data" if args.on is None else "what decoding does not read"
        raise InputError(f"{reason} needs --out, the folder to write")
    if args.onnx and special:
        raise InputError("--onnx goes without --layer, --head and --kind: the file has one output")
    if args.onnx and (args.counts or args.chunk):
        raise InputError(
            "--onnx goes without --chunk and --counts: the priors are in the file; give --counts to"
            " bayes-asr export"
        )
    device = _find_device(args)
    out = args.out or args.run / f"forward_{args.on}"
    pipes = open_pipe if args.allow_pipes else None
    streams = gather_streams(args)

    def find_inputs() -> Inputs:
        further = filter(None, [args.counts, args.onnx])
        return list_inputs(args.run, args.data, args.on, further, streams)

    source = StreamSource(args.data, streams, args.on or "", args.max_skipped, pipes)
    options = ForwardOptions(output, args.counts, args.chunk, args.onnx, device)
    with sharing(args, out, find_inputs) as mapper:
        forward(args.run, out, source, options, mapper)


def _find_device(args: argparse.Namespace) -> torch.device:
    """The device that is asked for; InputError where it is not there."""
    if args.device == "cuda" and (args.onnx or args.chunk):
        raise InputError("--device cuda goes without --onnx and --chunk")
    if args.device == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "--device is cuda, but torch finds no GPU here (bayes-asr doctor shows what it finds)"
        )
    return torch.device(args.device)
