"""Alignments at a lower frame rate, in phones of one state: Kaldi's convert-ali for LF-MMI."""

from collections.abc import Sequence

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.data.targets.contexts import locate_transitions, split_phones
from bayes_asr.decode.graph.transition_index import index_transitions
from bayes_asr.kaldi_io.context_dependency import Tree, window_pdfs
from bayes_asr.kaldi_io.transition_model import TransitionModel


def subsample_durations(durations: Sequence[int], factor: int) -> list[int] | None:
    """Subsampled durations of phones, the first of every `factor` frames being kept; 1 or more.

    A phone without a frame takes one of the phone with a spare one that is fewest frames away, the
    left one of two. None where there are too few frames. As ComputeNewPhoneLengths
    (hmm/hmm-utils.cc).
    """
    # Frames t < end with t % factor == 0 number ceil(end / factor).
    ends = -(-np.cumsum([0, *durations]) // factor)
    lengths: list[int] = np.diff(ends).tolist()
    while 0 in lengths:
        for place, length in enumerate(lengths):
            if length:
                continue
            donor = _find_donor(lengths, place)
            if donor is None:
                return None
            lengths[place] += 1
            lengths[donor] -= 1
    return lengths


def _find_donor(lengths: Sequence[int], place: int) -> int | None:
    """The phone nearest to `place` that has more than one frame."""
    nearest: tuple[int, int] | None = None  # frames between, place
    for direction in (range(place - 1, -1, -1), range(place + 1, len(lengths))):
        between = 0
        for neighbour in direction:
            if lengths[neighbour] > 1:
                if nearest is None or between < nearest[0]:
                    nearest = (between, neighbour)
                break
            between += lengths[neighbour]
    return nearest and nearest[1]


class Subsampler:
    """Converter of alignments to the transition-ids of a model of phones with one state.

    factor: one of so many frames is kept.
    """

    def __init__(self, old: TransitionModel, new: TransitionModel, tree: Tree, factor: int) -> None:
        self.new, self.factor = new, factor
        self._old, self._tree = old, tree
        self._places = locate_transitions(old)
        self._first_tid = index_transitions(new).first_tid
        self._cache: dict[tuple[int, ...], tuple[int, int]] = {}

    def convert_alignment(self, utt: str, transition_ids: np.ndarray) -> np.ndarray:
        """Return the transition-ids int32 [ceil(T / factor)] of the new model, of the same phones.

        InputError where the alignment is not of the old model, or has more phones than frames.
        """
        split = split_phones(utt, transition_ids, self._old, self._places)
        lengths = subsample_durations(np.bincount(split.of_frame).tolist(), self.factor)
        if lengths is None:
            raise InputError(
                f"{utt}: its {len(split.phones)} phones have {len(transition_ids)} frames, too few"
                f" where one of {self.factor} is kept"
            )
        windows = split.windows(self._tree.width, self._tree.center).tolist()
        converted: list[int] = []
        for window, length in zip(windows, lengths, strict=True):
            # The first frame takes the forward transition, as in the topology of LF-MMI.
            entry, loop = self._transitions(tuple(window))
            converted += [entry] + [loop] * (length - 1)
        return np.array(converted, np.int32)

    def _transitions(self, window: tuple[int, ...]) -> tuple[int, int]:
        """The transition-ids of the first frame of a phone, and of the others."""
        if window not in self._cache:
            phone = window[self._tree.center]
            pdfs = window_pdfs(window, self.new, self._tree)
            loop = self._first_tid[phone, 0, pdfs[0], pdfs[1]]
            self._cache[window] = (loop + 1, loop)
        return self._cache[window]
