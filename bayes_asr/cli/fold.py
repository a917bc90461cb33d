"""bayes-asr fold: a run whose network has no parameters in its activations any more."""

import argparse
from dataclasses import replace
from pathlib import Path

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.base.files import appearing, require_empty
from bayes_asr.base.log import LOGGER
from bayes_asr.kaldi_io.side_files import BEST, CONFIG
from bayes_asr.nn.fold import fold
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.trained_network import read_network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run of an mlp")
    parser.add_argument("--speaker", help="of whom the activations are, after bayes-asr adapt")
    parser.add_argument("--out", required=True, type=Path, metavar="RUN", help="new run directory")


def run(args: argparse.Namespace) -> None:
    """Write the configuration and the best network, which gives the same log-likelihoods."""
    require_empty(args.out)
    config = read_configuration(args.run)
    if config.model.stack:
        raise InputError(
            f"{args.run}: has model.stack; only networks of model.unit: mlp can be folded"
        )
    trained = read_network(args.run)
    if args.speaker is not None:
        if args.speaker not in trained.speakers:
            speakers = ", ".join(trained.speakers) or "none"
            raise InputError(
                f"{args.run}: has no activations of {args.speaker}"
                f"{nearest(args.speaker, trained.speakers)}; speakers: {speakers}"
            )
        trained.model.set_activations(trained.speakers[args.speaker])
    elif trained.speakers:
        LOGGER.warning("%s: what speakers have of their own is left out", args.run)
    plain = fold(trained.model)
    folded = replace(trained, model=plain, speakers={})
    # The configuration describes the plain network: what was folded into weights is gone from it.
    model = replace(
        config.model,
        activation=plain.architecture["layers"][0]["options"]["activation"],
        activation_trains=(),
        norm="none",
        dropout=0.0,
    )
    with appearing(args.out):
        replace(config, model=model).save(args.out / CONFIG)
        checkpoint.save(args.out / BEST, folded.content())
    num_before, num_after = (
        sum(p.numel() for p in net.parameters()) for net in (trained.model, plain)
    )
    LOGGER.info("%d parameters, %d before; written to %s", num_after, num_before, args.out)
