"""How far two alignments of the same utterances agree.

Prints the share of frames with the same phone and, if both are of the same model, with the same
pdf, and the share of phones that begin at most 20 ms apart in utterances where both have as many
phones. Both must have the same phone table.

    python benchmarks/alignments.py DIR_A DIR_B [--json FILE]
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import record

from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.kaldi_io.transition_model import TransitionModel

NEAR = 2  # frames of 10 ms


def onsets(transition_ids: np.ndarray, model: TransitionModel) -> np.ndarray:
    """The frames at which the first state of a phone is left, one for each phone."""
    leaving = (model.hmm_state[transition_ids] == 0) & ~model.self_loop[transition_ids]
    return np.flatnonzero(leaving)


def agreement(a: Alignments, b: Alignments) -> dict[str, Any]:
    """Counts of utterances and frames, and shares in [0, 1], of the utterances in both."""
    first, second = dict(a.items()), dict(b.items())
    both = sorted(first.keys() & second.keys())
    x, y = (np.concatenate([ids[utt] for utt in both]) for ids in (first, second))
    alike = np.array_equal(a.model.tuples, b.model.tuples)
    shifts = []
    for utt in both:
        starts = onsets(first[utt], a.model), onsets(second[utt], b.model)
        if len(starts[0]) == len(starts[1]):
            shifts.append(np.abs(starts[0] - starts[1]))
    return {
        "utterances": [len(first), len(second), len(both)],
        "frames": len(x),
        "same_phone": float((a.model.phone[x] == b.model.phone[y]).mean()),
        **({"same_pdf": float((a.model.pdf[x] == b.model.pdf[y]).mean())} if alike else {}),
        "phones_within_20_ms": float((np.concatenate(shifts) <= NEAR).mean()),
    }


def main() -> None:
    """Compare, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("alignments", type=Path, nargs=2, metavar="DIR")
    record.add_options(parser)
    args = parser.parse_args()
    found = agreement(*(Alignments(path) for path in args.alignments))
    for name, value in found.items():
        print(f"{name:20s} {value}")
    record.save(found, "alignments", args)


if __name__ == "__main__":
    main()
