"""bayes-asr denlats: denominator lattices of a set, for MMI, MPE and sMBR."""

import argparse
from functools import partial
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.arguments import key, processes, whole
from bayes_asr.cli.sharing import Inputs, kept_results, list_inputs
from bayes_asr.config.decoding_keys import SEARCH_KEYS, SearchOptions
from bayes_asr.data.corpus.sets import is_labelled
from bayes_asr.tasks.lattices.denlats import ORDER, SEARCH, write_denlats, write_weak_graph
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.run_model import locate_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments; names and defaults are those of Kaldi's make_denlats.sh."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run that decodes")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--lang",
        type=Path,
        help="lang folder of which a graph is made, with a model of the training text (OUT/graph)",
    )
    source.add_argument("--graph", type=Path, help="graph folder of a weak language model")
    parser.add_argument(
        "--order", type=whole(1, 10), help=f"of the model that --lang makes (default {ORDER})"
    )
    parser.add_argument(
        "--on",
        nargs="+",
        choices=("train", "dev"),
        help="default: both; where dev has no alignments, and is speakers held out of train, train",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of OUT/train and OUT/dev")
    for name in SEARCH_KEYS:
        usual = "that of the run's decoding"
        if name != "acoustic_scale":
            usual = SEARCH.get(name, getattr(SearchOptions, name))
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=key(f"decode.{name}"), help=f"default: {usual}")
    parser.add_argument("--nj", type=processes, default=1, help="processes")
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in scp files")


def run(args: argparse.Namespace) -> None:
    """Write the graph and the lattices, and say what to set."""
    graph = args.graph or args.out / "graph"
    if args.lang:
        write_weak_graph(args.run, args.lang, graph, args.order or ORDER)
    elif args.order:
        raise InputError("--order is of the model that --lang makes; leave it out with --graph")
    search = {name: vars(args)[name] for name in SEARCH_KEYS if vars(args)[name] is not None}
    config = read_configuration(args.run)
    for on in args.on or ["train", *["dev"] * is_labelled(config, config.data.dev)]:
        directory = args.out / on
        summary = write_denlats(
            args.run,
            on,
            graph,
            directory,
            nj=args.nj,
            open_pipe=open_pipe if args.allow_pipes else None,
            kept=kept_results(args, directory, partial(_list_inputs, args, on)),
            **search,
        )
        lattices = summary.utterances - len(summary.empty)
        print(
            f"{lattices} of {summary.utterances} utterances have a lattice:"
            f" data.{on}.lattices={[str(directory.absolute())]}"
        )


def _list_inputs(args: argparse.Namespace, on: str) -> Inputs:
    """What lattices depend on: the run and its set, and the graph or what it is made of anew."""
    model = locate_model(args.run, read_configuration(args.run))
    further = [model, model.parent / "tree", *(args.graph or args.lang).rglob("*")]
    text = [] if args.graph else list_inputs(args.run, None, "train").files
    return list_inputs(args.run, None, on, [*text, *sorted(filter(Path.is_file, further))])
