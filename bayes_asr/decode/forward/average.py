"""The average of several networks, each with a front end of its own."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from bayes_asr.base.errors import InputError
from bayes_asr.decode.forward.interface import (
    KINDS,
    LOG_LIKELIHOODS,
    CmvnStatistics,
    Matrix,
    StreamFeatures,
    name_streams,
)
from bayes_asr.train.runs.combination import Combination

UtteranceOutput = tuple[str, np.ndarray]
"""An utterance and its outputs [T, P]."""

AVERAGES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "log-posteriors": lambda logs_K, weights_K: (weights_K * logs_K.movedim(0, -1)).sum(-1),
    "posteriors": lambda logs_K, weights_K: (weights_K.log() + logs_K.movedim(0, -1)).logsumexp(-1),
}
"""Logarithms of the weighted mean of K networks, up to a constant, by the averaged quantity:
functions of logarithms [K, ...] and weights [K]."""


class AveragedNetwork(nn.Module):
    """Networks with the same pdfs: features [T, F] -> log-likelihoods of their average [T, P].

    The priors are those of the networks, averaged alike. The posteriors add up to 1 again.
    """

    weights: Tensor
    log_priors: Tensor

    def __init__(
        self, networks: Sequence[nn.Module], combination: Combination, kind: str | None = None
    ) -> None:
        """Take the networks of a combination, which give log-posteriors; kind: as in `Output`.

        InputError where they do not have the same number of pdfs.
        """
        super().__init__()
        self.runs, self.kind = combination.runs, kind or LOG_LIKELIHOODS
        self.average = AVERAGES[combination.average]
        self.networks = nn.ModuleList(networks)
        self.reads = [tuple(cast(Mapping[str, object], net.front_ends)) for net in networks]
        priors = [cast(Tensor, network.log_priors).double() for network in networks]
        for run, log_prior in zip(self.runs, priors, strict=True):
            self._check_same("pdfs", len(priors[0]), len(log_prior), run)
        weights = torch.tensor(combination.weights, dtype=torch.float64)
        self.register_buffer("weights", weights.to(priors[0].device))
        self.register_buffer("log_priors", self.average(torch.stack(priors), self.weights))

    def forward(
        self, features: StreamFeatures | None = None, cmvn: CmvnStatistics = None, **streams: Matrix
    ) -> Tensor:
        """Log-likelihoods [T, P] of one utterance [T, F], which all networks read.

        Of several streams, as in `LogLikelihoods.forward`, each network reads its own. InputError
        where they have outputs of other frames.
        """
        streams_read = dict.fromkeys(chain.from_iterable(self.reads))
        by_name = name_streams(streams_read, features, streams)
        pairs = zip(self.networks, self.reads, strict=True)
        computed = [net({name: by_name[name] for name in reads}, cmvn) for net, reads in pairs]
        for run, output in zip(self.runs, computed, strict=True):
            self._check_same("frames", len(computed[0]), len(output), run)
        return self.combine(computed)

    def combine(self, computed: Sequence[Tensor]) -> Tensor:
        """Log-likelihoods [T, P] by the log-posteriors of each network, each [T, P]."""
        # A geometric mean does not add up to 1 by itself: log_softmax normalises it.
        parts_KTP = torch.stack(list(computed)).to(self.weights)
        log_posteriors = self.average(parts_KTP, self.weights).log_softmax(-1)
        return KINDS[self.kind](log_posteriors, self.log_priors).float()

    def combine_utterances(
        self, computed: Sequence[Iterable[UtteranceOutput]]
    ) -> Iterator[UtteranceOutput]:
        """Yield utterances and the average [T, P] of the outputs of all networks."""
        for same in zip(*computed, strict=True):
            utt, reference = same[0]
            for run, (_, matrix) in zip(self.runs, same, strict=True):
                self._check_same(f"frames of {utt}", len(reference), len(matrix), run)
            yield utt, self.combine([torch.from_numpy(matrix) for _, matrix in same]).cpu().numpy()

    def check_utterances(self, listed: Sequence[Sequence[str]]) -> None:
        """InputError where networks do not have features of the same utterances."""
        for run, utterances in zip(self.runs, listed, strict=True):
            unmatched = sorted({*listed[0]} ^ {*utterances})
            if unmatched:
                raise InputError(
                    f"{self.runs[0]} has features of {len(listed[0])} utterances, {run} of"
                    f" {len(utterances)}: {unmatched[0]} is one that only one of them has"
                )

    def _check_same(self, what: str, expected: int, count: int, run: Path) -> None:
        if expected != count:
            raise InputError(
                f"{self.runs[0]} has {expected} {what}, but {run} has {count}; average networks of"
                " one model of the pdfs, on the same utterances"
            )
