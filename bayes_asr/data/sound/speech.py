"""Speech in long sound: probabilities by silero-vad; segments, by probabilities of any source."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.data.sound.audio import FULL_SCALE, Span, resample

RATE = 16000  # Hz, of silero-vad
WINDOW = 512  # samples that it judges at once
SMOOTHING = 0.1  # seconds over which the best place for a cut is sought


@dataclass(frozen=True)
class SegmentOptions:
    """Options of the detection of speech and of its segments; times in seconds.

    onset, offset: probabilities at which speech begins, and below which it ends; pause: a shorter
    one is inside a segment; shortest: of a segment; padding: at its ends; longest: beyond it a
    segment is cut where speech is least probable, in its second half.
    """

    onset: float = 0.5
    offset: float = 0.35
    pause: float = 0.5
    shortest: float = 0.25
    padding: float = 0.2
    longest: float = 30.0


def find_segments(
    probabilities: Iterable[np.ndarray], step: float, options: SegmentOptions = SegmentOptions()
) -> Iterator[Span]:
    """Yield the segments of speech by its probability [n] in frames of `step` seconds.

    No more of them is in memory than of the longest segment.
    """
    least, padding = options.shortest / step, options.padding
    held: Span | None = None  # a segment whose end is padded when the next begin is known
    reach = 0.0  # the end of the one before, padded
    cut = -1  # the end of the run before
    for begin, end in _join(_find_speech(probabilities, step, options), step, options):
        # What is left of a run that was cut is speech, however short.
        is_rest, cut = begin == cut, end
        if end - begin < least and not is_rest:
            continue
        if held:
            # Between two segments each has at most half of the gap.
            room = min(padding, (begin * step - held[1]) / 2)
            reach = held[1] + room
            yield held[0], reach
        start = begin * step
        held = max(start - padding, reach, 0.0 if not held else (start + held[1]) / 2), end * step
    if held:
        yield held[0], held[1] + padding


def _join(
    runs: Iterable[tuple[int, int]], step: float, options: SegmentOptions
) -> Iterator[tuple[int, int]]:
    """Join runs of frames without a pause between, as long as they last no longer than allowed."""
    held: tuple[int, int] | None = None
    for begin, end in runs:
        if (
            held
            and (begin - held[1]) * step < options.pause
            and (end - held[0]) * step <= options.longest
        ):
            held = held[0], end
            continue
        if held:
            yield held
        held = begin, end
    if held:
        yield held


def _find_speech(
    probabilities: Iterable[np.ndarray], step: float, options: SegmentOptions
) -> Iterator[tuple[int, int]]:
    """Yield runs of frames of speech by two thresholds, cut where they are too long."""
    longest = max(2, int(options.longest / step))
    run: list[float] = []  # of the run that goes on
    frame = 0
    for block in probabilities:
        for probability in block.tolist():
            if probability >= (options.offset if run else options.onset):
                run.append(probability)
            elif run:
                yield frame - len(run), frame
                run = []
            frame += 1
            if len(run) == longest:
                cut = _find_cut(np.array(run), step)
                yield frame - longest, frame - longest + cut
                run = run[cut:]
    if run:
        yield frame - len(run), frame


def _find_cut(run: np.ndarray, step: float) -> int:
    """The frame of a run [n] around which speech is least probable, in its second half."""
    width = max(1, round(SMOOTHING / step))
    # A sum over `width` frames around each, in one order on every processor.
    padded = np.pad(run, (width // 2, width - 1 - width // 2))
    smooth = np.sum([padded[shift : shift + len(run)] for shift in range(width)], axis=0)
    half = len(run) // 2
    return half + int(smooth[half : len(run) - width // 2].argmin())


def load_detector(otherwise: str) -> Any:
    """The network of silero-vad; InputError that says how to get it, or which segmenter to take."""
    try:
        # The import would set one thread for good, and torch warns of the form of the network.
        with _one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            from silero_vad import load_silero_vad

            return load_silero_vad()
    except ImportError as error:
        raise InputError(
            f"finding speech needs silero-vad: pip install silero-vad ({error}); or take"
            f" --segments {otherwise}"
        ) from None


def detect_speech(blocks: Iterable[np.ndarray], rate: int, detector: Any) -> Iterator[np.ndarray]:
    """Yield probabilities [n] of speech in windows of WINDOW samples at RATE, by silero-vad.

    blocks: samples [n] of `rate` Hz, one after the other.
    """
    detector.reset_states()
    waiting = np.empty(0, np.float32)
    for block in blocks:
        samples = block / FULL_SCALE
        if rate != RATE:
            samples = resample(samples, rate, RATE)
        waiting = np.concatenate([waiting, samples])
        complete = len(waiting) // WINDOW * WINDOW
        windows = torch.from_numpy(waiting[:complete].reshape(-1, WINDOW))
        with torch.no_grad(), _one_thread():
            probabilities = np.array([float(detector(window, RATE)) for window in windows])
        yield probabilities
        waiting = waiting[complete:]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch compute by one thread: a window is too short for more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
