"""The front end of utterances whose features arrive in chunks."""

import math
from collections.abc import Mapping

import numpy as np

from bayes_asr.data.features.front_end import DELTA_WINDOW, FrontEnd, append_context


class StreamingFrontEnd:
    """`append_context` of one utterance after another, frame by frame as far as it can be known.

    order: of derivatives; left, right: frames of context. A frame is ready when `latency` further
    ones are there; what lies beyond the end of an utterance is known when it is over.
    """

    def __init__(self, *, order: int, left: int, right: int) -> None:
        self._shape = {"order": order, "left": left, "right": right}
        # A derivative of each order reaches DELTA_WINDOW frames further.
        self.latency = DELTA_WINDOW * order + right
        self._behind = DELTA_WINDOW * order + left
        self.reset()

    def reset(self) -> None:
        """Forget the utterance."""
        self._pending: np.ndarray | None = None  # frames that are still needed
        self._done = 0  # how many of them are ready already

    def push(self, matrix: np.ndarray) -> np.ndarray:
        """Copy the next features [T, F]; return the frames that are ready now [T', F'], T' >= 0."""
        frames = matrix.copy() if self._pending is None else np.concatenate((self._pending, matrix))
        # Frames before `end` have all the frames to their right that they need.
        end = len(frames) - self.latency
        self._pending = frames
        if end <= self._done:
            return frames[:0]
        # The frames at the edges of the buffer repeat its ends; those are not handed on.
        ready = append_context(frames, **self._shape)[self._done : end]
        # Keep as many finished frames as the next ones need to their left.
        self._done = min(end, self._behind)
        self._pending = frames[end - self._done :]
        return ready

    def finish(self) -> np.ndarray:
        """End the utterance: return its last frames [T', F'], T' >= 0."""
        frames, begin = self._pending, self._done
        self.reset()
        if frames is None or not len(frames):
            return np.empty((0, 0), np.float32)
        return append_context(frames, **self._shape)[begin:]


class StreamingFeatures:
    """The same of several streams together, at the frames of the first of them.

    front_ends: of each, by name. What has no counterpart in another stream yet is kept.
    """

    def __init__(self, front_ends: Mapping[str, FrontEnd]) -> None:
        self._streams = {
            name: (front_end, StreamingFrontEnd(**front_end.shape))
            for name, front_end in front_ends.items()
        }
        delays = (
            front_end.reach(streaming.latency) for front_end, streaming in self._streams.values()
        )
        # The reach of a stream of one vector an utterance may be infinite, and delays nothing.
        self.latency = max(int(delay) for delay in delays if delay < math.inf)
        self.reset()

    def reset(self) -> None:
        """Forget the utterance."""
        for _, streaming in self._streams.values():
            streaming.reset()
        self._ready: dict[str, np.ndarray] = {}  # prepared frames of each stream, as far as needed
        self._passed = dict.fromkeys(self._streams, 0)  # how many frames were before these
        self._frames = 0  # how many were handed on

    def push(self, features: Mapping[str, np.ndarray]) -> np.ndarray:
        """Take the next features [T_s, F_s] of each stream; return the frames that are ready now in
        all, side by side [T', F'].
        """
        for name, matrix in features.items():
            self._keep(name, self._streams[name][1].push(matrix))
        return self._hand_on()

    def finish(self) -> np.ndarray:
        """End the utterance: return its last frames [T', F'].

        ValueError where the streams do not end together.
        """
        try:
            for name, (_, streaming) in self._streams.items():
                self._keep(name, streaming.finish())
            totals = {name: self._count(name) for name in self._streams}
            reference, frames = next(iter(totals.items()))
            for name, (front_end, _) in self._streams.items():
                if any(totals.values()) and not front_end.fits(totals[name], frames):
                    raise ValueError(
                        f"{name} ended after {totals[name]} frames, which do not go with {frames}"
                        f" of {reference} at subsampling {front_end.subsampling}"
                    )
            return self._hand_on()
        finally:
            self.reset()

    def _keep(self, name: str, prepared: np.ndarray) -> None:
        if len(prepared):
            earlier = self._ready.get(name, prepared[:0])
            self._ready[name] = np.concatenate((earlier, prepared)) if len(earlier) else prepared

    def _count(self, name: str) -> int:
        """The number of frames of a stream that were ready so far."""
        return self._passed[name] + len(self._ready.get(name, ()))

    def _hand_on(self) -> np.ndarray:
        """The frames that all streams have, side by side [T', F']; forget what is not needed."""
        reaches = (end.reach(self._count(name)) for name, (end, _) in self._streams.items())
        begin, end = self._frames, int(min(reaches))
        if end <= begin:
            return np.empty((0, 0), np.float32)
        parts = []
        for name, (front_end, _) in self._streams.items():
            # One place more than is asked for tells the first frame that the next call needs.
            *places, needed = front_end.place(np.arange(begin, end + 1))
            ready, passed = self._ready[name], self._passed[name]
            parts.append(ready if len(self._streams) == 1 else ready[np.array(places) - passed])
            # A slower stream's frame that the next frames share is kept.
            self._passed[name] = min(needed, passed + len(ready))
            self._ready[name] = ready[self._passed[name] - passed :]
        self._frames = end
        return parts[0] if len(parts) == 1 else np.hstack(parts)
