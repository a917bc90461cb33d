"""What a decoder is asked for, and what it says of each utterance."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from bayes_asr.base.safe_pickle import loadable
from bayes_asr.decode.lattices.paths import Weights
from bayes_asr.decode.search.options import DecodeOptions


@dataclass(frozen=True)
class DecodeJob:
    """What all utterances share: files, options, the weights to try, and how many processes.

    lm: what a graph without language model is composed with, in place of its G.fst.
    """

    loglikes: str
    graph: Path
    model: Path
    options: DecodeOptions
    grid: tuple[Weights, ...]
    nj: int
    lm: Path | None = None


@loadable
@dataclass(frozen=True)
class Decoded:
    """What one utterance contributes to the output files; `error` says why it has no words.

    `sweep` holds the words at each point of the grid.
    """

    utt: str
    frames: int
    words: list[int]
    graph_cost: float
    acoustic_cost: float
    reached_final: bool
    sweep: list[list[int]]
    error: str = ""


def record_without_words(utt: str, frames: int, job: DecodeJob, error: str = "") -> Decoded:
    """Return the record of an utterance that no path got through."""
    return Decoded(utt, frames, [], np.inf, np.inf, False, [[] for _ in job.grid], error)


@dataclass
class Summary:
    """How a set was decoded: counts, and the names of what did not go well."""

    utterances: int = 0
    frames: int = 0
    partial: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class Decoder(Protocol):
    """A backend: the same inputs, the same files out."""

    def decode(self, job: DecodeJob, folder: Path) -> Iterator[Decoded]:
        """Decode every utterance, in order, and write lattices as `folder`/lat.N.gz."""

    def find_trouble(self) -> str:
        """Say why this backend cannot be used here; empty if it can."""
