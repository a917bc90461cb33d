"""Scores of decoded texts, without a run around them."""

from collections.abc import Mapping

from bayes_asr.evaluate.score.counts import Costs
from bayes_asr.evaluate.score.phones import timit_map
from bayes_asr.evaluate.score.scores import Metric, Score
from bayes_asr.evaluate.score.sweeps import SetPaths, Sweep, TextSweep, score_sweeps


def score_texts(
    sets: Mapping[str, SetPaths],
    metric: Metric,
    costs: Costs = "sclite",
    phone_map: int | None = None,
    oracle: bool = False,
) -> dict[str, list[Score]]:
    """Score sets by name; `phone_map` folds TIMIT phones to 48 or 39 first."""
    phones = timit_map(phone_map) if phone_map else {}
    sweeps: dict[str, Sweep] = {
        name: TextSweep(name, paths, costs, phones) for name, paths in sets.items()
    }
    return score_sweeps(sweeps, metric, costs, oracle=oracle)
