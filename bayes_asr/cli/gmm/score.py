"""bayes-asr gmm score: error rates of what mixtures have decoded, as those of a run."""

import argparse
import json
import platform
from pathlib import Path

import numpy as np

from bayes_asr import __version__
from bayes_asr.cli import score
from bayes_asr.config import load
from bayes_asr.decode.search_record import SEARCH, Record, read_record
from bayes_asr.errors import InputError
from bayes_asr.files import replacing
from bayes_asr.runs.configuration import CONFIG
from bayes_asr.runs.record import name_blas
from bayes_asr.score.sweeps import find_hypotheses

MADE_BY = ("parameters", "gaussians", "frontend")  # what gmm decode notes of the model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the folder, the configuration and the options of `bayes-asr score`."""
    parser.add_argument(
        "run", type=Path, metavar="OUT", help="folder with decode_dev and, if any, decode_test"
    )
    parser.add_argument(
        "config", nargs="+", type=Path, metavar="CONFIG", help="YAML files of the recipe"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one key")
    score.add_options(parser)


def run(args: argparse.Namespace) -> None:
    """Write what a run says of itself, config.yaml and env.json, then score the folder as one."""
    decoded = args.run / "decode_dev"
    record = read_record(decoded)
    if record is None or not set(MADE_BY) < set(record):
        raise InputError(f"{decoded}: nothing that bayes-asr gmm decode wrote; decode dev first")
    load(args.config, [*args.set, *list_settings(decoded, record)]).save(args.run / CONFIG)
    versions = {
        "bayes_asr": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": name_blas(),
    }
    environment = {name: record[name] for name in MADE_BY} | versions
    with replacing(args.run / "env.json") as temporary:
        temporary.write_text(json.dumps(environment, indent=1) + "\n", encoding="utf-8")
    score.run(args)


def list_settings(decoded: Path, record: Record) -> list[str]:
    """The keys of a configuration in which the decoding of mixtures differs from a network's."""
    lm_weights, penalties = zip(*find_hypotheses(decoded), strict=True)
    found = {f"decode.{name}": record.get(name) for name in SEARCH} | {
        "decode.lm_weights": sorted(set(lm_weights)),
        "decode.insertion_penalties": sorted(set(penalties)),
        "data.graph": [record.get("graph")],
    }
    return [f"{name}={json.dumps(value)}" for name, value in found.items()]
