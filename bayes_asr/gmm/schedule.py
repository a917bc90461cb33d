"""Schedules of the training of Gaussian mixtures: passes that align, adapt and add Gaussians."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["mono", "deltas", "lda-mllt", "sat"]
Phase = tuple[str, int]  # the name of a phase, and its pass


@dataclass(frozen=True)
class TrainingSchedule:
    """The passes of one training; the defaults are those of steps/train_deltas.sh.

    A pass estimates the model once. `realign` and `adapt` name the passes that first align anew,
    or estimate MLLT (lda-mllt) or fMLLR (sat). The number of Gaussians grows evenly from that of
    the leaves to `gaussians` in the first `growing` passes, by the power `power` of what a pdf has.

    Kaldi: passes is num_iters less 1, growing max_iter_inc, realign realign_iters, adapt mllt_iters
    or fmllr_iters, gaussians totgauss, leaves numleaves.
    """

    kind: Kind
    leaves: int
    gaussians: int
    passes: int = 34
    growing: int = 25
    realign: Sequence[int] = (10, 20, 30)
    adapt: Sequence[int] = (2, 4, 6, 12)
    power: float = 0.25
    beam: float = 10.0
    first_beam: float = 10.0
    retry_beam: float = 40.0
    boost_silence: float = 1.0
    dimensions: int = 40
    left_context: int = 3
    right_context: int = 3
    context_width: int = 3
    central_position: int = 1
    cluster_threshold: float | None = None

    def target_gaussians(self, number: int, initial: int) -> int:
        """Gaussians after pass `number`, from 0; the training began with `initial`.

        As in Kaldi's scripts, the increment is a whole number.
        """
        # The scripts add it after each of the first passes, so that pass 1 still has `initial`.
        increment = int((self.gaussians - initial) / self.growing)
        return initial + increment * min(max(number - 1, 0), self.growing)

    def beam_at(self, number: int) -> float:
        """The beam of the alignment in a pass."""
        return self.first_beam if number == 1 else self.beam

    def phases(self) -> Iterator[Phase]:
        """The phases in order; a training that was interrupted goes on with the first open one."""
        if self.kind == "mono":
            yield from (("prepare", 0), ("initialise", 0), ("compile", 0), ("align equal", 0))
            yield "estimate", 0
        else:
            yield {"deltas": "prepare", "lda-mllt": "lda", "sat": "transforms"}[self.kind], 0
            yield from (("tree", 0), ("convert", 0), ("compile", 0))
        adapts = {"lda-mllt": "mllt", "sat": "fmllr"}.get(self.kind)
        # The order within a pass is that of the scripts: align, transform, estimate.
        for number in range(1, self.passes + 1):
            if number in self.realign:
                yield "align", number
            if adapts and number in self.adapt:
                yield adapts, number
            yield "estimate", number
        if self.kind == "sat":
            yield "alimdl", self.passes + 1
        yield "finish", self.passes + 1


MONOPHONES = TrainingSchedule(
    "mono",
    leaves=0,
    gaussians=1000,
    passes=39,
    growing=30,
    realign=(*range(1, 11), *range(12, 21, 2), *range(23, 39, 3)),
    first_beam=6.0,
)
DELTAS = TrainingSchedule("deltas", leaves=2000, gaussians=10000)
LDA_MLLT = TrainingSchedule("lda-mllt", leaves=2500, gaussians=15000)
SAT = TrainingSchedule("sat", leaves=2500, gaussians=15000, power=0.2)
