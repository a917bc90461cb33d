"""Options of verbs whose work the jobs of a cluster may share."""

import argparse
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.jobs import JOB
from bayes_asr.base.kept_results import KeptResults
from bayes_asr.base.lock import alone_in
from bayes_asr.base.programs import open_pipe
from bayes_asr.base.shards import Cluster, Mapper, Shard, ShardWrittenError
from bayes_asr.cli.arguments import processes, share
from bayes_asr.data.directories import OF_FEATURES, locate_streams
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.kaldi_io.ark import Moves, read_scp
from bayes_asr.kaldi_io.rxfilename import list_archives
from bayes_asr.kaldi_io.side_files import COMBINATION, CONFIG
from bayes_asr.train.runs.combination import list_networks
from bayes_asr.train.runs.configuration import read_configuration

NOT_OF_RESULTS = {"words", "cmd", "nj", "jobs", "shard", "json"}
DATA_DIR = (*OF_FEATURES, "text")
PASSED_ON = re.compile("PYTHONPATH|OMP_NUM_THREADS|BAYES_ASR_.*")  # scripts may pass PATH alone


def add_sharing_arguments(
    parser: argparse.ArgumentParser, *, cmd: str | None = "", jobs_only: bool = False
) -> None:
    """Declare --cmd, with its default (None where a variable may name one), and --shard.

    jobs_only: declare --nj too, for a verb that has no use for it without --cmd.
    """
    if jobs_only:
        parser.add_argument(
            "--nj", type=processes, dest="jobs", metavar="M", help="jobs of --cmd (default 1)"
        )
    parser.add_argument(
        "--cmd",
        default=cmd,
        metavar="SCRIPT",
        help="share the work among --nj jobs: Kaldi's run.pl, queue.pl or slurm.pl, and options",
    )
    parser.add_argument(
        "--shard", type=_shard, metavar="N/M", help="compute the Nth of M shards; --cmd gathers"
    )


def _shard(text: str) -> tuple[int, int]:
    try:
        number, total = (processes(part) for part in text.split("/"))
    except (ValueError, argparse.ArgumentTypeError):
        number, total = 1, 0
    if number > total:
        form = f"N/M with N from 1 to M, M to {processes.range.high:g}"
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not {form}")
    return int(number), int(total)


@dataclass(frozen=True)
class Inputs:
    """Files that results depend on, with what the tables (scp) among them name.

    moves: the folders that these names begin with, and where these are now.
    """

    files: Sequence[Path]
    moves: Moves = ()


def add_set_arguments(
    parser: argparse.ArgumentParser, verb: str, lacking: str, *, required: bool = True
) -> None:
    """Declare which utterances a run computes, where to, and how many of them may lack features.

    lacking: what a data directory need not have for the verb; required: whether they must be given.
    """
    which = parser.add_mutually_exclusive_group(required=required)
    which.add_argument("--on", choices=("train", "dev", "test"), help="a set of the run")
    which.add_argument("--data", type=Path, help=f"any Kaldi data directory; no {lacking} needed")
    add_stream_argument(parser)
    parser.add_argument("--out", type=Path, help=f"folder to write (default: RUN/{verb}_SET)")
    parser.add_argument(
        "--max-skipped",
        type=share,
        metavar="SHARE",
        help="of the utterances may lack features (default: data.max_skipped of the run)",
    )
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in scp files")


def add_stream_argument(parser: argparse.ArgumentParser) -> None:
    """Declare --stream, for the directories of further streams beside --data."""
    parser.add_argument(
        "--stream",
        action="append",
        type=_stream,
        default=[],
        metavar="NAME=DIR",
        help="with --data: Kaldi data directory of a further stream that the run reads",
    )


def _stream(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not NAME=DIR, as in fbank=data-fbank/x")
    return name, Path(path)


def gather_streams(args: argparse.Namespace) -> dict[str, Path]:
    """The directories of --stream by name.

    InputError for a stream twice, for the first, which is that of --data, and without --data.
    """
    if args.stream and not args.data:
        raise InputError("--stream goes with --data; the sets of a run have their streams")
    streams = dict(args.stream)
    if FEATURES in streams:
        raise InputError(f"--stream {FEATURES}: the first stream is --data DIR; leave it out")
    if len(streams) < len(args.stream):
        raise InputError("--stream names a stream twice; give each once")
    return streams


def list_inputs(
    run: Path,
    data: Path | None,
    on: str | None,
    further: Iterable[Path] = (),
    streams: Mapping[str, Path] | None = None,
) -> Inputs:
    """The files that log-likelihoods of `data`, or else of the set `on`, depend on, and further."""
    folders = [*([data] if data else []), *(streams or {}).values()]
    by_network = [_list_inputs_of_one(network, folders, on) for network in list_networks(run)]
    files = [path for inputs in by_network for path in inputs.files]
    moves = dict.fromkeys(move for inputs in by_network for move in inputs.moves)
    return Inputs([run / COMBINATION, *files, *further], tuple(moves))


def _list_inputs_of_one(run: Path, folders: Sequence[Path], on: str | None) -> Inputs:
    config = read_configuration(run)
    folders = locate_streams(config.data, on) if on else folders
    tables = [directory / name for directory in folders for name in DATA_DIR]
    return Inputs([run / "best.pt", run / CONFIG, *tables], config.data.moves)


@contextmanager
def sharing(
    args: argparse.Namespace, out: Path, find_inputs: Callable[[], Inputs]
) -> Iterator[Mapper | None]:
    """Yield how --cmd and --shard have it done: None for here. The rest of the block is skipped
    in a process that computes a shard.

    Shards are kept in `out`/shards until the block has ended well. They are used again only where
    the options, the inputs and what scp files among these name are the same.
    """
    shards, options = out / "shards", vars(args)
    jobs = options.get("jobs") or options.get("nj") or 1
    if args.shard:
        number, total = args.shard
        with suppress(ShardWrittenError):
            yield Shard(shards, number, total, _hash(args, find_inputs()))
    elif args.cmd:
        # qsub and ssh start jobs with an environment of their own.
        passed = [f"{name}={value}" for name, value in os.environ.items() if _is_passed(name)]
        # -P: a file of the working directory is no module of ours.
        verb = [sys.executable, "-P", "-m", "bayes_asr", *args.words]
        command = ["env", *passed, *verb, "--cmd=", f"--shard={JOB}/{jobs}"]
        log = out / "log" / f"{args.verb}.{JOB}.log"
        # Two gatherings would delete each other's shards.
        with alone_in(shards):
            yield Cluster(shards, log, jobs, lambda: _hash(args, find_inputs()), command, args.cmd)
            for shard in shards.glob("*of*.zip"):
                shard.unlink()
        with suppress(OSError):
            shards.rmdir()
    elif options.get("jobs"):
        raise InputError("--nj is the number of jobs of --cmd: give --cmd run.pl to have them here")
    else:
        yield None


def kept_results(
    args: argparse.Namespace, out: Path, find_inputs: Callable[[], Inputs]
) -> KeptResults | None:
    """The results that an ended call has left in `out`.

    None for shards, which are kept apart, and where commands give what is read.
    """
    if any(vars(args).get(option) for option in ("cmd", "shard", "allow_pipes")):
        return None
    return KeptResults(out, _hash(args, find_inputs()))


def _is_passed(name: str) -> bool:
    return PASSED_ON.fullmatch(name) is not None


def _hash(args: argparse.Namespace, inputs: Inputs) -> str:
    options = sorted((k, v) for k, v in vars(args).items() if k not in NOT_OF_RESULTS)
    parts = [repr(options)]  # with the version, of which results are, too
    for path in inputs.files:
        parts.append(_state(path))
        if path.suffix == ".scp" and path.exists():
            # Commands are not run here.
            table = read_scp(path, open_pipe=open_pipe, moves=inputs.moves)
            parts += map(_state, list_archives(table.values()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _state(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return f"{path.absolute()} is not there"
    return f"{path.absolute()} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
