"""Posteriors of transition-ids in each frame, and derivatives of criteria on lattices.

Kaldi: lattice-to-post, lattice-to-smbr-post, lattice-to-mpe-post, and lattice-boost-ali before the
first of them (lat/lattice-functions.cc).
"""

from dataclasses import dataclass

import numpy as np

from bayes_asr.decode.lattices.aligned import AlignedLattice, align_lattice
from bayes_asr.decode.lattices.expectation import expect
from bayes_asr.decode.lattices.reference import LatticeComparison
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice


@dataclass(frozen=True)
class Posteriors:
    """The transition-ids that paths have in each frame, and the share of the paths that do.

    `frame`, `tid` int32 [N] and `share` float64 [N], sorted by frame, then transition-id; those of
    a frame sum to 1. Of mpe and smbr the share is multiplied by how much more accurate those paths
    are than all, so that they sum to 0. `log_likelihood` is that of all paths together; `accuracy`:
    how many frames are right in the mean, 0 but of mpe and smbr.
    """

    frame: np.ndarray
    tid: np.ndarray
    share: np.ndarray
    num_frames: int
    log_likelihood: float
    accuracy: float = 0.0


def compute_posteriors(lattice: Lattice | CompactLattice, acoustic_scale: float) -> Posteriors:
    """Return the posteriors of the transition-ids in a lattice whose acoustic costs are unscaled.

    Raises InputError where the lattice has no path, or paths of different lengths.
    """
    aligned = align_lattice(lattice, acoustic_scale)
    zeros = np.zeros(len(aligned.frame))
    sums = expect(aligned, zeros, zeros)
    return Posteriors(aligned.frame, aligned.tid, sums.share, aligned.num_frames, sums.log_total)


def compare_posteriors(
    lattice: AlignedLattice, reference: np.ndarray | None, comparison: LatticeComparison
) -> Posteriors:
    """Return the posteriors of a scaled lattice for a criterion.

    reference: transition-ids int32 [T], None for mmi; comparison: what the criterion makes of them.
    InputError where they do not go with the lattice.
    """
    cell_values = comparison.of(lattice, reference)
    sums = expect(lattice, cell_values.boost, cell_values.accuracy)
    # Derivatives by the scores of cells: of the expected accuracy, or of the log-likelihood.
    share = sums.slope if comparison.of_accuracy else sums.share
    totals = (lattice.num_frames, sums.log_total, sums.gain)
    return Posteriors(lattice.frame, lattice.tid, share, *totals)
