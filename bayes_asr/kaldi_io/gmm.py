"""Kaldi's `final.mdl` of Gaussian mixtures: the transition model, and a mixture for each pdf."""

from pathlib import Path

import numpy as np

from bayes_asr.base.files import replacing
from bayes_asr.kaldi_io.binary import KaldiReader, open_bytes, pack_int
from bayes_asr.kaldi_io.mdl import pack_transition_model, parse_transition_model
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.transition_model import TransitionModel


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
    offsets = np.cumsum([0, *(len(part[0]) for part in parts)])
    return transitions, Mixtures(offsets, weights, inverse, scaled)


def write_gmm(transitions: TransitionModel, mixtures: Mixtures, path: Path) -> None:
    """Write a model in Kaldi's binary format, complete or not at all."""
    parts = [b"\0B", pack_transition_model(transitions)]
    parts += [b"<DIMENSION> ", pack_int(mixtures.dim)]
    parts += [b"<NUMPDFS> ", pack_int(mixtures.num_pdfs)]
    # The order of tokens is that of DiagGmm::Write.
    for begin, end in zip(mixtures.offsets[:-1], mixtures.offsets[1:], strict=True):
        parts += [b"<DiagGMM> <GCONSTS> ", _pack_vector(mixtures.gconsts[begin:end])]
        parts += [b"<WEIGHTS> ", _pack_vector(mixtures.weights[begin:end])]
        parts += [b"<MEANS_INVVARS> ", _pack_matrix(mixtures.means_inverse_variances[begin:end])]
        parts += [b"<INV_VARS> ", _pack_matrix(mixtures.inverse_variances[begin:end])]
        parts += [b"</DiagGMM> "]
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(b"".join(parts))


def _read_mixture(
    reader: KaldiReader, dim: int, pdf: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means times inverse variances, inverse variances; constants are computed anew."""
    reader.expect("<DiagGMM>", "<DiagGMMBegin>")
    # GCONSTS are optional, and follow from the parameters.
    if reader.expect("<GCONSTS>", "<WEIGHTS>") == "<GCONSTS>":
        reader.reals()
        reader.expect("<WEIGHTS>")
    weights = reader.reals()
    reader.expect("<MEANS_INVVARS>")
    scaled = _read_matrix(reader, dim)
    reader.expect("<INV_VARS>")
    inverse = _read_matrix(reader, dim)
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


def _read_matrix(reader: KaldiReader, columns: int) -> np.ndarray:
    """Read a matrix inside a binary or text model, as float32 [N, columns]."""
    # Text has rows in lines, which the reader of tokens does not tell apart.
    if not reader.binary:
        values, width = reader.reals(), columns
        rows = len(values) // columns
    else:
        kind = {"FM": "<f4", "DM": "<f8"}[reader.expect("FM", "DM")]
        rows, width = reader.count(), reader.count()
        size = rows * width * np.dtype(kind).itemsize
        raw = reader.source.take(size, f"a matrix ({rows} x {width})")
        with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite
            values = np.frombuffer(raw, kind).astype(np.float32)
    if width != columns or len(values) != rows * columns:
        raise reader.fail(f"{len(values)} values in rows of {width} where {columns} are due")
    return values.reshape(rows, columns)


def _pack_vector(values: np.ndarray) -> bytes:
    return b"FV " + pack_int(len(values)) + values.astype("<f4").tobytes()


def _pack_matrix(values: np.ndarray) -> bytes:
    rows, columns = values.shape
    return b"FM " + pack_int(rows) + pack_int(columns) + values.astype("<f4").tobytes()
