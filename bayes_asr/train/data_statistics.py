"""Statistics of the training data that belong to a network: normalisation and label priors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from bayes_asr.data.corpus.index import (
    Arrays,
    Index,
    NotKeptError,
    content_hash,
    hash_choice,
    name_of,
)
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.survey import Survey
from bayes_asr.data.features.front_end import FrontEnd
from bayes_asr.data.targets.target import Target, log_priors


def build_front_ends(
    data: LabelledSet, statistics: Mapping[str, Survey | FrontEnd]
) -> dict[str, FrontEnd]:
    """Front ends of the streams, with the statistics that a run was started with.

    All else is that of the data and the configuration, which are those of a saved run, so that a
    run that goes on writes the bytes that it would have written.
    """
    return {
        name: replace(
            features.front_end, normalisation=statistics[name].normalisation, sound=features.sound
        )
        for name, features in data.streams.items()
    }


def count_log_priors(
    data: LabelledSet, heads: Sequence[str], index: Index
) -> tuple[Tensor, dict[str, Tensor]]:
    """Log priors of the labels of the first head, and of those of the others by name.

    Where the first learns values or numbers, its log priors are 0, as its outputs need none;
    the others have none.
    """
    main = data.targets[heads[0]]
    if main.per == "value" or main.is_real:
        return torch.zeros(main.size, dtype=torch.float64), {}
    counts = _count_labels(data, heads, index)
    priors = {
        name: torch.from_numpy(log_priors(head_counts)) for name, head_counts in counts.items()
    }
    return priors.pop(heads[0]), priors


def _count_labels(data: LabelledSet, heads: Sequence[str], index: Index) -> Arrays:
    """Counts of the labels of each head, from the index or by reading all labels."""
    # The counts depend on the labels, on the targets that the heads make of them, and on the choice
    # of utterances. A change of any of these counts anew.
    label_sets = (data.first_labels, *data.further_labels.values())
    parts = [part for labels in label_sets for part in labels.parts]
    made_from = {
        **{str(part.directory): part.digest for part in parts},
        **{f"{name} (labels)": _describe(data.targets[name]) for name in heads},
    }

    def count(_: Path | None = None) -> Arrays:
        return {name: data.targets[name].count(data.lengths) for name in heads}

    key = name_of(*(part.directory for part in parts), *heads, hash_choice(data.lengths))
    # An index that cannot be written costs time, not the run.
    try:
        return index.of(f"counts-{key}", made_from, count, lambda _, counts: counts)
    except NotKeptError:
        return count()


def _describe(target: Target) -> str:
    return f"{target.size} {content_hash([repr(target.names).encode()])}"
