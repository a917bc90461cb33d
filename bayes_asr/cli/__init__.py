"""The command line: one file per verb."""

import argparse
import os
import sys
from contextlib import suppress
from importlib import import_module
from types import ModuleType

from bayes_asr import __version__, log
from bayes_asr.errors import InputError, StoppedError, complaint

ABOUT = "Trains, decodes and scores hybrid speech recognisers with Bayesian recurrent units."
VERBS = {
    "features": "compute MFCC or filter banks of Kaldi data directories",
    "train": "train a network, or go on with a run",
    "forward": "compute log-likelihoods of a set or of any Kaldi data directory",
    "decode": "decode log-likelihoods into words and lattices",
    "rescore": "read lattices at other weights: n-best lists, least expected error, times",
    "score": "count errors of a run; the LM weight is chosen on dev",
    "report": "tables and figures of runs",
    "wer": "count errors of a hypothesis against a reference",
    "compare": "statistics between two systems",
    "graph": "build a decoding graph from a lexicon, a language model and a tree",
    "transcribe": "words or phones with times from sound files",
    "align": "align transcripts: with a trained network, or evenly to begin with",
    "fold": "turn a network with trained activations into a plain one",
    "config": "print a configuration as it is understood, or explain a key",
    "status": "what the runs below a folder are doing",
    "doctor": "check inputs and tools before hours are spent",
}


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns 0 only on success, 1 for bad input, 129, 130 or 143 for a signal."""
    words = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="bayes-asr", description=ABOUT, add_help=True)
    parser.add_argument("--version", action="version", version=f"bayes-asr {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    modules: dict[str, ModuleType] = {}
    for verb, what in VERBS.items():
        chosen = verbs.add_parser(verb, help=what, description=what)
        if words[:1] == [verb]:
            modules[verb] = import_module(f"bayes_asr.cli.{verb}")
            modules[verb].add_arguments(chosen)
    args = parser.parse_args(words)
    log.log_to_screen()
    try:
        modules[args.verb].run(args)
    except (InputError, OSError, MemoryError) as error:
        _say(f"bayes-asr {args.verb}: error: {complaint(error)}")
        return 1
    except StoppedError as stopped:
        _say(f"bayes-asr {args.verb}: {stopped}")
        return 128 + stopped.number
    except KeyboardInterrupt:
        _say(f"bayes-asr {args.verb}: interrupted")
        return 130
    return 0


def _say(message: str) -> None:
    """Print an error; where nothing takes it any more, the status that we end with still counts."""
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:  # Python ends with a status of its own if it cannot write what is left
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                os.dup2(nowhere, stream.fileno())
