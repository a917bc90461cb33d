"""Statistics of decision trees: sums of a Gaussian for each pdf-class in each window of phones.

As Kaldi's acc-tree-stats and sum-tree-stats. An event is a pdf-class and a window of phones; the
statistics of an event are one row of sums (`gmm/clusterable.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.safe_pickle import loadable
from bayes_asr.data.targets.contexts import TransitionPlaces, locate_transitions, split_phones
from bayes_asr.kaldi_io.context_dependency import ABSENT
from bayes_asr.kaldi_io.transition_model import TransitionModel

ROWS = 1 << 17  # what is merged at once, which bounds the memory besides that of the result
COLUMNS = 16  # of sums that are added at once


@loadable
@dataclass(frozen=True)
class Context:
    """Context of a tree: windows of N `width` phones, the phone itself at position P `center`.

    No question is about the phones around `independent` ones (Kaldi's --ci-phones).
    """

    width: int = 3
    center: int = 1
    independent: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not 0 <= self.center < self.width:
            raise InputError(
                f"the phone is at position {self.center} of a window of {self.width} phones; give"
                f" a position from 0 to {self.width - 1}"
            )


@loadable
@dataclass(frozen=True, eq=False)
class TreeStatistics:
    """Sums of E distinct events, in their order.

    `events` int32 [E, 1 + N]: pdf-class and window, ABSENT where the context is not asked for;
    `sums` float64 [E, 1 + 2D]: frames, sums of features, sums of their squares.
    """

    context: Context
    events: np.ndarray
    sums: np.ndarray

    @property
    def pdf_classes(self) -> np.ndarray:
        """The pdf-class of each event [E]."""
        return self.events[:, 0]

    @property
    def phones(self) -> np.ndarray:
        """The phone in the centre of each event [E]."""
        return self.events[:, 1 + self.context.center]


def accumulate(
    utterances: Iterable[tuple[str, np.ndarray, np.ndarray]],
    model: TransitionModel,
    context: Context,
) -> TreeStatistics:
    """Add up (name, transition-ids [T], features [T, D]) of utterances aligned by `model`.

    InputError where an utterance has other numbers of frames, or its alignment is not of `model`.
    """
    places = locate_transitions(model)
    return sum_tree_stats(
        _sum_utterance(*utterance, model, places, context) for utterance in utterances
    )


def sum_tree_stats(parts: Iterable[TreeStatistics]) -> TreeStatistics:
    """Add statistics of one context, in their order; InputError where there are none."""
    gathered: list[TreeStatistics] = []
    rows, limit = 0, ROWS
    for part in parts:
        gathered.append(part)
        rows += len(part.events)
        if rows > limit:
            gathered = [_merge(gathered)]
            rows = len(gathered[0].events)
            limit = ROWS + rows
    if not gathered:
        raise InputError("no utterance is aligned: there is nothing to build a tree of")
    return _merge(gathered)


def _sum_utterance(
    utt: str,
    transition_ids: np.ndarray,
    x: np.ndarray,
    model: TransitionModel,
    places: TransitionPlaces,
    context: Context,
) -> TreeStatistics:
    """Sum the frames of each pdf-class in each phone of one utterance."""
    if len(transition_ids) != len(x):
        raise InputError(
            f"{utt}: {len(transition_ids)} frames are aligned, the features have {len(x)}; align"
            " these features"
        )
    split = split_phones(utt, transition_ids, model, places)
    windows = split.windows(context.width, context.center)
    alone = np.isin(split.phones, list(context.independent))
    around = np.arange(context.width) != context.center
    windows[np.ix_(alone, around)] = ABSENT
    frames = np.column_stack([places.pdf_class[transition_ids], split.of_frame])
    begins = np.flatnonzero((frames != np.roll(frames, 1, 0)).any(1) | (np.arange(len(x)) == 0))
    pdf_class, phone = frames[begins].T
    single = x.astype(np.float32)  # Kaldi squares in float32, and sums in float64
    columns = np.column_stack([np.ones(len(x)), single, single * single])
    return TreeStatistics(
        context,
        np.column_stack([pdf_class, windows[phone]]).astype(np.int32),
        np.add.reduceat(columns, begins),
    )


def _merge(parts: Sequence[TreeStatistics]) -> TreeStatistics:
    """Add the sums of equal events, some columns at a time, which saves a copy of all."""
    events = np.concatenate([part.events for part in parts])
    order = np.lexsort(events.T[::-1])
    events = events[order]
    begins = np.flatnonzero(np.append(True, (events[1:] != events[:-1]).any(1))[: len(events)])
    width = parts[0].sums.shape[1]
    sums = np.empty((len(begins), width))
    for first in range(0, width, COLUMNS):
        some = slice(first, first + COLUMNS)
        unsorted = np.concatenate([part.sums[:, some] for part in parts])
        sums[:, some] = np.add.reduceat(unsorted[order], begins)
    return TreeStatistics(parts[0].context, events[begins], sums)
