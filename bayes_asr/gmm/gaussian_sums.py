"""Sufficient statistics of mixtures of Gaussians, and their estimation by maximum likelihood."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.safe_pickle import loadable
from bayes_asr.gmm.likelihood import PdfFrames, iter_posteriors
from bayes_asr.gmm.linear_algebra import multiply
from bayes_asr.gmm.occupation import gather
from bayes_asr.kaldi_io.mixtures import Mixtures

BLOCK = 20_000  # frames that are taken together, so that many share a pdf


@loadable
@dataclass
class Statistics:
    """Counts and sums, float64, of M Gaussians over frames (Kaldi's gmm-acc-stats-ali).

    `offsets` [P + 1] as of the mixtures; `occupancy` [M]; `sums` and `squares` [M, D] of features;
    `frames`: how many, by weight; `log_likelihood`: of the features by which they were divided
    among Gaussians.
    """

    offsets: np.ndarray
    occupancy: np.ndarray
    sums: np.ndarray
    squares: np.ndarray
    frames: float = 0.0
    log_likelihood: float = 0.0

    @staticmethod
    def zeros(mixtures: Mixtures) -> "Statistics":
        """The statistics of no frames."""
        shape = mixtures.inverse_variances.shape
        return Statistics(mixtures.offsets, np.zeros(shape[0]), np.zeros(shape), np.zeros(shape))

    def add(
        self,
        mixtures: Mixtures,
        x: np.ndarray,
        pdfs: np.ndarray,
        weights: np.ndarray | None = None,
        summed: np.ndarray | None = None,
    ) -> None:
        """Add frames x [T, D] aligned to `pdfs` [T], with `weights` [T], one by default.

        summed: other features [T, D] of these frames, which are summed in place of x, as by
        gmm-acc-stats-twofeats.
        Raises InputError where x and pdfs do not belong together or to the model, or a frame is
        too far from all Gaussians for float32.
        """
        weights = np.ones(len(x)) if weights is None else np.asarray(weights, np.float64)
        y = np.asarray(x if summed is None else summed, np.float64)
        # One product per pdf then sums features and squares together.
        y = np.concatenate((y, y * y), axis=1)
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused
            for part in iter_posteriors(mixtures, x, pdfs):
                self._add_part(part, weights[part.frames], y[part.frames])
        if not np.isfinite(self.log_likelihood):
            raise InputError(
                f"the log-likelihood of {len(x)} frames is {self.log_likelihood}: their largest"
                f" value is {np.abs(x).max():g}; look at the features and how they are normalised"
            )
        self.frames += float(weights.sum())

    def _add_part(self, part: PdfFrames, weights: np.ndarray, y: np.ndarray) -> None:
        """Add frames of one pdf: their weights [N], and what is summed with its squares [N, 2D]."""
        share = part.posteriors * weights[:, None]
        total = multiply(share.T, y)
        self.occupancy[part.gaussians] += share.sum(0)
        self.sums[part.gaussians] += total[:, : self.sums.shape[1]]
        self.squares[part.gaussians] += total[:, self.sums.shape[1] :]
        self.log_likelihood += float((part.log_likelihoods * weights).sum())

    def __add__(self, other: "Statistics") -> "Statistics":
        """The sum of both (gmm-sum-accs)."""
        names = [field.name for field in fields(self) if field.name != "offsets"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return replace(self, **sums)

    @property
    def log_likelihood_per_frame(self) -> float:
        """The average log-likelihood per frame, as gmm-acc-stats-ali prints it."""
        return self.log_likelihood / self.frames if self.frames else 0.0

    @property
    def pdf_occupancy(self) -> np.ndarray:
        """Frames of each pdf, float64 [P]: what Kaldi writes as `final.occs`."""
        return np.add.reduceat(self.occupancy, self.offsets[:-1])


def accumulate(
    mixtures: Mixtures, utterances: Iterable[tuple[np.ndarray, np.ndarray]]
) -> Statistics:
    """Statistics of utterances, each frames [T, D] and their pdfs [T], in bounded memory.

    Utterances are taken together until they have enough frames for products of a good size. The
    result depends on their order, by rounding alone, and not on anything else.
    """
    total = Statistics.zeros(mixtures)
    for block in gather(utterances, BLOCK, lambda utterance: len(utterance[0])):
        x, pdfs = map(np.concatenate, zip(*block, strict=True))
        total.add(mixtures, x, pdfs)
    return total


def estimate(
    mixtures: Mixtures,
    statistics: Statistics,
    *,
    min_occupancy: float = 10.0,
    min_weight: float = 1e-5,
    min_variance: float = 1e-3,
    remove: bool = True,
) -> Mixtures:
    """Return the mixtures of greatest likelihood (gmm/mle-diag-gmm.cc, MleDiagGmmUpdate).

    Gaussians of less occupancy or weight are removed, but for the last one of a pdf; or they keep
    their mean and variance. Variances are floored.
    """
    occupancy = statistics.occupancy
    share = _shares(mixtures, statistics)
    enough = (occupancy > min_occupancy) & (share > min_weight)
    # Where a Gaussian has too few frames, a count of 1 avoids a division by 0; it is not used.
    counts = np.where(enough, occupancy, 1.0)[:, None]
    means = np.where(enough[:, None], statistics.sums / counts, mixtures.means)
    variances = np.maximum(statistics.squares / counts - means * means, min_variance)
    updated = Mixtures.from_moments(
        mixtures.offsets,
        np.where(enough, share, np.maximum(share, min_weight)),
        means,
        np.where(enough[:, None], variances, mixtures.variances),
    )
    return _keep(updated, enough | _last_resorts(mixtures, enough)) if remove else updated


def _shares(mixtures: Mixtures, statistics: Statistics) -> np.ndarray:
    """The share of a Gaussian in the frames of its pdf, float64 [M]; equal if there are none."""
    totals = statistics.pdf_occupancy
    equal = np.repeat(1 / mixtures.sizes, mixtures.sizes)
    with np.errstate(invalid="ignore"):
        shares = statistics.occupancy / np.repeat(totals, mixtures.sizes)
    return np.where(np.repeat(totals > 0, mixtures.sizes), shares, equal)


def _last_resorts(mixtures: Mixtures, enough: np.ndarray) -> np.ndarray:
    """The last Gaussian of each pdf none of whose Gaussians has enough data, bool [M]."""
    # offsets[p + 1] - 1 is the index of the last Gaussian of pdf p.
    poor = ~np.logical_or.reduceat(enough, mixtures.offsets[:-1])
    last = np.zeros(len(enough), bool)
    last[mixtures.offsets[1:][poor] - 1] = True
    return last


def _keep(mixtures: Mixtures, mask: np.ndarray) -> Mixtures:
    """The Gaussians of `mask` [M]; weights of pdfs that lose one are normalised again."""
    sizes = np.add.reduceat(mask.astype(np.int64), mixtures.offsets[:-1])
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    weights = mixtures.weights[mask]
    totals = np.add.reduceat(weights.astype(np.float64), offsets[:-1]).astype(np.float32)
    scales = np.where(sizes < mixtures.sizes, (1.0 / totals).astype(np.float32), np.float32(1))
    return Mixtures(
        offsets=offsets,
        weights=weights * np.repeat(scales, sizes),
        inverse_variances=mixtures.inverse_variances[mask],
        means_inverse_variances=mixtures.means_inverse_variances[mask],
    )
