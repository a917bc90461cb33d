"""The front end of recordings: whom it adapts to."""

from collections.abc import Callable, Mapping

import numpy as np

from bayes_asr.data.features.front_end import cmvn_statistics
from bayes_asr.decode.recordings import RecordingFrontEnd


class MeanAdapter:
    """An adapter that, as that of fMLLR, knows a speaker by the statistics of his cepstra."""

    def estimate(
        self, speaker: str, cepstra: Mapping[str, np.ndarray]
    ) -> Callable[[np.ndarray], np.ndarray]:
        statistics = cmvn_statistics(cepstra.values())
        mean = statistics[0, :-1] / statistics[0, -1]
        return lambda x: x - mean


def test_nobody_is_adapted_to_where_no_speech_is_found() -> None:
    front_end = RecordingFrontEnd({}, {}, {"features": MeanAdapter()})
    speaker = front_end.estimate("silence.wav", [])
    assert (speaker.adapted, speaker.statistics) == ({}, {})
