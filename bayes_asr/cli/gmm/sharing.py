"""Options of steps that several processes share, and how they do."""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bayes_asr.base.lock import alone_in
from bayes_asr.base.processes.pool import open_pool
from bayes_asr.base.shards import Mapper
from bayes_asr.cli.arguments import processes
from bayes_asr.cli.sharing import Inputs, add_sharing_arguments, sharing
from bayes_asr.gmm.files import DATA_FILES, LANG_FILES, TREE_FILES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --nj, --cmd, --shard, --allow-pipes and --json."""
    parser.add_argument(
        "--nj", type=processes, default=1, help="processes, or jobs of --cmd (default %(default)s)"
    )
    add_sharing_arguments(parser)
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in scp files")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def say(args: argparse.Namespace, summary: "DataclassInstance", line: str) -> None:
    """Print a summary as JSON where that is asked for, else a line."""
    print(json.dumps(asdict(summary)) if args.json else line)


@contextmanager
def going_on(args: argparse.Namespace, *inputs: Path) -> Iterator[Mapper]:
    """As `sharing_steps`, alone in the folder that is written, where what is complete stays.

    inputs: folders that results depend on, besides those of `sharing_steps`.
    """
    # Shards work beside each other in one folder; whoever gathers them holds the lock.
    with (
        nullcontext() if args.shard else alone_in(args.out),
        sharing_steps(args, lambda: [args.out, *inputs]) as mapper,
    ):
        yield mapper


@contextmanager
def sharing_steps(
    args: argparse.Namespace, list_folders: Callable[[], list[Path]]
) -> Iterator[Mapper]:
    """Yield how many items are done: by the jobs of --cmd, by --nj processes, or here.

    list_folders: where all lies that results depend on, besides the data and the lang folder.
    """

    with sharing(args, args.out, lambda: list_step_inputs(args, list_folders())) as mapper:
        if mapper:
            yield mapper
        else:
            with open_pool(args.nj) as mapper:
                yield mapper


def list_step_inputs(args: argparse.Namespace, folders: Iterable[Path]) -> Inputs:
    """The files of the data, of the lang folder, and all those of further folders."""
    tables = [args.data / name for name in DATA_FILES]
    lang = [args.lang / name for name in (*LANG_FILES, *TREE_FILES)] if "lang" in args else []
    further = [path for directory in folders for path in sorted(directory.glob("*"))]
    return Inputs([*tables, *lang, *filter(Path.is_file, further)])
