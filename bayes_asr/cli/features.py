"""bayes-asr features: MFCC, filter banks, PLP, pitch or samples of data directories."""

import argparse
from functools import partial
from pathlib import Path
from typing import get_args

from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.arguments import add_max_skipped, channel, real, whole
from bayes_asr.cli.sharing import Inputs, add_sharing_arguments, sharing
from bayes_asr.data.sound.feature_directories import write_features
from bayes_asr.data.sound.recordings import MAX_SKIPPED
from bayes_asr.data.sound.spectrum import (
    MOST_BANDS,
    MOST_DITHER,
    SAMPLE_RATES,
    WINDOWS,
    Analysis,
    Kind,
)

TABLES = ("wav.scp", "segments", "utt2spk", "reco2file_and_channel")
# Kaldi has 23 mel bands for MFCC and PLP; fbank of networks has 40.
BANDS = {"fbank": 40, "fbank-pitch": 40}
FEWER_BANDS = 23


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "data", type=Path, nargs="+", metavar="DATA", help="folder with wav.scp and utt2spk"
    )
    _add_analysis(parser)
    parser.add_argument(
        "--channel",
        type=channel,
        metavar="N",
        help="of several, counted from 0, or `mean`, where segments names none (default: the"
        " first, with a warning)",
    )
    add_max_skipped(parser, MAX_SKIPPED, "have no sound")
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in wav.scp")
    add_sharing_arguments(parser, jobs_only=True)


def _add_analysis(parser: argparse.ArgumentParser) -> None:
    """Add the options of `Analysis`."""
    parser.add_argument(
        "--kind", choices=get_args(Kind), default="mfcc", help="default %(default)s"
    )
    bands = whole(1, MOST_BANDS)
    parser.add_argument(
        "--bands", type=bands, metavar="N", help="mel bands (default: 23, of fbank 40)"
    )
    parser.add_argument(
        "--cepstra",
        type=bands,
        metavar="N",
        default=13,
        help="of mfcc and plp (default %(default)s)",
    )
    parser.add_argument(
        "--dither",
        type=real(0, MOST_DITHER),
        metavar="D",
        default=0.0,
        help="noise of mfcc, fbank and plp in steps of 16 bits, the same in each run; Kaldi's"
        " default is 1 (default %(default)g)",
    )
    parser.add_argument(
        "--window",
        type=whole(*WINDOWS),
        metavar="MS",
        default=200,
        help="of samples around each frame (default %(default)s)",
    )
    parser.add_argument(
        "--sample-rate",
        type=whole(*SAMPLE_RATES),
        metavar="HZ",
        default=16000,
        help="other sound is resampled (default %(default)s)",
    )


def _list_inputs(data: Path) -> Inputs:
    return Inputs([data / name for name in TABLES])


def run(args: argparse.Namespace) -> None:
    """Write feats, cmvn and frontend.json of each directory."""
    front_end = Analysis(
        args.kind,
        sample_rate=args.sample_rate,
        bands=args.bands or BANDS.get(args.kind, FEWER_BANDS),
        cepstra=args.cepstra,
        dither=args.dither,
        window=args.window,
    )
    pipes = open_pipe if args.allow_pipes else None
    for data in args.data:
        with sharing(args, data, partial(_list_inputs, data)) as mapper:
            write_features(
                data,
                front_end,
                args.max_skipped,
                channel=args.channel,
                open_pipe=pipes,
                mapper=mapper,
            )
            print(f"wrote the {args.kind} features of {data}")
