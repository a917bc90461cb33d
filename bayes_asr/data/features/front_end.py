"""The front end: everything between the features of an utterance and what the network reads.

Each step maps one utterance [T, F] to [T, F'] and never sees another one. Only `Normalisation` and
the speaker statistics carry numbers from elsewhere: from the training data and from the speaker.
"""

import json
import logging
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, open_to_read, read_bytes

_warn_once = cache(logging.getLogger(__name__).warning)
# What a line of feats.scp names that Kaldi's make_mfcc.sh and the like have written.
OF_KALDI = re.compile(rb"[\s/:]raw_[^\s/]*\.\d+\.ark")
FEATURES = "features"  # the first stream, which says who speaks and how many frames there are
Cmvn = Literal["none", "mean", "mean-variance"]
DELTA_WINDOW = 2  # frames on either side of a derivative
VARIANCE_FLOOR = 1e-20  # as Kaldi's apply-cmvn
LEAST_DEVIATION = 1e-5  # what varies less over all training data counts as constant


def cmvn_statistics(matrices: Iterable[np.ndarray]) -> np.ndarray:
    """Kaldi's CMVN statistics [2, F+1] of some utterances: sums and count, sums of squares and 0.

    As compute-cmvn-stats.
    """
    total: np.ndarray | float = 0.0
    for matrix in matrices:
        x = matrix.astype(np.float64)
        # Kaldi keeps the count as the last entry of the first row.
        sums = np.append(x.sum(0), len(x))
        total = total + np.stack((sums, np.append((x * x).sum(0), 0.0)))
    return np.asarray(total)


def mean_and_deviation(stats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean [F] and standard deviation [F] from CMVN statistics [2, F+1]."""
    mean = stats[0, :-1] / stats[0, -1]
    # The variance is E[x^2] - E[x]^2, which rounding may make slightly negative.
    variance = np.maximum(stats[1, :-1] / stats[0, -1] - mean**2, VARIANCE_FLOOR)
    return mean, np.sqrt(variance)


@dataclass(frozen=True)
class Normalisation:
    """One mean and deviation [F] for all utterances, from training data; kept in the checkpoint."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, matrices: Iterable[np.ndarray]) -> "Normalisation":
        """The normalisation by the statistics of training features [T, F].

        A column that is constant there gets deviation 1: elsewhere it must not grow beyond measure.
        """
        mean, deviation = mean_and_deviation(cmvn_statistics(matrices))
        deviation = np.where(deviation > LEAST_DEVIATION, deviation, 1.0)
        return cls(mean.astype(np.float32), deviation.astype(np.float32))

    def __call__(self, matrix: np.ndarray) -> np.ndarray:
        """Normalise features [T, F]."""
        return (matrix - self.mean) / self.deviation


def add_deltas(matrix: np.ndarray, order: int) -> np.ndarray:
    """Append `order` derivatives over +-2 frames [T, F * (order + 1)], as add-deltas.

    Frames beyond an end repeat the frame at the end.
    """
    parts = [matrix]
    for weights in regression_weights(order):
        reach = len(weights) // 2
        # A derivative of order i is one filter over 4i + 1 frames, applied to the features
        # themselves.
        padded = np.pad(matrix.astype(np.float64), ((reach, reach), (0, 0)), mode="edge")
        total = np.zeros(matrix.shape)
        for lag, weight in enumerate(weights):
            total += weight * padded[lag : lag + len(matrix)]
        parts.append(total)
    return np.concatenate(parts, axis=1).astype(np.float32)


def regression_weights(order: int) -> list[np.ndarray]:
    """Return the weights of the frames around one for each derivative, the first one first.

    Derivative i+1 applies the regression weights to those of derivative i (Kaldi's
    feature-functions.cc, DeltaFeatures).
    """
    offsets = np.arange(-DELTA_WINDOW, DELTA_WINDOW + 1)
    # Linear regression over a window: sum of n x[t + n], divided by the sum of n^2.
    step = offsets / np.square(offsets).sum()
    weights = [np.ones(1)]
    for _ in range(order):
        weights.append(np.convolve(weights[-1], step))
    return weights[1:]


def splice(matrix: np.ndarray, left: int, right: int) -> np.ndarray:
    """Each frame with its neighbours [T, F * (left + 1 + right)], as Kaldi's splice-feats.

    Frames beyond an end repeat the frame at the end.
    """
    positions = np.arange(len(matrix))[:, None] + np.arange(-left, right + 1)
    return matrix[positions.clip(0, len(matrix) - 1)].reshape(len(matrix), -1)


def append_context(matrix: np.ndarray, *, order: int, left: int, right: int) -> np.ndarray:
    """Append deltas of `order`, then context: [T, F] -> [T, F * (order + 1) * (left+1+right)]."""
    if order:
        matrix = add_deltas(matrix, order)
    return splice(matrix, left, right) if left or right else matrix


def apply_cmvn(matrix: np.ndarray, cmvn: Cmvn, stats: np.ndarray) -> np.ndarray:
    """Features [T, F] less the speaker's mean, by his deviation if asked, as Kaldi's apply-cmvn."""
    mean, deviation = mean_and_deviation(stats)
    centred = matrix - mean
    return (centred / deviation if cmvn == "mean-variance" else centred).astype(np.float32)


@dataclass(frozen=True)
class FrontEnd:
    """The steps that features of a stream go through; one value, which the checkpoint holds.

    cmvn: normalisation by speaker; deltas: order of the derivatives that are appended;
    left_context, right_context: frames that are; normalisation: mean and deviation of the training
    data, None until these are known. sound: the fields of the `Analysis` that made the features of
    sound, None where they come from elsewhere.
    """

    cmvn: Cmvn = "none"
    deltas: int = 0
    left_context: int = 0
    right_context: int = 0
    normalisation: Normalisation | None = None
    sound: Mapping[str, Any] | None = None
    subsampling: int | Literal["utterance"] = 1
    """Of how many frames of the first stream each of its frames is; -n: it has n for each of them;
    utterance: it has one vector for all of them."""

    def fits(self, length: int, frames: int) -> bool:
        """Whether `length` frames of this stream last as long as `frames` of the first stream.

        The last frame of the slower of the two may stand for fewer, as Kaldi's subsample-feats
        leaves them.
        """
        if self.subsampling == "utterance":
            return length == 1
        if self.subsampling < 0:
            # A faster stream has n frames for each of the first, and perhaps fewer for the last.
            return frames == self.reach(length)
        # Division rounded up: the last slow frame may cover fewer fast ones.
        return length == -(-frames // self.subsampling)

    def reach(self, length: int) -> float:
        """The most frames of the first stream that `length` frames of this stream cover."""
        if self.subsampling == "utterance":
            return math.inf if length else 0
        # The rate is negative, so both minus signs round length / n up.
        return -(length // self.subsampling) if self.subsampling < 0 else length * self.subsampling

    def spread(self, matrix: np.ndarray, frames: int) -> np.ndarray:
        """The stream [T, F] at each of the frames [frames] of the first stream, [frames, F].

        Frames of a slower stream are repeated; of a faster one, those are taken at which a frame of
        the first stream begins.
        """
        if self.subsampling == 1:
            return matrix
        return matrix[self.place(np.arange(frames))]

    def place(self, frames: np.ndarray) -> np.ndarray:
        """The frame of this stream at each of some frames [T] of the first stream."""
        if self.subsampling == "utterance":
            return np.zeros_like(frames)
        # Frame t of the first stream begins at frame n t of a stream that is n times as fast.
        return frames * -self.subsampling if self.subsampling < 0 else frames // self.subsampling

    @property
    def size(self) -> int:
        """Size F' of what the network reads."""
        return len(self._measured.mean)

    @property
    def stored_size(self) -> int:
        """Size F of the features."""
        context = self.left_context + 1 + self.right_context
        # The network reads F (deltas + 1) (left + 1 + right) values a frame.
        return self.size // ((self.deltas + 1) * context)

    @property
    def _measured(self) -> Normalisation:
        if self.normalisation is None:
            raise ValueError("the normalisation is not measured yet")
        return self.normalisation

    def normalise_speaker(self, matrix: np.ndarray, stats: np.ndarray | None) -> np.ndarray:
        """Features [T, F] after CMVN by the statistics [2, F+1] of the speaker.

        ValueError where statistics are needed and None.
        """
        self.check_speaker(stats)
        if self.cmvn == "none" or stats is None:
            return matrix
        return apply_cmvn(matrix, self.cmvn, stats)

    def check_speaker(self, stats: np.ndarray | None) -> None:
        """ValueError where statistics of the speaker are needed and not given."""
        if self.cmvn != "none" and stats is None:
            raise ValueError(
                f"this run normalises by speaker (features.cmvn = {self.cmvn}): pass the"
                " speaker's CMVN statistics [2, F+1] as `cmvn`; of a sound file bayes_asr.features"
                " returns them"
            )

    def prepare(self, matrix: np.ndarray, stats: np.ndarray | None) -> np.ndarray:
        """Features [T, F] after CMVN, with deltas and context [T, F']."""
        return append_context(self.normalise_speaker(matrix, stats), **self.shape)

    def normalise(self, matrix: np.ndarray) -> np.ndarray:
        """Prepared features, normalised for the network [T, F'], in their precision."""
        return self._measured(matrix)

    @property
    def shape(self) -> dict[str, int]:
        """Deltas and context, as `prepare` takes them."""
        return {"order": self.deltas, "left": self.left_context, "right": self.right_context}

    @property
    def preparation(self) -> str:
        """The steps before normalisation in words, for comparison."""
        rate = "" if self.subsampling == 1 else f", subsampling {self.subsampling}"
        return f"cmvn {self.cmvn}, {self.shape}{rate}"

    def content(self) -> dict[str, Any]:
        """Its fields as arrays and plain values."""
        return {
            "cmvn": self.cmvn,
            "deltas": self.deltas,
            "left_context": self.left_context,
            "right_context": self.right_context,
            "mean": self._measured.mean,
            "deviation": self._measured.deviation,
            "sound": None if self.sound is None else dict(self.sound),
            # The rate is written only where it is not 1, so that older checkpoints look the same.
            **({} if self.subsampling == 1 else {"subsampling": self.subsampling}),
        }

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> "FrontEnd":
        """The front end whose `content` this is."""
        values = dict(content)
        normalisation = Normalisation(values.pop("mean"), values.pop("deviation"))
        return cls(**values, normalisation=normalisation)


def read_analysis(directory: Path) -> dict[str, Any] | None:
    """The analysis that made the features of a data directory from sound; None if not recorded.

    A record that lies beside features which a script of Kaldi's made is announced, and not taken.
    """
    path, table = directory / "frontend.json", directory / "feats.scp"
    if not is_there(path):
        return None
    if is_there(table):
        with open_to_read(str(table)) as lines:
            first = lines.readline()
        if OF_KALDI.search(first):
            _warn_once(
                "%s: not read, as the features beside it are of a script of Kaldi's; remove it",
                path,
            )
            return None
    try:
        fields = json.loads(read_bytes(path))
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise InputError(f"{path}: not a JSON object; compute the features again")
    return fields


FrontEnds = Mapping[str, FrontEnd]


def join_streams(front_ends: FrontEnds, prepared: Mapping[str, np.ndarray]) -> np.ndarray:
    """Prepared streams [T_s, F_s] of an utterance at the frames of the first, [T, sum of F_s]."""
    if len(front_ends) == 1:
        return next(iter(prepared.values()))
    frames = len(prepared[next(iter(front_ends))])
    return np.hstack([end.spread(prepared[name], frames) for name, end in front_ends.items()])


def split_streams(front_ends: FrontEnds, matrix: np.ndarray) -> dict[str, np.ndarray]:
    """The inverse of `join_streams`: [T, F_s] by stream."""
    if len(front_ends) == 1:
        # A single stream has the matrix as it is, without a copy.
        return dict.fromkeys(front_ends, matrix)
    # The last end is that of the matrix, at which nothing is split.
    ends = np.cumsum([front_end.size for front_end in front_ends.values()])
    return dict(zip(front_ends, np.split(matrix, ends[:-1], axis=1), strict=True))


def describe_stream(name: str) -> str:
    """The features of a stream, in words."""
    return "features" if name == FEATURES else f"features of {name}"
