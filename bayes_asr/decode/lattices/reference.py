"""How the paths of a lattice compare with a reference alignment, frame by frame.

Povey & Woodland 2002 (MPE), Povey et al. 2008 (boosted MMI), Gibson & Hain 2006 (sMBR); silence as
in Kaldi's lat/lattice-functions.cc.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.lattices.aligned import AlignedLattice
from bayes_asr.kaldi_io.mdl import TransitionModel

OF_ACCURACY = ("mpe", "smbr")
WITH_REFERENCE = ("bmmi", *OF_ACCURACY)
"""Criteria that compare paths with an alignment, and so heed silence."""


class Compared(NamedTuple):
    """What each cell of a lattice is worth, both float64 [C]."""

    boost: np.ndarray
    """Added to the log-weight of paths: of bmmi, more for cells of wrong phones."""
    accuracy: np.ndarray
    """1 where a path is right in a frame, of mpe and smbr."""


@dataclass(frozen=True)
class LatticeComparison:
    """What a criterion makes of a path and a reference.

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

    def of(self, lattice: AlignedLattice, reference: np.ndarray | None) -> Compared:
        """What the cells of a lattice are worth for a reference [T], of which mmi has no need.

        InputError where the lattice has other frames, or transition-ids that the model has not.
        """
        nothing = np.zeros(len(lattice.frame))
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
            return Compared(nothing, nothing)
        if reference is None:
            raise InputError(f"{self.criterion} compares with an alignment; name one")
        if self.criterion == "bmmi":
            return Compared(self.boost * self._errors(lattice, reference), nothing)
        return Compared(nothing, self._accuracies(lattice, reference))

    def _errors(self, lattice: AlignedLattice, reference: np.ndarray) -> np.ndarray:
        phone, wanted = (self.model.phone[ids] for ids in (lattice.tid, reference))
        silent = np.isin(phone, self.silence_phones)
        error = np.where(silent, self.max_silence_error, 1.0)
        return np.where(phone == wanted[lattice.frame], 0.0, error)

    def _accuracies(self, lattice: AlignedLattice, reference: np.ndarray) -> np.ndarray:
        label = self.model.pdf if self.criterion == "smbr" else self.model.phone
        wanted = reference[lattice.frame]
        right = label[lattice.tid] == label[wanted]
        silent, meant_silent = (
            np.isin(self.model.phone[ids], self.silence_phones) for ids in (lattice.tid, wanted)
        )
        counted = right | (silent & meant_silent) if self.one_silence_class else right & ~silent
        return counted.astype(np.float64)


def check_succession(lattice: AlignedLattice, model: TransitionModel) -> None:
    """InputError where transition-ids follow one another as they cannot: another model's do."""
    passed = lattice.tid[lattice.cells]
    first = np.zeros(len(passed), bool)
    first[lattice.offsets[:-1][np.diff(lattice.offsets) > 0]] = True
    after = np.flatnonzero(~first)
    apart = after[~model.may_follow(passed[after - 1], passed[after])]
    if len(apart):
        before, tid = passed[apart[0] - 1 : apart[0] + 1]
        raise InputError(
            f"the lattice has transition-id {tid} after {before}, which the model of the alignment"
            " has not; make lattices and alignments with one model"
        )
