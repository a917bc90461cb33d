"""The job of a decoder, its result for each utterance, and the summary of all."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from bayes_asr.base.safe_pickle import loadable
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.decode.lattices.paths import Weights


@dataclass(frozen=True)
class DecodeJob:
    """The files, options and weights to try that all utterances share, and how many processes.

    loglikes: an ark or scp of log-likelihoods [T, num_pdfs], unscaled; graph: a folder; model: the
    file of its transition model; grid: of LM weights and penalties; lm: what a graph without
    language model is composed with, in place of its G.fst; hotwords: a file of words and phrases
    that cost less; mbr: take words of least expected error at the points of the grid.
    """

    loglikes: str
    graph: Path
    model: Path
    options: SearchOptions
    grid: tuple[Weights, ...] = ()
    nj: int = 1
    lm: Path | None = None
    hotwords: Path | None = None
    mbr: bool = False


@loadable
@dataclass(frozen=True)
class DecodedUtterance:
    """One utterance's part of the output files; `error` says why it has no words.

    `sweep` holds the words at each point of the grid; `out_of_memory`: another try may have some.
    """

    utt: str
    frames: int
    words: list[int]
    graph_cost: float
    acoustic_cost: float
    reached_final: bool
    sweep: list[list[int]]
    error: str = ""
    out_of_memory: bool = False


def record_without_words(
    utt: str, frames: int, job: DecodeJob, error: str = "", out_of_memory: bool = False
) -> DecodedUtterance:
    """Return the record of an utterance that no path got through."""
    sweep: list[list[int]] = [[] for _ in job.grid]
    return DecodedUtterance(utt, frames, [], np.inf, np.inf, False, sweep, error, out_of_memory)


@dataclass
class DecodeSummary:
    """Counts of a decoded set, and the names of utterances that did not go well."""

    utterances: int = 0
    frames: int = 0
    partial: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class Decoder(Protocol):
    """A backend: the same inputs, the same files out."""

    def decode(self, job: DecodeJob, scratch: Path) -> Iterator[DecodedUtterance]:
        """Decode every utterance, in order, and write lattices as `scratch`/lat.N.gz."""

    def find_trouble(self) -> str:
        """Say why this backend cannot be used here; empty if it can."""
