"""bayes-asr import-cfg: a configuration of pytorch-kaldi as one of ours."""

import argparse
import sys
from pathlib import Path

from bayes_asr.base.errors import InputError, printable
from bayes_asr.base.files import replacing
from bayes_asr.base.log import LOGGER
from bayes_asr.config.merge import load
from bayes_asr.pytorch_kaldi.experiment import read_experiment
from bayes_asr.pytorch_kaldi.notes import DIFFERENCES, WITHOUT_PRESET
from bayes_asr.pytorch_kaldi.translation import PRESET, Translation, translate, write_yaml
from bayes_asr.tasks.task import task_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("cfg", type=Path, metavar="FILE.cfg", help="of pytorch-kaldi")
    parser.add_argument(
        "--like-theirs",
        action="store_true",
        help=f"include {PRESET}: what theirs computes otherwise",
    )
    parser.add_argument(
        "--without-data",
        action="store_true",
        help="leave out the data: for run.sh --config, on top of a recipe that has its own",
    )
    parser.add_argument("--out", type=Path, metavar="FILE.yaml", help="default: FILE.yaml here")


def _take_data_out(cfg: Path, translation: Translation) -> None:
    """Leave the data to a recipe; InputError for streams and labels that no recipe has."""
    train = translation.keys.pop("data")["train"]
    beside = [name for key in train if key.startswith(("streams", "labels")) for name in train[key]]
    if beside:
        raise InputError(
            f"{cfg}: reads {', '.join(beside)} beside the features and alignments of a recipe;"
            " leave out --without-data, and name the directories in data"
        )


def run(args: argparse.Namespace) -> None:
    """Write the configuration, and say option by option what could not be carried over."""
    out = args.out or Path(args.cfg.with_suffix(".yaml").name)
    translation = translate(
        read_experiment(args.cfg), like_theirs=args.like_theirs, without_data=args.without_data
    )
    if args.without_data:
        _take_data_out(args.cfg, translation)
    with replacing(out) as temporary:
        text = write_yaml(args.cfg, translation, like_theirs=args.like_theirs)
        temporary.write_text(text, encoding="utf-8")
    lines = translation.notes.lines()
    print(f"{len(lines)} things of {args.cfg.name} are not carried over:")
    differences = DIFFERENCES if args.like_theirs else (*DIFFERENCES, *WITHOUT_PRESET)
    for line in [*lines, "whatever it says:", *differences]:
        print(printable(f"  {line}"))
    if not args.without_data:
        print("on top of a recipe (run.sh --config), which has its own data: --without-data")
    try:
        task_of(load([out]))
    except InputError as error:
        LOGGER.warning("the configuration is not complete: %s", error)
    print(f"written to {printable(str(out))}", file=sys.stderr)
