"""bayes-asr classify: which class each utterance is of, and how often that is wrong."""

import argparse
import json
from importlib.util import find_spec
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.sharing import add_set_arguments, gather_streams
from bayes_asr.data.directories import locate_all
from bayes_asr.decode.forward.directory import StreamSource
from bayes_asr.decode.forward.network_record import describe_network
from bayes_asr.evaluate.decoded.classes import check_decisions, classify, read_classes
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.trained_network import read_network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run that learns data.classes")
    add_set_arguments(parser, "classify", "classes")
    parser.add_argument(
        "--attention",
        metavar="LAYER",
        help="also write how much each frame weighs in this layer, which pools by attention",
    )
    parser.add_argument(
        "--draw",
        nargs="+",
        default=[],
        metavar="UTTERANCE",
        help="with --attention: draw the weights of these above their features",
    )
    parser.add_argument("--json", action="store_true", help="print figures as JSON")


def run(args: argparse.Namespace) -> None:
    """Write posteriors and decisions and, where the classes are known, count errors and print."""
    if args.data and not args.out:
        raise InputError("--data needs --out, the folder to write")
    if args.draw and not args.attention:
        raise InputError("--draw draws the weights of a layer: give --attention LAYER")
    if args.draw and find_spec("matplotlib") is None:
        raise InputError("--draw needs matplotlib: pip install matplotlib")
    out = args.out or args.run / f"classify_{args.on}"
    record, network = describe_network(args.run), read_network(args.run)
    if not network.classes:
        raise InputError(
            f"{args.run}: this run learns labels of frames; classify is for runs that were trained"
            " with data.classes"
        )
    pipes, on = open_pipe if args.allow_pipes else None, args.on or ""
    source = StreamSource(args.data, gather_streams(args), on, args.max_skipped, pipes)
    decisions = classify(args.run, network, source, out, args.attention, args.draw)
    config = read_configuration(args.run)
    directories = [args.data] if args.data else locate_all(config.data, args.on, "features")
    file = task_of(config).labels.file
    classes = read_classes(directories, file)
    if classes:
        folder = args.out or args.run
        score_file = folder / (f"score_{args.on}.json" if args.on else "score.json")
        result = check_decisions(decisions, classes, directories, config.score, args.on)
        result.write(out / "identified.json", score_file, config.score.cluster, record)
        if args.json:
            print(json.dumps(result.as_dict(), indent=1))
        else:
            print("\n".join(result.lines(args.on or str(args.data))))
    elif not args.json:
        print(f"{out}: {len(decisions.numbers)} decisions; there is no {file} to compare with")
