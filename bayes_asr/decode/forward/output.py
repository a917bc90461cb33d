"""What is computed of a network: a layer, or one of its heads and how that is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bayes_asr.base.errors import InputError

LOG_LIKELIHOODS = "log-likelihoods"

KINDS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    LOG_LIKELIHOODS: torch.sub,
    "log-posteriors": lambda log_posteriors, _: log_posteriors,
    "posteriors": lambda log_posteriors, _: log_posteriors.exp(),
}
"""By name: what is made of log-posteriors [T, P] and log priors [P]."""


@dataclass(frozen=True)
class Output:
    """What is computed: the outputs of `layer`, or of `head` what `kind` says (`KINDS`).

    head: by default the first one, which is decoded.
    """

    layer: str | None = None
    head: str | None = None
    kind: str = LOG_LIKELIHOODS

    def __post_init__(self) -> None:
        if self.layer and (self.head or self.kind != LOG_LIKELIHOODS):
            raise InputError("a layer has no head and no kind: give --layer, or --head and --kind")
        if self.kind not in KINDS:
            raise InputError(f"{self.kind} is no kind of output; known: {', '.join(KINDS)}")

    @property
    def file(self) -> str:
        """Name of the files that it is written to, without .ark or .scp; Kaldi's for features."""
        if self.layer:
            return "feats"
        return "loglikes" if self.kind == LOG_LIKELIHOODS else self.kind.replace("-", "_")


DECODED = Output()
"""Log-likelihoods of the first head, which decoding reads."""
