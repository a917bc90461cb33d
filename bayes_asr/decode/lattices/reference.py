"""Accuracies of the paths of a lattice against a reference alignment, frame by frame.

Povey & Woodland 2002 (MPE), Povey et al. 2008 (boosted MMI), Gibson & Hain 2006 (sMBR); silence as
in Kaldi's lat/lattice-functions.cc.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.lattices.aligned import AlignedLattice
from bayes_asr.kaldi_io.transition_model import TransitionModel

OF_ACCURACY = ("mpe", "smbr")
WITH_REFERENCE = ("bmmi", *OF_ACCURACY)
"""Criteria that compare paths with an alignment, and so heed silence."""


class CellValues(NamedTuple):
    """The boost and the accuracy of each cell of a lattice, both float64 [C]."""

    boost: np.ndarray
    """Added to the log-weight of paths: of bmmi, more for cells of wrong phones."""
    accuracy: np.ndarray
    """1 where a path is right in a frame, of mpe and smbr."""


@dataclass(frozen=True)
class LatticeComparison:
    """A criterion's comparison of paths with a reference.

    criterion: mmi, bmmi, mpe (right is the phone) or smbr (the pdf). silence_phones: phones that
    are never right, unless one_silence_class makes one of them all, nor wrong by more than
    max_silence_error for bmmi. boost: what a wrong phone adds to log-weights in each frame.
    """

    criterion: str
    model: TransitionModel
    silence_phones: tuple[int, ...] = ()
    one_silence_class: bool = False
    boost: float = 0.1
    max_silence_error: float = 0.0

    def __post_init__(self) -> None:
        """Refuse silence phones of another model."""
        highest = max(self.model.topology)
        if max(self.silence_phones, default=0) > highest:
            raise InputError(
                f"silence phone {max(self.silence_phones)}, but the phones of the model go to"
                f" {highest}; take the numbers of phones/silence.csl"
            )

    @property
    def of_accuracy(self) -> bool:
        """Whether the criterion is an expected accuracy."""
        return self.criterion in OF_ACCURACY

    def of(self, lattice: AlignedLattice, reference: np.ndarray | None) -> CellValues:
        """The values of the cells of a lattice for a reference [T], of which mmi has no need.

        InputError where the lattice has other frames, or transition-ids that the model has not.
        """
        zeros = np.zeros(len(lattice.frame))
        if (highest := int(lattice.tid.max())) > self.model.num_transition_ids:
            raise InputError(
                f"the lattice has transition-id {highest}, but the model"
                f" {self.model.num_transition_ids}; take the model that it was made with"
            )
        if reference is not None and lattice.num_frames != len(reference):
            raise InputError(
                f"the lattice has {lattice.num_frames} frames, but {len(reference)} in the"
                " alignment; make both of the same features"
            )
        if self.criterion not in WITH_REFERENCE:
            return CellValues(zeros, zeros)
        if reference is None:
            raise InputError(f"{self.criterion} compares with an alignment; name one")
        if self.criterion == "bmmi":
            return CellValues(self.boost * self._errors(lattice, reference), zeros)
        return CellValues(zeros, self._accuracies(lattice, reference))

    def _errors(self, lattice: AlignedLattice, reference: np.ndarray) -> np.ndarray:
        phone, reference_phone = (self.model.phone[ids] for ids in (lattice.tid, reference))
        # Boosted MMI: paths gain where they err; silence counts for at most max_silence_error.
        silent = np.isin(phone, self.silence_phones)
        error = np.where(silent, self.max_silence_error, 1.0)
        return np.where(phone == reference_phone[lattice.frame], 0.0, error)

    def _accuracies(self, lattice: AlignedLattice, reference: np.ndarray) -> np.ndarray:
        label = self.model.pdf if self.criterion == "smbr" else self.model.phone
        reference_tid = reference[lattice.frame]
        right = label[lattice.tid] == label[reference_tid]
        silent = np.isin(self.model.phone[lattice.tid], self.silence_phones)
        # Kaldi's one_silence_class: any silence is right for any other; without it none is right.
        if not self.one_silence_class:
            return (right & ~silent).astype(np.float64)
        reference_silent = np.isin(self.model.phone[reference_tid], self.silence_phones)
        return (right | (silent & reference_silent)).astype(np.float64)


def check_succession(lattice: AlignedLattice, model: TransitionModel) -> None:
    """InputError where transition-ids follow one another as they cannot: another model's do."""
    # All steps end to end: a transition-id that begins a step has none before it.
    passed = lattice.tid[lattice.cells]
    begins = np.zeros(len(passed), bool)
    begins[lattice.offsets[:-1][np.diff(lattice.offsets) > 0]] = True
    continuing = np.flatnonzero(~begins)
    wrong = continuing[~model.may_follow(passed[continuing - 1], passed[continuing])]
    if len(wrong):
        previous, tid = passed[wrong[0] - 1 : wrong[0] + 1]
        raise InputError(
            f"the lattice has transition-id {tid} after {previous}, which the model of the"
            " alignment has not; make lattices and alignments with one model"
        )
