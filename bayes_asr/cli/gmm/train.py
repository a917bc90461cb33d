"""bayes-asr gmm mono, deltas, lda-mllt, sat: train Gaussian mixtures, or go on with a training."""

import argparse
from dataclasses import replace
from pathlib import Path

from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.arguments import add_max_skipped, beam, positive, real, whole
from bayes_asr.cli.gmm.sharing import add_common_arguments, going_on, say
from bayes_asr.gmm.resumable import StepFolders
from bayes_asr.gmm.schedule import DELTAS, LDA_MLLT, MONOPHONES, SAT, TrainingSchedule
from bayes_asr.gmm.trainers import MAX_SKIPPED, GmmTrainer

SCHEDULES: dict[str, TrainingSchedule] = {
    schedule.kind: schedule for schedule in (MONOPHONES, DELTAS, LDA_MLLT, SAT)
}
WINDOW = whole(0, 100)
SPLICED = "frames that are spliced; train_lda_mllt.sh takes 4"
OPTIONS = {  # of the Schedule: which option sets it, and who has it (all, where nobody is named)
    "leaves": (whole(1, 1_000_000), "leaves of the tree, at most", ("deltas", "lda-mllt", "sat")),
    "gaussians": (positive, "Gaussians in the end", ()),
    "passes": (whole(1, 1000), "estimations of the model", ()),
    "boost_silence": (real(1e-3, 1e3), "factor of silence likelihoods in alignment", ()),
    "beam": (beam, "of alignments", ()),
    "retry_beam": (beam, "where the first finds no path", ()),
    "power": (real(0, 1), "of a pdf's frames, which shares Gaussians out", ()),
    "dimensions": (whole(1, 1000), "of the features that LDA makes", ("lda-mllt",)),
    "left_context": (WINDOW, SPLICED, ("lda-mllt",)),
    "right_context": (WINDOW, SPLICED, ("lda-mllt",)),
    "context_width": (whole(1, 7), "phones that a pdf depends on", ("deltas", "lda-mllt", "sat")),
    "central_position": (whole(0, 6), "of these, from 0", ("deltas", "lda-mllt", "sat")),
    "cluster_threshold": (
        real(0, 1e9),
        "in log-likelihood, below which leaves are merged (default: that of the last split)",
        ("deltas", "lda-mllt", "sat"),
    ),
}
SPELT = {"dimensions": "--dim"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the training that the name of `parser` ends with."""
    kind = parser.prog.split()[-1]
    parser.add_argument("data", type=Path, metavar="DATA", help="data directory with feats.scp")
    parser.add_argument("lang", type=Path, metavar="LANG", help="of gmm lang, or Kaldi's")
    if kind != "mono":
        parser.add_argument("ali", type=Path, metavar="ALI", help="alignments to begin with")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, or to go on with")
    for name, (number, what, kinds) in OPTIONS.items():
        if not kinds or kind in kinds:
            default = getattr(SCHEDULES[kind], name)
            parser.add_argument(
                SPELT.get(name, f"--{name.replace('_', '-')}"),
                type=number,
                dest=name,
                metavar="N",
                default=default,
                help=what if default is None else f"{what} (default %(default)s)",
            )
    add_max_skipped(parser, MAX_SKIPPED)
    add_common_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Train, and say how well the model fits its data."""
    options = {name: vars(args)[name] for name in OPTIONS if name in args}
    schedule = replace(SCHEDULES[args.step], **options)
    alignments: Path | None = vars(args).get("ali")
    with going_on(args, *filter(None, [alignments])) as mapper:
        summary = GmmTrainer(
            schedule,
            StepFolders(args.data, args.lang, alignments, args.out),
            mapper,
            max_skipped=args.max_skipped,
            open_pipe=open_pipe if args.allow_pipes else None,
        ).run()
        say(
            args,
            summary,
            f"{args.out}: {summary.pdfs} pdfs, {summary.gaussians} Gaussians; log-likelihood"
            f" a frame {summary.log_likelihood:.4f} over {summary.frames} frames",
        )
