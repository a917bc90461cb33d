"""bayes-asr decode: log-likelihoods and a graph to words, costs and lattices."""

import argparse
import json
import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError, count_of
from bayes_asr.base.files import is_there
from bayes_asr.base.kept_results import KeptResults
from bayes_asr.base.log import LOGGER
from bayes_asr.cli.arguments import key, lm_weight, penalty, processes
from bayes_asr.cli.sharing import Inputs, add_sharing_arguments, kept_results, sharing
from bayes_asr.config.decoding_keys import KALDI_DEFAULTS, SEARCH_KEYS
from bayes_asr.data.directories import locate
from bayes_asr.decode.forward.network_record import check_network, read_network_record
from bayes_asr.decode.lattices.paths import pair_weights
from bayes_asr.decode.search.archive import DECODERS, decode_archive
from bayes_asr.decode.search.inputs import graph_files
from bayes_asr.decode.search.job import DecodeJob
from bayes_asr.decode.search.search_record import (
    describe_differences,
    read_record,
)
from bayes_asr.kaldi_io.rxfilename import split_rspecifier
from bayes_asr.kaldi_io.side_files import CONFIG
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.combination import WITHOUT_NETWORK, has_words_alone
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.run_model import locate_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; names and defaults are those of latgen-faster-mapped."""
    parser.add_argument("run", nargs="?", type=Path, help="run that fills in what is not given")
    parser.add_argument("--on", choices=("train", "dev", "test"), help="a set of the run")
    parser.add_argument("--loglikes", metavar="SCP|ARK", help="log-likelihoods")
    parser.add_argument(
        "--graph", type=Path, help="folder of HCLG.fst, or HCL.fst and G.fst, and words.txt"
    )
    parser.add_argument(
        "--lm", type=Path, help="ARPA file or .fst to compose with HCL.fst of the graph"
    )
    parser.add_argument(
        "--hotwords", type=Path, metavar="FILE", help="words and phrases to prefer, one a line"
    )
    parser.add_argument("--model", type=Path, help="final.mdl of the graph")
    parser.add_argument("--out", type=Path, help="folder for the results")
    for name in SEARCH_KEYS:
        value = getattr(KALDI_DEFAULTS, name)
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=key(f"decode.{name}"), help=f"without a run: {value}")
    parser.add_argument(
        "--allow-partial",
        action="store_true",
        default=None,
        help="keep words that reach no final state; always so with a run",
    )
    parser.add_argument("--lmwt", type=lm_weight, nargs="+", help="LM weights to try")
    parser.add_argument(
        "--wip",
        type=penalty,
        nargs="+",
        help="insertion penalties to try",
    )
    parser.add_argument(
        "--mbr", action="store_true", default=None, help="words of least expected error at these"
    )
    parser.add_argument("--nj", type=processes, default=1, help="processes, or jobs of --cmd")
    parser.add_argument(
        "--backend", choices=DECODERS, default="embedded", help="our search, or your Kaldi's"
    )
    add_sharing_arguments(parser, cmd=None)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> None:
    """Decode the archive and print a summary."""
    filled: dict[str, Any] = (
        _from_run(args.run, args.on, args.graph) if args.run else {"lmwt": [], "wip": [0.0]}
    )
    filled |= {key: value for key, value in vars(args).items() if value is not None}
    missing = [f"--{key}" for key in ("loglikes", "graph", "model", "out") if key not in filled]
    if missing:
        raise InputError(f"give a run and --on SET, or {', '.join(missing)}")
    if args.run and not args.loglikes and not is_there(Path(filled["loglikes"])):
        if has_words_alone(args.run):
            raise InputError(f"{filled['loglikes']}: {WITHOUT_NETWORK}")
        forward = f"bayes-asr forward {args.run} --on {args.on}"
        raise InputError(f"{filled['loglikes']}: not there; run {forward} first")
    if args.backend != "embedded" and args.shard:
        raise InputError("--shard is of the embedded backend; Kaldi's jobs have --nj and --cmd")
    entries = _find_entries(args, Path(split_rspecifier(filled["loglikes"])[1]))
    # The variable is the one that Kaldi's cmd.sh exports.
    cmd = os.environ.get("decode_cmd", "") if args.cmd is None else args.cmd  # noqa: SIM112
    in_shards = sharing(args, filled["out"], partial(_list_inputs, args.run, filled))
    with in_shards if args.backend == "embedded" else nullcontext() as mapper:
        summary = decode_archive(
            _make_job(args, filled),
            filled["out"],
            backend=args.backend,
            cmd=cmd,
            mapper=mapper,
            kept=_find_kept(args, filled),
            entries=entries,
        )
        if args.run:
            _compare_with_dev(args.run, args.on, filled["out"])
        if args.json:
            print(json.dumps(asdict(summary)))
        else:
            print(
                f"decoded {count_of(summary.utterances, 'utterance')}, {summary.frames} frames into"
                f" {filled['out']}"
            )


def _find_entries(args: argparse.Namespace, archive: Path) -> dict[str, str] | None:
    """Entries of the record of a run, beside the settings of the search; None without a run.

    InputError where its log-likelihoods are of another network than it has now.
    """
    if not args.run:
        return None
    record = read_network_record(archive) if archive.is_file() else {}
    if not args.loglikes:
        forward = f"bayes-asr forward {args.run} --on {args.on}"
        check_network(args.run, record, archive, f"run {forward} again")
    return record


def _make_job(args: argparse.Namespace, filled: Mapping[str, Any]) -> DecodeJob:
    options = replace(
        KALDI_DEFAULTS,
        allow_partial=filled.get("allow_partial", False),
        **{name: filled[name] for name in SEARCH_KEYS if name in filled},
    )
    return DecodeJob(
        str(filled["loglikes"]),
        filled["graph"],
        filled["model"],
        options,
        tuple(pair_weights(filled["lmwt"], filled["wip"])),
        args.nj,
        args.lm,
        args.hotwords,
        filled.get("mbr", False),
    )


def _list_inputs(run: Path | None, filled: Mapping[str, Any]) -> Inputs:
    source = Path(split_rspecifier(filled["loglikes"])[1])
    graph = [*graph_files(filled["graph"], filled.get("lm")), filled["graph"] / "words.txt"]
    further = [run / CONFIG] if run else []
    further += [filled["hotwords"]] if "hotwords" in filled else []
    return Inputs([source, *graph, filled["model"], *further])


def _find_kept(args: argparse.Namespace, filled: Mapping[str, Any]) -> KeptResults | None:
    """What an ended call has left.

    None for Kaldi's decoder, for what no file holds, and for an index whose archives are not known
    because its name does not say that it is one.
    """
    kind, name = split_rspecifier(filled["loglikes"])
    known = Path(name).is_file() and (kind == "ark" or name.endswith(".scp"))
    if args.backend != "embedded" or not known:
        return None
    return kept_results(args, filled["out"], partial(_list_inputs, args.run, filled))


def _compare_with_dev(run: Path, on: str, out: Path) -> None:
    """Say where a set was decoded with other settings than dev."""
    is_scored = out == run / f"decode_{on}"  # which score will read
    dev, search = read_record(run / "decode_dev") if is_scored else None, read_record(out)
    difference = describe_differences(dev, search) if dev and search else ""
    if difference:
        LOGGER.warning(
            "dev was decoded with other settings than %s (%s): the LM weight that dev picks is not"
            " tuned for it; decode both alike",
            on,
            difference,
        )


def _from_run(run: Path, on: str | None, graph: Path | None) -> dict[str, Any]:
    """Options out of a run: its log-likelihoods, its graph unless another is wanted, its model and
    search options.
    """
    if on is None:
        raise InputError(f"{run}: say which set to decode: --on dev or --on test")
    config = read_configuration(run)
    if (verb := task_of(config).recogniser) != "decode":
        raise InputError(f"{run}: has no graph; run bayes-asr {verb} {run} --on {on}")
    return {
        "loglikes": str(run / f"forward_{on}" / "loglikes.ark"),
        "graph": graph or locate(config.data.graph, config.data, "graph"),
        "model": locate_model(run, config),
        "out": run / f"decode_{on}",
        "lmwt": list(config.decode.lm_weights),
        "wip": list(config.decode.insertion_penalties),
        "mbr": config.decode.mbr,
        "allow_partial": True,
        **{name: getattr(config.decode, name) for name in SEARCH_KEYS},
    }
