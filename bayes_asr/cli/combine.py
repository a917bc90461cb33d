"""bayes-asr combine: a run of the networks of other runs: their average, or another head."""

import argparse
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import appearing, replacing, require_empty
from bayes_asr.base.log import LOGGER
from bayes_asr.cli.arguments import real
from bayes_asr.config.schema import Config, differences
from bayes_asr.decode.forward.average import AveragedNetwork
from bayes_asr.decode.forward.interface import DECODED
from bayes_asr.decode.forward.log_likelihoods import load_members
from bayes_asr.evaluate.report.runs import read_environment
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.side_files import CONFIG, ENVIRONMENT, TRANSITIONS
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.combination import AVERAGED, Combination
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.run_model import read_transitions

CHANGEABLE = ("data.", "decode.", "score.")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run of a network")
    parser.add_argument("--out", required=True, type=Path, metavar="RUN", help="new run directory")
    parser.add_argument("--head", metavar="TARGET", help="by default the first, which is decoded")
    parser.add_argument(
        "--average", choices=AVERAGED, default=AVERAGED[0], help="default: %(default)s"
    )
    parser.add_argument(
        "--weights",
        type=real(1e-6, 1e6),
        nargs="+",
        default=[],
        metavar="W",
        help="one for each RUN, scaled to add up to 1 (default: all the same)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a key of data, decode or score, other than in the first RUN",
    )


def run(args: argparse.Namespace) -> None:
    """Write config.yaml, networks.json and env.json: forward, decode, score take it as a run."""
    require_empty(args.out)
    combination = Combination.of(args.runs, args.weights, args.average, args.head)
    averaged = AveragedNetwork(load_members(combination, DECODED), combination, DECODED.kind)
    config = _configure(args.runs[0], args.head, args.set)
    # Log-likelihoods of the first head are averaged pdf by pdf, so a pdf must mean one thing.
    if not args.head:
        _check_models(args.runs)
    parameters = sum(p.numel() for p in averaged.parameters())
    environment = {"parameters": parameters, "frontend": None, **_find_front_ends(args.runs)}
    noted = read_transitions(args.runs[0])
    if noted and not _labels_of(args.head):
        environment[TRANSITIONS] = noted
    with appearing(args.out):
        config.save(args.out / CONFIG)
        combination.save(args.out)
        with replacing(args.out / ENVIRONMENT) as temporary:
            temporary.write_text(json.dumps(environment, indent=1) + "\n", encoding="utf-8")
    LOGGER.info("%d parameters of %d networks; written to %s", parameters, len(args.runs), args.out)


def read_with_settings(run: Path, settings: Sequence[str], begins: tuple[str, ...]) -> Config:
    """Read the configuration of a run with settings; InputError for a key that begins otherwise."""
    config = read_configuration(run, settings)
    for key in differences(read_configuration(run), config):
        if not key.startswith(begins):
            raise InputError(
                f"--set {key}: the network is trained; what may be set begins with"
                f" {', '.join(begins)}"
            )
    return config


def _configure(run: Path, head: str | None, settings: Sequence[str]) -> Config:
    """The configuration of a run with what is set; InputError for what nothing here depends on.

    Where a head of other labels is decoded, their model is that of the graph, which must be named.
    """
    config = read_with_settings(run, settings, CHANGEABLE)
    changed = differences(read_configuration(run), config)
    labels = _labels_of(head)
    if labels and "data.graph" not in changed:
        raise InputError(
            f"{head}: its pdfs are those of another model than {config.data.graph} was made of;"
            " name its graph: --set data.graph=[DIR]"
        )
    if labels not in config.data.train.label_names:
        return config
    train = config.data.train
    train = replace(
        train,
        alignments=train.labels.get(labels, ()),
        alignments_all_of=train.labels_all_of.get(labels, ()),
    )
    return replace(config, data=replace(config.data, train=train))


def _labels_of(head: str | None) -> str:
    """The further labels that a head is of, which is called LABELS.KIND; empty for alignments."""
    return (head or "").rpartition(".")[0]


def _check_models(runs: Sequence[Path]) -> None:
    """InputError where models have other pdfs, as far as they are noted or still there."""
    noted = {run: known for run in runs if (known := read_transitions(run))}
    if len({*noted.values()}) > 1:
        raise InputError(
            f"{', '.join(map(str, noted))}: were trained with final.mdl of different transitions;"
            " average networks that were trained on alignments of one model"
        )
    models = []
    for run in runs:
        with suppress(OSError, InputError):
            path = task_of(read_configuration(run)).locate_model()
            models.append((path, read_transition_model(path)))
    for path, model in models[1:]:
        reference_path, reference = models[0]
        if not np.array_equal(model.tuples, reference.tuples):
            raise InputError(
                f"{path} ({model.num_pdfs} pdfs) has other transitions than {reference_path}"
                f" ({reference.num_pdfs} pdfs); average networks that were trained on alignments of"
                " one model"
            )


def _find_front_ends(runs: Sequence[Path]) -> dict[str, object]:
    """The front ends that made the features, where all runs say the same."""
    environments = [read_environment(run / ENVIRONMENT) for run in runs]
    keys = ("frontend", "frontends")
    front_ends = [{key: entry[key] for key in keys if key in entry} for entry in environments]
    return front_ends[0] if all(entry == front_ends[0] for entry in front_ends) else {}
