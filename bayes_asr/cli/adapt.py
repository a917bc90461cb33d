"""bayes-asr adapt: a run whose activations have parameters of their own for each speaker."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import appearing, require_empty
from bayes_asr.base.log import LOGGER
from bayes_asr.cli.arguments import key, positive
from bayes_asr.cli.combine import read_with_settings
from bayes_asr.config.inputs import LabelledSetConfig
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.sets import open_set
from bayes_asr.data.targets.alignments import Alignments, check_transitions
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.side_files import BEST, CONFIG
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.run_model import copy_environment, locate_model
from bayes_asr.train.runs.trained_network import TrainedNetwork, read_network
from bayes_asr.train.speaker_adaptation import adapt, check_adaptable

SETS = ("train", "dev", "test")
rate = key("train.learning_rate")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run with trained activations")
    parser.add_argument(
        "--ali",
        action="append",
        required=True,
        type=_alignments,
        metavar="SET=DIR",
        help="alignments of train, dev or test, such as those of hypotheses; one of each",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a key of data, other than in RUN",
    )
    parser.add_argument("--out", required=True, type=Path, metavar="RUN", help="new run directory")
    parser.add_argument("--steps", type=positive, default=20, help="of Adam; default 20")
    parser.add_argument("--learning-rate", type=rate, default=0.003, help="default 0.003")


def _alignments(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if name not in SETS or not (equals and path):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not SET=DIR, as in test=exp/ali_test")
    return name, Path(path)


def run(args: argparse.Namespace) -> None:
    """Write the configuration, and the best network with the parameters of each speaker."""
    require_empty(args.out)
    network = read_network(args.run)
    check_adaptable(network.model)
    config = read_with_settings(args.run, args.set, ("data.",))
    if len(names := [name for name, _ in args.ali]) > len({*names}):
        raise InputError(f"--ali: one folder of each set, not of {', '.join(names)}")
    adapted: dict[str, Mapping[str, Tensor]] = {}
    for name, path in args.ali:
        data = open_set(_with_alignments(config, name, path), name)
        _check_fits(args.run, config, network, data)
        of_set = adapt(network, data, steps=args.steps, learning_rate=args.learning_rate)
        if twice := name_some(sorted(of_set.keys() & adapted)):
            LOGGER.warning("%s: the activations adapted to it replace those of %s", name, twice)
        adapted |= of_set
    speakers = {**network.speakers, **adapted}
    with appearing(args.out):
        config.save(args.out / CONFIG)
        copy_environment(args.run, args.out)
        checkpoint.save(args.out / BEST, replace(network, speakers=speakers).content())
    LOGGER.info("wrote the activations of %d speakers to %s", len(speakers), args.out)


def _with_alignments(config: Config, name: str, path: Path) -> Config:
    """The configuration, where a set has the alignments of one directory, and no other labels."""
    sets = {
        labelled: replace(getattr(config.data, labelled), labels={}, labels_all_of={})
        for labelled in ("train", "dev")
    }
    set_config = replace(sets.get(name, config.data.test), alignments=(str(path.absolute()),))
    if isinstance(set_config, LabelledSetConfig):
        set_config = replace(set_config, alignments_all_of=())
    return replace(config, data=replace(config.data, **{**sets, name: set_config}))


def _check_fits(run: Path, config: Config, network: TrainedNetwork, data: LabelledSet) -> None:
    """InputError where features or alignments are others than the network was trained on."""
    for name, features in data.streams.items():
        trained = network.front_ends[name].stored_size
        if features.dimensions != trained:
            utt = features.utterances[0]
            raise InputError(
                f"{features.where(utt)}: {utt} has {features.dimensions} dimensions, but the"
                f" network reads {trained}; extract all features alike"
            )
    alignments = [part for part in data.first_labels.parts if isinstance(part, Alignments)]
    if alignments:
        path = locate_model(run, config)
        model = read_transition_model(path)
        for part in alignments:
            check_transitions(model, path, part)
