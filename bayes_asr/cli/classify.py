"""bayes-asr classify: which class each utterance is of, and how often that is wrong."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, replacing
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.sharing import add_set_arguments, gather_streams
from bayes_asr.config.schema import Config
from bayes_asr.data.directories import locate_all
from bayes_asr.data.targets.classes import check_class
from bayes_asr.decode.forward.attention import weigh_frames
from bayes_asr.decode.forward.directory import ForwardOptions, StreamSource, forward, open_source
from bayes_asr.decode.forward.interface import Output
from bayes_asr.decode.forward.log_likelihoods import load as load_network
from bayes_asr.evaluate.score.identification import ClassifiedUtterances
from bayes_asr.evaluate.score.scores import write_scores
from bayes_asr.kaldi_io.ark import iter_matrices, write_matrices
from bayes_asr.kaldi_io.text import read_mapping, write_mapping
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.trained_network import TrainedNetwork, read_network

POSTERIORS = Output(kind="log-posteriors")


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
    network = read_network(args.run)
    if not network.classes:
        raise InputError(
            f"{args.run}: this run learns labels of frames; classify is for runs that were trained"
            " with data.classes"
        )
    pipes, on = open_pipe if args.allow_pipes else None, args.on or ""
    source = StreamSource(args.data, gather_streams(args), on, args.max_skipped, pipes)
    forward(args.run, out, source, ForwardOptions(POSTERIORS))
    if args.attention:
        _write_attention(args, out, source)
    posteriors = dict(iter_matrices(out / f"{POSTERIORS.file}.ark"))
    decided = {utt: int(matrix[0].argmax()) for utt, matrix in posteriors.items()}
    names = network.classes
    write_mapping(((name, number) for number, name in enumerate(names)), out / "classes.txt")
    write_mapping(((utt, names[number]) for utt, number in decided.items()), out / "decisions")
    config = read_configuration(args.run)
    folders = [args.data] if args.data else locate_all(config.data, args.on, "features")
    given = _read_classes(folders, config)
    if given:
        found = _identify(network, posteriors, decided, given, folders)
        _report(args, out, config, found, folders)
    elif not args.json:
        file = task_of(config).labels.file
        print(f"{out}: {len(decided)} decisions; there is no {file} to compare with")


def _read_classes(folders: Sequence[Path], config: Config) -> dict[str, str]:
    """The classes that data directories tell; empty where they do not."""
    files = [folder / task_of(config).labels.file for folder in folders]
    return {
        utt: name for file in files if is_there(file) for utt, name in read_mapping(file).items()
    }


def _identify(
    network: TrainedNetwork,
    posteriors: Mapping[str, np.ndarray],
    decided: Mapping[str, int],
    given: Mapping[str, str],
    folders: Sequence[Path],
) -> ClassifiedUtterances:
    """What is known of decided utterances; InputError for one whose class is not."""
    for utt in decided:
        if utt not in given:
            raise InputError(f"{folders[0]}: {utt} has no class to compare with; write it there")
        check_class(given[utt], utt, folders[0], network.classes)
    numbers = {name: number for number, name in enumerate(network.classes)}
    return ClassifiedUtterances(
        network.classes,
        list(decided),
        np.concatenate(list(posteriors.values())) - network.log_priors.numpy(),
        np.array(list(decided.values())),
        np.array([numbers[given[utt]] for utt in decided]),
    )


def _report(
    args: argparse.Namespace,
    out: Path,
    config: Config,
    found: ClassifiedUtterances,
    folders: Sequence[Path],
) -> None:
    """Write what errors there are, and print a line of all and of each duration."""
    speakers = _read_all(folders, "utt2spk")
    durations: dict[float, ClassifiedUtterances] = {}
    if config.score.durations:
        seconds = {utt: float(length) for utt, length in _read_all(folders, "utt2dur").items()}
        durations = found.by_duration(seconds, config.score.durations)
    said: dict[str, Any] = {
        "set": args.on,
        **found.as_dict(),
        "durations": {f"{seconds:g}": some.as_dict() for seconds, some in durations.items()},
    }
    with replacing(out / "identified.json") as temporary:
        temporary.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n", "utf-8")
    scored = args.run / f"score_{args.on}.json" if args.on else out / "score.json"
    score = replace(found.score(args.on, speakers), cluster=config.score.cluster)
    write_scores([score], scored)
    if args.json:
        print(json.dumps(said, indent=1))
        return
    print(found.line(args.on or str(args.data)))
    for nominal, some in durations.items():
        print(some.line(f"{nominal:g} s"))


def _read_all(folders: Sequence[Path], table: str) -> dict[str, str]:
    return {utt: value for folder in folders for utt, value in read_mapping(folder / table).items()}


def _write_attention(args: argparse.Namespace, out: Path, source: StreamSource) -> None:
    """Write out/attention.{ark,scp}, and pictures."""
    network = load_network(args.run, output=POSTERIORS)
    features = open_source(args.run, network, source)
    for utt in args.draw:
        if utt not in features.utterances:
            raise InputError(f"--draw {utt}: there is no such utterance")
    archive = out / "attention.ark"
    weights = weigh_frames(network, features, args.attention)
    write_matrices(weights, archive, archive.with_suffix(".scp"))
    drawn = ((utt, matrix) for utt, matrix in iter_matrices(archive) if utt in args.draw)
    for utt, matrix in drawn:
        from bayes_asr.evaluate.report.figures import (
            draw_attention,  # which wants matplotlib
        )

        figure = draw_attention(utt, features.first.read(utt), matrix[:, 0])
        with replacing(out / f"attention_{utt}.svg") as temporary:
            figure.savefig(temporary, format="svg")
