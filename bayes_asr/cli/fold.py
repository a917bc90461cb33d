"""bayes-asr fold: a run whose network has no parameters in its activations any more."""

import argparse
from dataclasses import replace
from pathlib import Path

from bayes_asr.config import load
from bayes_asr.errors import InputError
from bayes_asr.log import LOGGER
from bayes_asr.nn.fold import fold
from bayes_asr.runs import checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run of an mlp")
    parser.add_argument("--out", required=True, type=Path, metavar="RUN", help="new run directory")


def run(args: argparse.Namespace) -> None:
    """Write the configuration and the best network, which gives the same log-likelihoods."""
    if args.out.exists() and any(args.out.iterdir()):
        raise InputError(f"{args.out}: is not empty; choose another folder")
    content = checkpoint.read(args.run / "best.pt")
    trained = checkpoint.built_model(content)
    architecture, plain = fold(trained)
    config = load([args.run / "config.yaml"])
    model = replace(
        config.model,
        activation=architecture["options"]["activation"],
        activation_trains=(),
        norm=architecture["norm"],
        dropout=architecture["dropout"],
    )
    args.out.mkdir(parents=True, exist_ok=True)
    replace(config, model=model).save(args.out / "config.yaml")
    checkpoint.save(
        args.out / "best.pt",
        {**content, "architecture": architecture, "model": plain.state_dict()},
    )
    before, after = (sum(p.numel() for p in net.parameters()) for net in (trained, plain))
    LOGGER.info("%d parameters, %d before; written to %s", after, before, args.out)
