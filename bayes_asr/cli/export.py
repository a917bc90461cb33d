"""bayes-asr export: the trained network of a run for other programs."""

import argparse
from pathlib import Path

from bayes_asr.base.errors import InputError, count_of
from bayes_asr.base.log import LOGGER
from bayes_asr.decode.export import export_onnx, export_torch, export_torchscript
from bayes_asr.decode.forward.log_likelihoods import load
from bayes_asr.decode.forward.network_record import describe_network
from bayes_asr.decode.packed import pack


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--onnx", type=Path, metavar="FILE", help="write an ONNX model")
    form.add_argument(
        "--torch", type=Path, metavar="FILE", help="write a program of torch.export (.pt2)"
    )
    form.add_argument(
        "--torchscript",
        type=Path,
        metavar="FILE",
        help="write TorchScript; without recurrent layers",
    )
    form.add_argument(
        "--archive",
        type=Path,
        metavar="FILE",
        help="write a zip of all that recognition reads of the run, which transcribe takes as RUN",
    )
    parser.add_argument(
        "--step",
        action="store_true",
        help="compute the next frames from states; for networks that read forwards only",
    )
    parser.add_argument(
        "--quantize", action="store_true", help="keep weights in 8 bits; of --onnx only"
    )
    parser.add_argument("--counts", type=Path, help="pdf counts instead of the training ones")


def run(args: argparse.Namespace) -> None:
    """Write one file."""
    if args.quantize and not args.onnx:
        raise InputError("--quantize is for --onnx; leave it out, or give --onnx FILE")
    if args.step and args.torchscript:
        raise InputError("--step is for --onnx and --torch; give one of them")
    if args.archive and (args.step or args.counts):
        raise InputError("--step and --counts are for programs; an archive has the run as it is")
    if args.archive:
        pack(args.run, args.archive)
    else:
        _write_program(args)
    path = args.onnx or args.torch or args.torchscript or args.archive
    LOGGER.info("wrote %s, %d bytes", path, path.stat().st_size)


def _write_program(args: argparse.Namespace) -> None:
    network, record = load(args.run, args.counts), describe_network(args.run)
    if network.speakers:
        LOGGER.warning(
            "%s: the activations of %s are left out; bayes-asr fold --speaker makes the network of"
            " one",
            *(args.run, count_of(len(network.speakers), "speaker")),
        )
    if args.onnx:
        export_onnx(network, args.onnx, step=args.step, quantize=args.quantize, record=record)
    elif args.torch:
        export_torch(network, args.torch, step=args.step, record=record)
    else:
        export_torchscript(network, args.torchscript, record=record)
