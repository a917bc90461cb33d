"""Arguments of verbs that align: what the words are pronounced by, and the search."""

import argparse
from pathlib import Path

from bayes_asr.cli.arguments import acoustic_scale, beam
from bayes_asr.data.directories import locate
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.train.runs.configuration import read_configuration


def add_alignment_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the pronunciations, the options of the search, and what may be replaced."""
    default = AlignOptions()
    parser.add_argument(
        "--lang", type=Path, help="lang, dict or graph folder; default: the graph of the run"
    )
    parser.add_argument(
        "--oov",
        metavar="WORD",
        help="stands for words beyond a lexicon that is not of letters; default: oov.txt",
    )
    parser.add_argument(
        "--acoustic-scale",
        type=acoustic_scale,
        help="default: that of the run's decoding",
    )
    parser.add_argument("--beam", type=beam, help=f"default {default.beam:g}")
    parser.add_argument("--retry-beam", type=beam, help=f"default {default.retry_beam:g}")
    parser.add_argument(
        "--force", action="store_true", help="replace files that lie beside sound, text or data"
    )


def find_lang(args: argparse.Namespace) -> Path:
    """The folder of --lang, by default the graph of the run."""
    config = read_configuration(args.run)
    return args.lang or locate(config.data.graph, config.data, "words")


def choose_options(args: argparse.Namespace) -> AlignOptions:
    """The options of the search, where they are not given those of the run and of Kaldi."""
    scale = args.acoustic_scale
    return AlignOptions(
        read_configuration(args.run).decode.acoustic_scale if scale is None else scale,
        AlignOptions.beam if args.beam is None else args.beam,
        AlignOptions.retry_beam if args.retry_beam is None else args.retry_beam,
    )
