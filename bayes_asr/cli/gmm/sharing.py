"""Options of steps that several processes share, and how they do."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bayes_asr.cli.arguments import processes, share
from bayes_asr.cli.sharing import Inputs, add_sharing_arguments, sharing
from bayes_asr.gmm.milestones import DATA, LANG, TREE
from bayes_asr.processes.pool import open_pool
from bayes_asr.shards import Way


def add_max_skipped(parser: argparse.ArgumentParser, default: float) -> None:
    """Declare --max-skipped."""
    parser.add_argument(
        "--max-skipped",
        type=share,
        metavar="SHARE",
        default=default,
        help="of the utterances may stay unaligned (default %(default)s)",
    )


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --nj, --cmd, --shard and --allow-pipes."""
    parser.add_argument(
        "--nj", type=processes, default=1, help="processes, or jobs of --cmd (default %(default)s)"
    )
    add_sharing_arguments(parser)
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in scp files")


@contextmanager
def sharing_steps(
    args: argparse.Namespace, list_folders: Callable[[], list[Path]]
) -> Iterator[Way]:
    """Yield how many items are done: by the jobs of --cmd, by --nj processes, or here.

    list_folders: where all lies that results depend on, besides the data and the lang folder.
    """

    def find_inputs() -> Inputs:
        tables = [args.data / name for name in DATA]
        lang = [args.lang / name for name in (*LANG, *TREE)] if "lang" in args else []
        others = [path for folder in list_folders() for path in sorted(folder.glob("*"))]
        return Inputs([*tables, *lang, *filter(Path.is_file, others)])

    with sharing(args, args.out, find_inputs) as way:
        if way:
            yield way
        else:
            with open_pool(args.nj) as way:
                yield way
