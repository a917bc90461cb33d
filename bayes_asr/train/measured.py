"""What the training data of a network say that its weights do not: normalisation and priors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from bayes_asr.corpus.labelled import LabelledSet
from bayes_asr.corpus.survey import Survey
from bayes_asr.features.front_end import FrontEnd
from bayes_asr.targets.alignments import log_priors


def complete_front_ends(
    data: LabelledSet, measured: Mapping[str, Survey | FrontEnd]
) -> dict[str, FrontEnd]:
    """What is done to each stream, by the statistics that a run was started with.

    All else is that of the data and the configuration, which are those of a saved run, so that a
    run that goes on writes the bytes that it would have written.
    """
    return {
        name: replace(
            features.front_end,
            normalisation=measured[name].normalisation,
            sound=features.sound,
        )
        for name, features in data.streams.items()
    }


def count_log_priors(data: LabelledSet, heads: Sequence[str]) -> tuple[Tensor, dict[str, Tensor]]:
    """Log priors of the labels of the first head, and of those of the others by name.

    Where the first learns values, its outputs stand for log-likelihoods, and its log priors are 0;
    the others have none.
    """
    first = data.targets[heads[0]]
    if first.per == "value":
        return torch.zeros(first.size, dtype=torch.float64), {}
    counts = {name: data.targets[name].count(data.lengths) for name in heads}
    priors = {name: torch.from_numpy(log_priors(some)) for name, some in counts.items()}
    return priors.pop(heads[0]), priors
