"""What the network reads of an utterance whose features arrive in chunks."""

import numpy as np

from bayes_asr.features.front_end import DELTA_WINDOW, append_context


class Arriving:
    """`append_context` of one utterance after another, frame by frame as far as it can be known.

    order: of derivatives; left, right: frames of context. A frame is ready when `latency` further
    ones are there; what lies beyond the end of an utterance is known when it is over.
    """

    def __init__(self, *, order: int, left: int, right: int) -> None:
        self._shape = {"order": order, "left": left, "right": right}
        self.latency = DELTA_WINDOW * order + right
        self._behind = DELTA_WINDOW * order + left
        self.reset()

    def reset(self) -> None:
        """Forget the utterance."""
        self._kept: np.ndarray | None = None  # frames that are still needed
        self._done = 0  # how many of them are ready already

    def push(self, matrix: np.ndarray) -> np.ndarray:
        """Copy the next features [T, F]; return the frames that are ready now [T', F'], T' >= 0."""
        kept = matrix.copy() if self._kept is None else np.concatenate((self._kept, matrix))
        end = len(kept) - self.latency
        self._kept = kept
        if end <= self._done:
            return kept[:0]
        ready = append_context(kept, **self._shape)[self._done : end]
        self._done = min(end, self._behind)
        self._kept = kept[end - self._done :]
        return ready

    def finish(self) -> np.ndarray:
        """End the utterance: return its last frames [T', F'], T' >= 0."""
        kept, done = self._kept, self._done
        self.reset()
        if kept is None or not len(kept):
            return np.empty((0, 0), np.float32)
        return append_context(kept, **self._shape)[done:]
