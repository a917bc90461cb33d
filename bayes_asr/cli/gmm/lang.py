"""bayes-asr gmm lang: the lang folder of a dictionary, as Kaldi's prepare_lang.sh makes it."""

import argparse
from pathlib import Path

from bayes_asr.cli.arguments import real, whole
from bayes_asr.decode.graph.lang_dir import LangOptions, write_lang

STATES = whole(1, 20)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument(
        "dict", type=Path, metavar="DICT", help="folder with lexicon.txt and phones"
    )
    parser.add_argument("out", type=Path, metavar="LANG", help="folder to write")
    parser.add_argument(
        "--oov", required=True, metavar="WORD", help="stands for words without pronunciation"
    )
    parser.add_argument(
        "--sil-prob",
        type=real(0, 0.999),
        metavar="P",
        default=0.5,
        help="probability of a pause between words (default %(default)s)",
    )
    parser.add_argument(
        "--position-dependent-phones",
        choices=("true", "false"),
        default="true",
        help="tell phones apart by their place in a word (default %(default)s)",
    )
    parser.add_argument(
        "--num-sil-states",
        type=STATES,
        metavar="N",
        default=5,
        help="states of a phone of silence or noise (default %(default)s)",
    )
    parser.add_argument(
        "--num-nonsil-states",
        type=STATES,
        metavar="N",
        default=3,
        help="states of other phones (default %(default)s)",
    )
    parser.add_argument(
        "--share-silence-phones",
        choices=("true", "false"),
        default="false",
        help="let all phones of silence and noise share their pdfs (default %(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Write the folder."""
    write_lang(
        args.dict,
        args.out,
        LangOptions(
            oov=args.oov,
            position_dependent=args.position_dependent_phones == "true",
            silence_probability=args.sil_prob,
            silence_states=args.num_sil_states,
            nonsilence_states=args.num_nonsil_states,
            share_silence_phones=args.share_silence_phones == "true",
        ),
    )
    print(f"wrote {args.out}")
