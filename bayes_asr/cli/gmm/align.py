"""bayes-asr gmm align: align the transcripts of a data directory."""

import argparse
import json
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

from bayes_asr.cli.arguments import beam, real
from bayes_asr.cli.gmm.sharing import add_common_arguments, add_max_skipped, sharing_steps
from bayes_asr.gmm.alignment import ALIGN_SI
from bayes_asr.gmm.realignment import Realignment
from bayes_asr.lock import alone_in
from bayes_asr.programs import open_pipe

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
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> None:
    """Align, and say how many utterances are aligned."""
    options = replace(
        ALIGN_SI, beam=args.beam, retry_beam=args.retry_beam, rescue=args.rescue == "true"
    )
    with (
        nullcontext() if args.shard else alone_in(args.out),
        sharing_steps(args, lambda: [args.out, args.model]) as way,
    ):
        summary = Realignment(
            *(args.data, args.lang, args.model, args.out, way, options),
            adapt=args.adapt,
            boost_silence=args.boost_silence,
            max_skipped=args.max_skipped,
            open_pipe=open_pipe if args.allow_pipes else None,
        ).run()
        if args.json:
            print(json.dumps(asdict(summary)))
        else:
            print(
                f"{args.out}: {summary.aligned} of {summary.utterances} utterances aligned,"
                f" {summary.frames} frames"
            )
