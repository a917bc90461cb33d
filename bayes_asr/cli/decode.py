"""bayes-asr decode: log-likelihoods and a graph to words, costs and lattices."""

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bayes_asr.cli.arguments import positive
from bayes_asr.config import load
from bayes_asr.corpus.sets import located
from bayes_asr.decode.archive import BACKENDS, decode_archive
from bayes_asr.decode.options import DecodeOptions
from bayes_asr.errors import InputError

SEARCH = ("acoustic_scale", "beam", "lattice_beam", "max_active", "min_active")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; names and defaults are those of latgen-faster-mapped."""
    default = DecodeOptions()
    parser.add_argument("run", nargs="?", type=Path, help="run that fills in what is not given")
    parser.add_argument("--on", choices=("train", "dev", "test"), help="a set of the run")
    parser.add_argument("--loglikes", metavar="SCP|ARK", help="log-likelihoods")
    parser.add_argument("--graph", type=Path, help="folder of HCLG.fst, words.txt")
    parser.add_argument("--model", type=Path, help="final.mdl of the graph")
    parser.add_argument("--out", type=Path, help="folder for the results")
    for name in SEARCH:
        value = getattr(default, name)
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(value), help=f"without a run: {value}")
    parser.add_argument(
        "--allow-partial",
        action="store_true",
        default=None,
        help="keep words that reach no final state; always so with a run",
    )
    parser.add_argument("--lmwt", type=float, nargs="+", help="LM weights to try")
    parser.add_argument("--wip", type=float, nargs="+", help="insertion penalties to try")
    parser.add_argument("--nj", type=positive, default=1, help="processes, or Kaldi's jobs")
    parser.add_argument(
        "--backend", choices=BACKENDS, default="embedded", help="our search, or your Kaldi's"
    )
    parser.add_argument(  # the variable is the one that Kaldi's cmd.sh exports
        "--cmd",
        default=os.environ.get("decode_cmd", ""),  # noqa: SIM112
        help="how Kaldi's jobs are run: run.pl, queue.pl, slurm.pl and options ($decode_cmd)",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> None:
    """Decode the archive and print a summary."""
    filled: dict[str, Any] = (
        _from_run(args.run, args.on) if args.run else {"lmwt": [], "wip": [0.0]}
    )
    filled |= {key: value for key, value in vars(args).items() if value is not None}
    missing = [f"--{key}" for key in ("loglikes", "graph", "model", "out") if key not in filled]
    if missing:
        raise InputError(f"give a run and --on SET, or {', '.join(missing)}")
    summary = decode_archive(
        filled["loglikes"],
        filled["graph"],
        filled["model"],
        filled["out"],
        DecodeOptions(
            allow_partial=filled.get("allow_partial", False),
            **{name: filled[name] for name in SEARCH if name in filled},
        ),
        lmwts=filled["lmwt"],
        wips=filled["wip"],
        nj=args.nj,
        backend=args.backend,
        cmd=args.cmd,
    )
    if args.json:
        print(json.dumps(asdict(summary)))
    else:
        print(
            f"decoded {summary.utterances} utterances, {summary.frames} frames into {filled['out']}"
        )


def _from_run(run: Path, on: str | None) -> dict[str, Any]:
    """What a run knows: its log-likelihoods, graph, model and search options."""
    if on is None:
        raise InputError(f"{run}: say which set to decode: --on dev or --on test")
    config = load([run / "config.yaml"])
    alignments = located(config.data.train.alignments, config.data, "model")
    return {
        "loglikes": str(run / f"forward_{on}" / "loglikes.ark"),
        "graph": located(config.data.graph, config.data, "graph"),
        "model": alignments / "final.mdl",
        "out": run / f"decode_{on}",
        "lmwt": list(config.decode.lm_weights),
        "wip": list(config.decode.insertion_penalties),
        "allow_partial": True,
        **{name: getattr(config.decode, name) for name in SEARCH},
    }
