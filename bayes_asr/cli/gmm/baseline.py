"""bayes-asr gmm baseline: the GMM that a network is compared with, decoded as the network is.

The GMM is final.mdl of the training alignments. It reads the network's own features, as they are:
those of Kaldi's make_fmllr_feats.sh. Graph, beams, LM weights and insertion penalties are the
recipe's; the acoustic scale of the search is that of GMMs, whose likelihoods vary more.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from bayes_asr.base.errors import InputError, count_of
from bayes_asr.base.processes.pool import open_pool
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.arguments import processes
from bayes_asr.cli.gmm.run_dir import write_run
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.data.directories import locate, locate_all
from bayes_asr.evaluate.score.run_scores import refuse_trained
from bayes_asr.gmm.decoding import FeatureTable, decode_data, make_job
from bayes_asr.gmm.models import SEARCH
from bayes_asr.tasks.task import task_of

BEAMS = ("beam", "lattice_beam", "max_active", "min_active")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the configuration, the folder and how it is done."""
    parser.add_argument("config", nargs="+", type=Path, metavar="CONFIG", help="of the networks")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one key")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--nj", type=processes, default=1, help="processes (default %(default)s)")
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in scp files")


def run(args: argparse.Namespace) -> None:
    """Decode dev and test, and make a run of the folder, for `bayes-asr score`."""
    refuse_trained(args.out)
    config = load(args.config, args.set)
    search = replace(SEARCH, **{name: getattr(config.decode, name) for name in BEAMS})
    model, graph = task_of(config).locate_model(), locate(config.data.graph, config.data, "graph")
    pipes = open_pipe if args.allow_pipes else None
    with open_pool(args.nj) as mapper:
        for name in ("dev", "test"):
            directory = args.out / f"decode_{name}"
            data, decode = locate_one(config, name), config.decode
            weights = decode.lm_weights, decode.insertion_penalties
            summary = decode_data(
                # The features of a recipe are already those that the model reads.
                FeatureTable(data, raw=True, moves=tuple(config.data.moves), open_pipe=pipes),
                make_job(data, graph, model.parent, search, *weights, mbr=decode.mbr),
                directory,
                max_skipped=config.data.max_skipped,
                mapper=mapper,
            )
            decoded = count_of(summary.utterances, "utterance")
            print(f"decoded {decoded}, {summary.frames} frames into {directory}")
    write_run(args.out, args.config, args.set)


def locate_one(config: Config, name: str) -> Path:
    """The data directory of a set; InputError where it is of several."""
    directory, *further = locate_all(config.data, name, "features")
    if further:
        raise InputError(
            f"{directory}: one of {len(further) + 1} directories of {name}, and a GMM decodes one;"
            f" name it as data.{name}.features"
        )
    return directory
