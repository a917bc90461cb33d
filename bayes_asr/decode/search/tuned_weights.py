"""The LM weight and the insertion penalty that dev chose."""

from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.base.log import LOGGER
from bayes_asr.config.decoding_keys import DecodeConfig, SearchOptions
from bayes_asr.decode.lattices.paths import Weights
from bayes_asr.decode.search.search_record import (
    Record,
    describe_differences,
    describe_search,
    has_same_graph,
)
from bayes_asr.evaluate.score.scores import read_scores


def choose_weights(
    run: Path, graph: Path, decode: DecodeConfig, network: Record, *, is_other: bool
) -> Weights:
    """The LM weight and the penalty that dev chose with this graph, for the first convention.

    Where dev was decoded with another one, its choice says nothing: those of the search then.
    network: the record of the run's; is_other: whether the graph is not the run's own.
    """
    path = run / "score_dev.json"
    is_scored = is_there(path)
    if not is_scored and not is_other:
        raise InputError(
            f"{path}: no LM weight is chosen on dev yet; score the run, or give --lmwt"
        )
    default = 1 / decode.acoustic_scale, 0.0
    description = f"LM weight {default[0]:g} (1 / decode.acoustic_scale) and penalty 0 with {graph}"
    if not is_scored:
        LOGGER.warning("%s: no LM weight is chosen on dev; --lmwt gives another", description)
        return default
    score = read_scores(path)[0]
    tuned = float(score.lm_weight or 0.0), float(score.insertion_penalty or 0.0)
    # Weights are tuned on one graph; other beams matter little, and are only named.
    search = SearchOptions.from_config(decode, allow_partial=True)
    now = {**describe_search(graph, search, mbr=decode.mbr), **network}
    if score.decoded and not has_same_graph(score.decoded, now):
        LOGGER.warning(
            "%s: dev chose %g with another graph, %s; --lmwt gives another",
            *(description, tuned[0], score.decoded.get("graph")),
        )
        return default
    if not score.decoded and is_other:
        LOGGER.warning(
            "%s: %s does not say with which graph dev chose %g", *(description, path, tuned[0])
        )
        return default
    differences = describe_differences(score.decoded, now) if score.decoded else ""
    if differences:
        LOGGER.warning(
            "dev chose LM weight %g with other settings: %s; decode and score dev again",
            *(tuned[0], differences),
        )
    return tuned
