"""bayes-asr features: MFCC or filter banks of Kaldi data directories, without Kaldi."""

import argparse
from pathlib import Path

from bayes_asr.cli.arguments import positive, share
from bayes_asr.sound.spectrum import MAX_SKIPPED, FrontEnd, write_features

BANDS = {"mfcc": 23, "fbank": 40}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "data", type=Path, nargs="+", metavar="DATA", help="folder with wav.scp and utt2spk"
    )
    parser.add_argument("--kind", choices=BANDS, default="mfcc", help="default %(default)s")
    parser.add_argument(
        "--bands", type=positive, metavar="N", help="mel bands (default: 23, of fbank 40)"
    )
    parser.add_argument(
        "--cepstra", type=positive, metavar="N", default=13, help="of mfcc (default %(default)s)"
    )
    parser.add_argument(
        "--sample-rate", type=positive, metavar="HZ", default=16000, help="default %(default)s"
    )
    parser.add_argument(
        "--max-skipped",
        type=share,
        default=MAX_SKIPPED,
        metavar="SHARE",
        help="of the utterances may have no sound (default %(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Write feats, cmvn and frontend.json of each directory."""
    front_end = FrontEnd(
        args.kind,
        sample_rate=args.sample_rate,
        bands=args.bands or BANDS[args.kind],
        cepstra=args.cepstra,
    )
    for data in args.data:
        write_features(data, front_end, args.max_skipped)
        print(f"wrote the {args.kind} features of {data}")
