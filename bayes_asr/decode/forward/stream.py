"""Streaming: log-likelihoods of utterances that arrive in chunks."""

from collections.abc import Callable, Mapping

import numpy as np
from torch import Tensor

from bayes_asr.data.features.streaming import StreamingFeatures
from bayes_asr.decode.forward.interface import StreamFeatures
from bayes_asr.nn.network import States

Advance = Callable[[np.ndarray, States], tuple[Tensor, States]]
"""(prepared features [T, F'], states before) -> (log-likelihoods [T, P], states after)."""

NormaliseSpeaker = Callable[[StreamFeatures], Mapping[str, np.ndarray]]
"""Features [T, F] -> those of each stream after CMVN by the speaker's statistics."""


class StreamingLogLikelihoods:
    """Log-likelihoods of one utterance after another, chunk by chunk, as of the whole utterance.

    A chunk may have any number of frames, none too. Where the run appends deltas or context, a
    frame is computed when `latency` further ones are there, and `finish` gives the rest. Chunks of
    a network that reads several streams of features are mappings by name; what comes later in one
    of them is waited for. Streams of one network do not know of each other.
    """

    def __init__(
        self, advance: Advance, normalise_speaker: NormaliseSpeaker, arriving: StreamingFeatures
    ) -> None:
        self._advance, self._arriving = advance, arriving
        self._normalise_speaker = normalise_speaker
        self.reset()

    @property
    def latency(self) -> int:
        """The frames by which log-likelihoods are behind the features."""
        return self._arriving.latency

    def __call__(self, features: StreamFeatures) -> Tensor:
        """Take the next features [T, F]; return the log-likelihoods that are known now [T', P]."""
        return self._compute(self._arriving.push(self._normalise_speaker(features)))

    def finish(self) -> Tensor:
        """End the utterance: return its last log-likelihoods [T', P]. The next one may begin."""
        try:
            return self._compute(self._arriving.finish())
        finally:
            self.reset()

    def reset(self) -> None:
        """Forget the utterance. The next one may begin."""
        self._arriving.reset()
        self._states: States = []

    def _compute(self, ready: np.ndarray) -> Tensor:
        loglikes, self._states = self._advance(ready, self._states)
        return loglikes
