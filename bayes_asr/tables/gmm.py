"""Kaldi's `final.mdl` of Gaussian mixtures: the transition model, and a mixture for each pdf."""

import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bayes_asr.files import replacing
from bayes_asr.tables.binary import KaldiReader, open_bytes
from bayes_asr.tables.mdl import TransitionModel, pack_transition_model, parse_transition_model

LOG_2PI = 1.8378770664093454835606594728112


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Gaussians with diagonal covariances: M in all, of dimension D, for P pdfs.

    Pdf p has the Gaussians first[p] to first[p + 1]: `first` is int64 [P + 1]. `weights` [M],
    `inverse_variances` [M, D] and `means_inverse_variances` [M, D] are float32, as in Kaldi
    (gmm/diag-gmm.h). The weights of a pdf sum to one.
    """

    first: np.ndarray
    weights: np.ndarray
    inverse_variances: np.ndarray
    means_inverse_variances: np.ndarray

    @staticmethod
    def from_moments(
        first: np.ndarray, weights: np.ndarray, means: np.ndarray, variances: np.ndarray
    ) -> "Mixtures":
        """Make them of weights [M], means [M, D] and variances [M, D], rounded as Kaldi rounds."""
        inverse = 1 / np.asarray(variances, np.float32)
        return Mixtures(
            first=np.asarray(first, np.int64),
            weights=np.asarray(weights, np.float32),
            inverse_variances=inverse,
            means_inverse_variances=np.asarray(means, np.float32) * inverse,
        )

    @property
    def num_pdfs(self) -> int:
        """P."""
        return len(self.first) - 1

    @property
    def num_gaussians(self) -> int:
        """M, of all pdfs together."""
        return len(self.weights)

    @property
    def dim(self) -> int:
        """D."""
        return self.inverse_variances.shape[1]

    @property
    def sizes(self) -> np.ndarray:
        """How many Gaussians each pdf has, int64 [P]."""
        return np.diff(self.first)

    @property
    def pdfs(self) -> np.ndarray:
        """The pdf of each Gaussian, int64 [M]."""
        return np.repeat(np.arange(self.num_pdfs), self.sizes)

    @property
    def variances(self) -> np.ndarray:
        """Variances, float64 [M, D]."""
        return 1 / self.inverse_variances.astype(np.float64)

    @property
    def means(self) -> np.ndarray:
        """Means, float64 [M, D]."""
        return self.means_inverse_variances * self.variances

    @cached_property
    def gconsts(self) -> np.ndarray:
        """Log of weight times density at zero, float32 [M] (gmm/diag-gmm.cc, ComputeGconsts).

        The sum is rounded after each dimension, as Kaldi's is. Weight zero gives minus infinity.
        """
        with np.errstate(divide="ignore"):
            total = _log(self.weights) + np.float32(-0.5 * LOG_2PI * self.dim)
        columns = zip(self.inverse_variances.T, self.means_inverse_variances.T, strict=True)
        for inverse, scaled in columns:
            at_zero = 0.5 * scaled.astype(np.float64) * scaled / inverse
            total = (total + (0.5 * _log(inverse).astype(np.float64) - at_zero)).astype("f4")
        return total


def read_gmm(path: Path) -> tuple[TransitionModel, Mixtures]:
    """Read a binary or text `final.mdl` of Gaussian mixtures.

    Raises InputError where the file is truncated, damaged, of another kind or contradicts itself.
    """
    with open_bytes(Path(path)) as source:
        reader = KaldiReader(source)
        transitions = parse_transition_model(reader)
        reader.expect("<DIMENSION>")
        dim = reader.count()
        reader.expect("<NUMPDFS>")
        count = reader.count()
        if not dim or count < max(1, transitions.num_pdfs):
            raise reader.fail(
                f"{count} mixtures of dimension {dim} for {transitions.num_pdfs} pdfs"
            )
        parts = [_read_mixture(reader, dim, pdf) for pdf in range(count)]
    weights, scaled, inverse = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    first = np.cumsum([0, *(len(part[0]) for part in parts)])
    return transitions, Mixtures(first, weights, inverse, scaled)


def write_gmm(transitions: TransitionModel, mixtures: Mixtures, path: Path) -> None:
    """Write a model in Kaldi's binary format, complete or not at all."""
    parts = [b"\0B", pack_transition_model(transitions)]
    parts += [b"<DIMENSION> ", _pack_int(mixtures.dim)]
    parts += [b"<NUMPDFS> ", _pack_int(mixtures.num_pdfs)]
    for begin, end in zip(mixtures.first[:-1], mixtures.first[1:], strict=True):
        parts += [
            *(b"<DiagGMM> <GCONSTS> ", _pack_vector(mixtures.gconsts[begin:end])),
            *(b"<WEIGHTS> ", _pack_vector(mixtures.weights[begin:end])),
            *(b"<MEANS_INVVARS> ", _pack_matrix(mixtures.means_inverse_variances[begin:end])),
            *(b"<INV_VARS> ", _pack_matrix(mixtures.inverse_variances[begin:end]), b"</DiagGMM> "),
        ]
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(b"".join(parts))


def _log(values: np.ndarray) -> np.ndarray:
    """Logarithms in float32, rounded correctly, as those of the C library nearly always are."""
    return np.log(values.astype(np.float64)).astype(np.float32)


def _read_mixture(
    reader: KaldiReader, dim: int, pdf: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means times inverse variances, inverse variances; constants are computed anew."""
    reader.expect("<DiagGMM>", "<DiagGMMBegin>")
    if reader.expect("<GCONSTS>", "<WEIGHTS>") == "<GCONSTS>":
        reader.reals()
        reader.expect("<WEIGHTS>")
    weights = reader.reals()
    reader.expect("<MEANS_INVVARS>")
    scaled = reader.matrix(dim)
    reader.expect("<INV_VARS>")
    inverse = reader.matrix(dim)
    reader.expect("</DiagGMM>", "<DiagGMMEnd>")
    if not 0 < len(weights) == len(scaled) == len(inverse):
        numbers = f"{len(weights)} weights, {len(scaled)} means and {len(inverse)} variances"
        raise reader.fail(f"the mixture of pdf {pdf} has {numbers}")
    if not (
        np.isfinite(weights).all()
        and np.isfinite(scaled).all()
        and np.isfinite(inverse).all()
        and weights.min() >= 0 < weights.max()
        and inverse.min() > 0
    ):
        raise reader.fail(f"the mixture of pdf {pdf} is no density: weights or variances")
    return weights, scaled, inverse


def _pack_int(value: int) -> bytes:
    return struct.pack("<bi", 4, value)


def _pack_vector(values: np.ndarray) -> bytes:
    return b"FV " + _pack_int(len(values)) + values.astype("<f4").tobytes()


def _pack_matrix(values: np.ndarray) -> bytes:
    rows, columns = values.shape
    return b"FM " + _pack_int(rows) + _pack_int(columns) + values.astype("<f4").tobytes()
