"""Inputs and outputs of a trained network: features by stream, layers, heads and their forms."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bayes_asr.base.errors import InputError, nearest

Matrix = Tensor | np.ndarray
StreamFeatures = Matrix | Mapping[str, Matrix]
"""Features [T, F] of the first stream, or of each, by name."""

CmvnStatistics = np.ndarray | Mapping[str, np.ndarray] | None
"""CMVN statistics [2, F+1] of the speaker: of the first stream, or of each, by name."""

Streams = Mapping[str, np.ndarray]
"""Features, or statistics of a speaker, by stream."""


def name_streams(
    streams: Collection[str], features: StreamFeatures | None, keywords: Mapping[str, Matrix]
) -> Mapping[str, Matrix]:
    """Features by the names of their streams; ValueError unless these are the `streams`."""
    by_name = features if isinstance(features, Mapping) else {next(iter(streams)): features}
    named_streams = {name: x for name, x in {**by_name, **keywords}.items() if x is not None}
    for name in named_streams:
        if name not in streams:
            raise ValueError(f"there is no stream {name}{nearest(name, streams)}")
    if missing := [name for name in streams if name not in named_streams]:
        raise ValueError(
            f"this network reads {', '.join(streams)}: pass {', '.join(missing)} too,"
            " in a mapping or by name"
        )
    return named_streams


LOG_LIKELIHOODS = "log-likelihoods"
OUTPUTS = "outputs"

KINDS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    LOG_LIKELIHOODS: torch.sub,
    "log-posteriors": lambda log_posteriors, _: log_posteriors,
    "posteriors": lambda log_posteriors, _: log_posteriors.exp(),
    OUTPUTS: lambda numbers, _: numbers,
}
"""Forms of an output: functions of log-posteriors [T, P] and log priors [P]; of a head of real
numbers, `OUTPUTS` is the only one."""


@dataclass(frozen=True)
class Output:
    """An output of a network: that of `layer`, or of `head` in the form `kind` (`KINDS`).

    head: by default the first one, which is decoded; kind: by default log-likelihoods, or
    `OUTPUTS` of a head of real numbers.
    """

    layer: str | None = None
    head: str | None = None
    kind: str | None = None

    def __post_init__(self) -> None:
        if self.layer and (self.head or self.kind):
            raise InputError("a layer has no head and no kind: give --layer, or --head and --kind")
        if self.kind not in (None, *KINDS):
            raise InputError(f"{self.kind} is no kind of output; known: {', '.join(KINDS)}")

    def choose_kind(self, head: str, *, of_numbers: bool) -> str:
        """The kind of output of this head; InputError for one that it does not have."""
        kinds = [kind for kind in KINDS if (kind == OUTPUTS) == of_numbers]
        if self.kind not in (None, *kinds):
            gives = "real numbers" if of_numbers else "probabilities of labels"
            raise InputError(
                f"head {head} gives {gives} and has no {self.kind}: take its {' or '.join(kinds)}"
                " by --kind of bayes-asr forward, or kind of bayes_asr.load"
            )
        return self.kind or kinds[0]


def name_archive(kind: str | None) -> str:
    """Name of the files of a kind of output, without .ark or .scp; Kaldi's for features."""
    if kind is None:
        return "feats"
    return "loglikes" if kind == LOG_LIKELIHOODS else kind.replace("-", "_")


DECODED = Output(kind=LOG_LIKELIHOODS)
"""Log-likelihoods of the first head, which decoding reads."""
