"""Pitch and voicing of each frame (Ghahremani et al. 2014), as Kaldi computes them.

Names of the constants are those of the options of compute-kaldi-pitch-feats and
process-kaldi-pitch-feats, and their values the defaults there.
"""

from functools import cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from bayes_asr.base import elementary

LOWPASS_CUTOFF, LOWPASS_FILTER_WIDTH = 1000, 1  # Hz; zeros of the sinc on each side
RESAMPLE_FREQUENCY, UPSAMPLE_FILTER_WIDTH = 4000, 5  # Hz
FRAME_LENGTH, FRAME_SHIFT = 100, 40  # samples at RESAMPLE_FREQUENCY: 25 and 10 ms
MIN_F0, MAX_F0, SOFT_MIN_F0 = 50.0, 400.0, 10.0  # Hz
DELTA_PITCH = 0.005  # ratio of one lag to the next, less 1
PENALTY_FACTOR = 0.1  # of the squared change of the log pitch
NCCF_BALLAST = 7000.0
SLOWEST = 2 * LOWPASS_CUTOFF  # samples a second of sound that can be searched
POV_SCALE, PITCH_SCALE, DELTA_PITCH_SCALE = 2.0, 2.0, 10.0
NORMALIZATION_CONTEXT = 75  # frames on each side
DELTA_WINDOW = 2  # frames on each side

FIRST_LAG = int(np.ceil(RESAMPLE_FREQUENCY / MAX_F0 - UPSAMPLE_FILTER_WIDTH / 2))
LAST_LAG = int(RESAMPLE_FREQUENCY / MIN_F0 + UPSAMPLE_FILTER_WIDTH / 2)  # samples


def pitch_features(samples: np.ndarray, rate: int) -> np.ndarray:
    """Voicing, normalised log pitch and its derivative, float32 [T, 3]; samples: [N] at `rate` Hz.

    Kaldi adds random numbers of a deviation of 0.005 to the derivative; here they are left out
    (--delta-pitch-noise-stddev=0).
    """
    return process_pitch(track_pitch(samples, rate))


def track_pitch(samples: np.ndarray, rate: int) -> np.ndarray:
    """Normalised cross correlation at the pitch, and the pitch in Hz, float32 [T, 2]."""
    plain, ballasted = correlations(samples, rate)
    # Equation (5). Neighbouring lags often cost the same, and the rounding in Kaldi's single
    # precision decides, so the order of these operations matters.
    best = best_path((1 - ballasted) + SOFT_MIN_F0 * lags() * ballasted)
    return np.stack([plain[np.arange(len(best)), best], 1 / lags()[best]], axis=1)


@cache
def lags() -> np.ndarray:
    """The periods that are told apart, in seconds, float32; each is longer by DELTA_PITCH."""
    periods = [np.float32(1 / MAX_F0)]
    while (longer := np.float32(periods[-1] * (1 + DELTA_PITCH))) <= np.float32(1 / MIN_F0):
        periods.append(longer)
    return np.array(periods)


def sinc_window(offsets: np.ndarray, cutoff: float, zeros: int) -> np.ndarray:
    """A low-pass filter at times in seconds around its middle: a sinc under a Hann window."""
    window = 0.5 * (1 + elementary.cos(2 * np.pi * cutoff / zeros * offsets))
    window[np.abs(offsets) >= zeros / (2 * cutoff)] = 0
    sine = elementary.cos(2 * np.pi * cutoff * offsets - np.pi / 2)
    middle = offsets == 0
    return window * np.where(middle, 2 * cutoff, sine / (np.pi * np.where(middle, 1, offsets)))


def downsample(samples: np.ndarray, rate: int) -> np.ndarray:
    """The sound below LOWPASS_CUTOFF at RESAMPLE_FREQUENCY, [about N * 4000 / rate]."""
    width = LOWPASS_FILTER_WIDTH / (2 * LOWPASS_CUTOFF)  # seconds on each side
    reach = int(np.ceil(width * rate))
    divisor = int(np.gcd(rate, RESAMPLE_FREQUENCY))
    step, phases = rate // divisor, RESAMPLE_FREQUENCY // divisor
    sound = np.zeros(-(-len(samples) * phases // step))  # what lies within the sound
    padded = np.pad(samples.astype(float), (reach, reach + step))
    for phase in range(phases):
        # Output phase + k * phases lies `offset` of a sample behind sample start + k * step.
        start, offset = divmod(phase * rate / RESAMPLE_FREQUENCY, 1)
        taps = np.arange(-reach, reach + 1)
        weights = sinc_window((taps - offset) / rate, LOWPASS_CUTOFF, LOWPASS_FILTER_WIDTH) / rate
        outputs = sound[phase::phases]
        for tap, weight in enumerate(weights, int(start)):
            outputs += weight * padded[tap::step][: len(outputs)]
    return sound


def correlations(samples: np.ndarray, rate: int) -> tuple[np.ndarray, np.ndarray]:
    """The normalised cross correlations of each frame at all `lags`, float32 [T, lags]: as they
    are, and with the ballast that makes them small where it is quiet.
    """
    sound = downsample(samples, rate)
    frames = max((len(sound) - FRAME_LENGTH) // FRAME_SHIFT + 1, 0)
    if not frames:
        empty = np.empty((0, len(lags())), np.float32)
        return empty, empty
    # The last windows reach beyond the sound, into zeros.
    windows = sliding_window_view(np.pad(sound, (0, LAST_LAG)), FRAME_LENGTH + LAST_LAG)
    windows = windows[: frames * FRAME_SHIFT : FRAME_SHIFT]
    windows = windows - windows[:, :FRAME_LENGTH].mean(axis=1, keepdims=True)
    products = np.zeros((frames, LAST_LAG + 1 - FIRST_LAG))
    energies = products.copy()
    # The order of the sums is that of the samples, whatever the processor.
    for place in range(FRAME_LENGTH):
        later = windows[:, place + FIRST_LAG : place + LAST_LAG + 1]
        products += windows[:, place, None] * later
        energies += later * later
    energies *= np.square(windows[:, :FRAME_LENGTH]).sum(axis=1, keepdims=True)
    ballast = (sound.var() * FRAME_LENGTH) ** 2 * NCCF_BALLAST
    # Where a window is silent its products are 0 too.
    plain, ballasted = (
        upsample(products / np.sqrt(np.where(squares > 0, squares, 1)))
        for squares in (energies, energies + ballast)
    )
    return plain, ballasted


def upsample(measured: np.ndarray) -> np.ndarray:
    """Correlations at whole samples, [T, measured], as they are at `lags`, float32 [T, lags]."""
    places = lags().astype(float) * RESAMPLE_FREQUENCY - FIRST_LAG
    last = measured.shape[1] - 1
    values = np.zeros((len(measured), len(places)))
    # At half the frequency the filter has a zero at each sample, as many as its width on each side.
    for tap in range(2 * UPSAMPLE_FILTER_WIDTH):
        samples = np.ceil(places).astype(int) - UPSAMPLE_FILTER_WIDTH + tap
        offsets = (places - samples) / RESAMPLE_FREQUENCY
        weights = sinc_window(offsets, RESAMPLE_FREQUENCY / 2, UPSAMPLE_FILTER_WIDTH)
        weights[(samples < 0) | (samples > last)] = 0
        values += measured[:, np.clip(samples, 0, last)] * (weights / RESAMPLE_FREQUENCY)
    return values.astype(np.float32)


def best_path(costs: np.ndarray) -> np.ndarray:
    """The lag of each frame on the cheapest path, [T]; costs: float32 [T, lags].

    Viterbi's algorithm; a step of d lags costs PENALTY_FACTOR (d log(1 + DELTA_PITCH))^2.
    """
    places = np.arange(costs.shape[1])
    steps = np.square(places[:, None] - places).astype(np.float32)
    steps *= np.float32(PENALTY_FACTOR * elementary.log(1 + DELTA_PITCH) ** 2)
    forward, sources = np.zeros(len(places), np.float32), np.empty(costs.shape, np.int32)
    for frame, cost in enumerate(costs):
        paths = steps + forward  # from each lag of the frame before, in columns
        sources[frame] = paths.argmin(axis=1)
        forward = paths[places, sources[frame]] + cost
        forward -= forward.min()
    best = np.empty(len(costs), np.int32)
    place = forward.argmin()
    for frame in range(len(costs) - 1, -1, -1):
        best[frame] = place
        place = sources[frame, place]
    return best


def process_pitch(tracked: np.ndarray) -> np.ndarray:
    """Features float32 [T, 3] of `track_pitch`'s output: voicing, log pitch less its mean around
    the frame, weighted by the probability of voicing, and the derivative of the log pitch.
    """
    correlation, pitch = tracked.astype(float).T
    nccf, log_pitch = np.clip(correlation, -1, 1), elementary.log(pitch)
    voicing = POV_SCALE * (elementary.power(1.0001 - nccf, 0.15) - 1)
    weights = probability_of_voicing(nccf)
    means = sum_around(weights * log_pitch) / sum_around(weights)
    frames = np.arange(len(log_pitch))
    slopes = np.zeros(len(log_pitch))
    for away in range(1, DELTA_WINDOW + 1):
        ahead, behind = np.minimum(frames + away, frames[-1:]), np.maximum(frames - away, 0)
        slopes += away * (log_pitch[ahead] - log_pitch[behind])
    deltas = slopes / (2 * sum(away**2 for away in range(1, DELTA_WINDOW + 1)))
    columns = (voicing, PITCH_SCALE * (log_pitch - means), DELTA_PITCH_SCALE * deltas)
    return np.stack(columns, axis=1).astype(np.float32)


def probability_of_voicing(nccf: np.ndarray) -> np.ndarray:
    """p(voiced) of a normalised cross correlation; Kaldi's fit to the Keele database."""
    size = np.abs(nccf)
    odds = -5.2 + 5.4 * elementary.exp(7.5 * (size - 1)) + 4.8 * size
    odds += -2 * elementary.exp(-10 * size) + 4.2 * elementary.exp(20 * (size - 1))
    return 1 / (1 + elementary.exp(-odds))


def sum_around(values: np.ndarray) -> np.ndarray:
    """The sum of NORMALIZATION_CONTEXT values on each side of each value, and its own, [T]."""
    sums = np.concatenate([[0], np.cumsum(values)])
    frames = np.arange(len(values))
    ends = np.minimum(frames + NORMALIZATION_CONTEXT + 1, len(values))
    return sums[ends] - sums[np.maximum(frames - NORMALIZATION_CONTEXT, 0)]
