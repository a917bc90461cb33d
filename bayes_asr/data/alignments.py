"""Kaldi alignments: the pdf and the phone of every frame."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bayes_asr.errors import InputError
from bayes_asr.tables.ark import iter_int_vectors, read_vector
from bayes_asr.tables.mdl import TransitionModel, read_transition_model

DISABLED = float(np.sqrt(np.finfo(np.float32).max))  # the log prior that makes a pdf impossible


class Alignments:
    """The alignments of a directory (`ali.*.gz` and `final.mdl`), held as transition-ids.

    Labels are absolute: pdf-ids are those of `final.mdl`, phones those of its topology.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        self.model: TransitionModel = read_transition_model(self.directory / "final.mdl")
        self._phones = np.unique(self.model.phone[1:])
        self._transition_ids: dict[str, np.ndarray] = {}
        for path in _archives(self.directory):
            for utt, transition_ids in iter_int_vectors(path):
                self._add(utt, transition_ids, path)

    def _add(self, utt: str, transition_ids: np.ndarray, path: Path) -> None:
        if utt in self._transition_ids:
            raise InputError(f"{path}: {utt} is aligned a second time; keep one alignment")
        last = self.model.num_transition_ids
        outside = np.flatnonzero((transition_ids < 1) | (transition_ids > last))
        if len(outside):
            frame = outside[0]
            raise InputError(
                f"{path}: {utt}, frame {frame} has transition-id {transition_ids[frame]}, but"
                f" {self.directory / 'final.mdl'} has 1 to {last}; use the model that made the"
                " alignment"
            )
        self._transition_ids[utt] = transition_ids

    def __contains__(self, utt: str) -> bool:
        return utt in self._transition_ids

    def __len__(self) -> int:
        return len(self._transition_ids)

    def items(self) -> Iterable[tuple[str, np.ndarray]]:
        """Utterances and their transition-ids, int32 [T]."""
        return self._transition_ids.items()

    @property
    def num_monophones(self) -> int:
        """How many phones the model knows."""
        return len(self._phones)

    def length(self, utt: str) -> int:
        """Frames of an utterance."""
        return len(self._transition_ids[utt])

    def pdfs(self, utt: str) -> np.ndarray:
        """Pdf-id of every frame, int32 [T], as Kaldi's ali-to-pdf."""
        return self.model.pdf[self._transition_ids[utt]]

    def phones(self, utt: str) -> np.ndarray:
        """Phone of every frame, int32 [T], as Kaldi's ali-to-phones --per-frame."""
        return self.model.phone[self._transition_ids[utt]]

    def monophones(self, utt: str) -> np.ndarray:
        """Phone of every frame counted from 0, [T]: its place among the phones of the model."""
        return np.searchsorted(self._phones, self.phones(utt))

    def pdf_counts(self, utterances: Iterable[str]) -> np.ndarray:
        """Frames of each pdf plus 0.5, float64 [P], as Kaldi's analyze-counts."""
        counts = np.full(self.model.num_pdfs, 0.5)
        for utt in utterances:
            counts += np.bincount(self.pdfs(utt), minlength=self.model.num_pdfs)
        return counts


def read_counts(path: Path, pdfs: int) -> np.ndarray:
    """Pdf counts [P] from a file such as Kaldi's analyze-counts writes: [ 12.5 3.5 ... ]."""
    counts = read_vector(path)
    if len(counts) != pdfs:
        raise InputError(f"{path}: {len(counts)} counts, but the network has {pdfs} pdfs")
    if not (np.isfinite(counts).all() and (counts >= 0).all() and counts.sum() > 0):
        raise InputError(f"{path}: counts must be finite, not negative and not all 0")
    return counts


def log_priors(counts: np.ndarray, floor: float = 1e-10) -> np.ndarray:
    """Log prior [P] of each pdf from its count, as Kaldi's nnet-pdf-prior.

    A pdf whose share is below `floor` gets a huge prior: subtracting it makes the pdf impossible,
    never likely.
    """
    share = counts / counts.sum(dtype=np.float64)
    return np.where(share < floor, DISABLED, np.log(np.maximum(share, floor)))


def _archives(directory: Path) -> list[Path]:
    """`ali.*.gz` in the order of their job numbers."""
    paths = sorted(directory.glob("ali.*.gz"), key=lambda p: (len(p.name), p.name))
    if not paths:
        raise InputError(f"{directory}: there is no ali.*.gz; align the data first")
    return paths
