"""A run decoded with a second graph, in a folder that is scored as a run of its own."""

import json
from collections.abc import Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, real_path
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.config.schema import Config
from bayes_asr.decode.forward.network_record import check_network, read_network_record
from bayes_asr.decode.lattices.paths import pair_weights
from bayes_asr.decode.search.archive import decode_archive
from bayes_asr.decode.search.job import DecodeJob
from bayes_asr.evaluate.score.run_scores import SETS, refuse_trained
from bayes_asr.kaldi_io.side_files import CONFIG
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.run_model import copy_environment, locate_model


def decode_with(
    graph: Path, run: Path, out: Path, settings: Sequence[str] = (), nj: int = 1
) -> Config:
    """Decode the log-likelihoods of a run's sets with `graph` into `out`; its configuration there.

    settings: of that configuration, such as `score.text=words`. InputError where `out` has a
    network, this run's or another's, or is a data directory, or the log-likelihoods of dev are not
    there.
    """
    if real_path(out) == real_path(run):
        raise InputError(f"{out}: is the run; --out names another folder")
    refuse_trained(out)
    if is_there(out / "utt2spk"):
        raise InputError(f"{out}: is a data directory; --out names a folder of its own")
    second = f"data.graph={json.dumps([str(graph.absolute())])}"
    config = read_configuration(run, [*settings, second])
    model = locate_model(run, config)
    search = SearchOptions.from_config(config.decode, allow_partial=True)
    grid = tuple(pair_weights(config.decode.lm_weights, config.decode.insertion_penalties))
    for name in SETS:
        loglikes = run / f"forward_{name}" / "loglikes.ark"
        if is_there(loglikes):
            job = DecodeJob(str(loglikes), graph, model, search, grid, nj, mbr=config.decode.mbr)
            record = read_network_record(loglikes)
            again = f"run bayes-asr forward {run} --on {name} again"
            check_network(run, record, loglikes, again)
            decode_archive(job, out / f"decode_{name}", entries=record)
        elif name == "dev":
            raise InputError(f"{loglikes}: not there; run bayes-asr forward {run} --on dev first")
    config.save(out / CONFIG)
    copy_environment(run, out)
    return config
