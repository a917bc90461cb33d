"""Candidate words of a text for each segment of a long recording, by anchors between both."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

LONGEST_GROUP = 60.0  # seconds of segments that are aligned together
MOST_AT_EDGE = 40  # words before or behind an anchor that are looked for beside it


@dataclass
class SegmentGroup:
    """Segments [first, last) that are aligned together, and the anchored words in them.

    anchors: indices into the text, in the order of the sound.
    """

    first: int
    last: int
    anchors: list[int] = field(default_factory=list)


def group_segments(
    anchors: Sequence[Sequence[int]], lengths: Sequence[float]
) -> Iterator[SegmentGroup]:
    """Yield groups of segments, in order, which end where the text goes on without a gap.

    anchors: the anchored words in each segment; lengths: of the segments, in seconds.
    """
    following = _find_following(anchors)
    group = SegmentGroup(0, 0)
    for number, anchored in enumerate(anchors):
        if group.last > group.first and _length(lengths, group, number) > LONGEST_GROUP:
            yield group
            group = SegmentGroup(number, number)
        group.last = number + 1
        group.anchors += anchored
        # The next anchor of the text is the next one of the sound.
        if group.anchors and following[number] == group.anchors[-1] + 1:
            yield group
            group = SegmentGroup(number + 1, number + 1)
    if group.last > group.first:
        yield group


def list_candidates(group: SegmentGroup, placed: Mapping[int, object], count: int) -> list[int]:
    """The words that may be in a group, in the order in which they would be said.

    placed: words that are anchored or aligned elsewhere; count: words of the text.
    """
    candidates: list[int] = []

    def add(indices: range) -> None:
        seen = {*candidates, *group.anchors}
        for index in indices:
            if not 0 <= index < count or index in placed or index in seen:
                break
            candidates.append(index)

    for place, anchor in enumerate(group.anchors):
        head: list[int] = []
        seen = {*candidates, *group.anchors}
        for index in range(anchor - 1, max(-1, anchor - 1 - MOST_AT_EDGE), -1):
            if index in placed or index in seen:
                break
            head.append(index)
        candidates += [*head[::-1], anchor]
        # Where the text jumps, what follows an anchor is looked for behind it as well.
        further = group.anchors[place + 1 : place + 2]
        if not further or not anchor < further[0] <= anchor + MOST_AT_EDGE:
            add(range(anchor + 1, anchor + 1 + MOST_AT_EDGE))
    return candidates


def _find_following(anchors: Sequence[Sequence[int]]) -> list[int | None]:
    """For each segment the first anchor behind it."""
    following: list[int | None] = []
    current: int | None = None
    for anchored in reversed(anchors):
        following.append(current)
        current = anchored[0] if anchored else current
    return following[::-1]


def _length(lengths: Sequence[float], group: SegmentGroup, last: int) -> float:
    return sum(lengths[group.first : last + 1])
