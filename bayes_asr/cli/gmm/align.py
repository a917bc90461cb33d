"""bayes-asr gmm align: align the transcripts of a data directory."""

import argparse
from dataclasses import replace
from pathlib import Path

from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.arguments import add_max_skipped, beam, real
from bayes_asr.cli.gmm.sharing import add_common_arguments, going_on, say
from bayes_asr.gmm.alignment import ALIGN_SI
from bayes_asr.gmm.realignment import Realignment
from bayes_asr.gmm.resumable import StepFolders

MAX_SKIPPED = 0.2  # training has a limit of its own, data.max_skipped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("data", type=Path, metavar="DATA", help="data directory with text")
    parser.add_argument("lang", type=Path, metavar="LANG", help="of gmm lang, or Kaldi's")
    parser.add_argument("model", type=Path, metavar="MODEL_DIR", help="folder of the model")
    parser.add_argument("out", type=Path, metavar="OUT", help="alignment directory to write")
    parser.add_argument(
        "--boost-silence",
        type=real(1e-3, 1e3),
        metavar="N",
        default=1.0,
        help="factor of silence likelihoods (default %(default)s)",
    )
    parser.add_argument(
        "--adapt",
        action=argparse.BooleanOptionalAction,
        help="align, estimate a transform of each speaker, and align again (default: where the"
        " model has a final.alimdl)",
    )
    for name in ("beam", "retry_beam"):
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=beam,
            metavar="N",
            default=getattr(ALIGN_SI, name),
            help="default %(default)s",
        )
    parser.add_argument(
        "--rescue",
        choices=("true", "false"),
        default="false",
        help="search what the wider beam loses once more, with as many states as in decoding"
        " (default %(default)s)",
    )
    add_max_skipped(parser, MAX_SKIPPED)
    add_common_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Align, and say how many utterances are aligned."""
    options = replace(
        ALIGN_SI, beam=args.beam, retry_beam=args.retry_beam, rescue=args.rescue == "true"
    )
    with going_on(args, args.model) as mapper:
        summary = Realignment(
            StepFolders(args.data, args.lang, args.model, args.out),
            mapper,
            options,
            adapt=args.adapt,
            boost_silence=args.boost_silence,
            max_skipped=args.max_skipped,
            open_pipe=open_pipe if args.allow_pipes else None,
        ).run()
        say(
            args,
            summary,
            f"{args.out}: {summary.aligned} of {summary.utterances} utterances aligned,"
            f" {summary.frames} frames",
        )
