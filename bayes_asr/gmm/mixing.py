"""More Gaussians by splitting the heaviest ones."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.gmm.randomness import Random
from bayes_asr.kaldi_io.mixtures import Mixtures

MIN_COUNT = 20.0  # frames for each Gaussian
PERTURBATION = 0.01  # of the standard deviation


@dataclass
class _Queued:
    """A pdf that waits for its next Gaussian; the one with most occupancy per Gaussian is first."""

    pdf: int
    gaussians: int
    occupancy: float

    def __lt__(self, other: "_Queued") -> bool:
        return self.occupancy / (self.gaussians + 1e-10) > other.occupancy / (
            other.gaussians + 1e-10
        )


def choose_sizes(
    occupancies: np.ndarray, target: int, power: float = 0.25, min_count: float = MIN_COUNT
) -> list[int]:
    """The number of Gaussians of each pdf, `target` in all (Kaldi's GetSplitTargets).

    occupancies [P]: frames of each pdf. Their `power` is divided as equally as can be, and no pdf
    gets more than one Gaussian for each `min_count` frames. Python's heap moves what is equal as
    that of the GNU C++ library does, so equal pdfs are served in Kaldi's order.
    """
    frames = np.asarray(occupancies, np.float32)
    queue: list[_Queued] = []
    for pdf, share in enumerate(elementary.power(frames, power).astype(np.float32).tolist()):
        heapq.heappush(queue, _Queued(pdf, 1, share))
    total = len(queue)
    while total < target and queue[0].occupancy:
        heaviest = heapq.heappop(queue)
        if (heaviest.gaussians + 1) * min_count >= frames[heaviest.pdf]:
            heaviest.occupancy = 0.0  # too few frames for one more: it goes to the end
        else:
            heaviest.gaussians += 1
            total += 1
        heapq.heappush(queue, heaviest)
    return [queued.gaussians for queued in sorted(queue, key=lambda queued: queued.pdf)]


def mix_up(
    mixtures: Mixtures,
    occupancies: np.ndarray,
    target: int,
    *,
    power: float = 0.25,
    min_count: float = MIN_COUNT,
    perturbation: float = PERTURBATION,
) -> Mixtures:
    """Split Gaussians until there are `target` (Kaldi's gmm-est --mix-up and gmm-mixup).

    occupancies [P]: frames of each pdf. The random numbers are those of a new process of Kaldi's.
    """
    random = Random()
    parts = [
        _split(_take(mixtures, pdf), size, perturbation, random)
        for pdf, size in enumerate(choose_sizes(occupancies, target, power, min_count))
    ]
    return _join(parts)


def _take(mixtures: Mixtures, pdf: int) -> Mixtures:
    """The mixture of one pdf alone."""
    gaussians = slice(mixtures.offsets[pdf], mixtures.offsets[pdf + 1])
    return Mixtures(
        offsets=np.array([0, gaussians.stop - gaussians.start]),
        weights=mixtures.weights[gaussians],
        inverse_variances=mixtures.inverse_variances[gaussians],
        means_inverse_variances=mixtures.means_inverse_variances[gaussians],
    )


def _join(parts: Sequence[Mixtures]) -> Mixtures:
    return Mixtures(
        offsets=np.cumsum([0, *(part.num_gaussians for part in parts)]),
        weights=np.concatenate([part.weights for part in parts]),
        inverse_variances=np.concatenate([part.inverse_variances for part in parts]),
        means_inverse_variances=np.concatenate([part.means_inverse_variances for part in parts]),
    )


def _split(mixture: Mixtures, size: int, perturbation: float, random: Random) -> Mixtures:
    """Split the heaviest Gaussian, the first of equals, again and again (DiagGmm::Split).

    Its halves move apart by `perturbation` standard deviations times a random vector.
    """
    count = mixture.num_gaussians
    if size <= count:
        return mixture
    weights = np.zeros(size, np.float32)
    inverse, scaled = np.zeros((2, size, mixture.dim), np.float32)
    weights[:count], inverse[:count] = mixture.weights, mixture.inverse_variances
    scaled[:count] = mixture.means_inverse_variances
    for new in range(count, size):
        old = int(weights[:new].argmax())
        weights[old] /= 2
        weights[new] = weights[old]
        # In terms of mean / variance: sigma / sigma^2 = sqrt(1 / variance).
        step = np.float32(perturbation) * (random.gauss(mixture.dim) * np.sqrt(inverse[old]))
        inverse[new] = inverse[old]
        scaled[new] = scaled[old] + step
        scaled[old] -= step
    return Mixtures(np.array([0, size]), weights, inverse, scaled)
