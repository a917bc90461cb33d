"""Anchors between a text and what was recognised: islands of equal words, chained to passages.

After A. Katsamanis et al., "SailAlign: robust long speech-text alignment", 2011. Unlike there a
text may have passages in another order than the sound: the best chain is taken, then the best one
of what is left, and so on.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, starmap

import numpy as np

SEED = 2  # equal words in a row that begin an island
LEAST_SURE = 3  # and of which one may be sure
MOST_PLACES = 20  # in the text, of a seed: what is there more often says little of its place
# A seed that is there more often is lengthened to at most so many words, until it is rare: with
# more places the chains of a text that repeats itself would take hours.
LONGEST_SEED, MOST_OF_LONGER = 12, 2
FIRST_CHAIN, FURTHER_CHAIN = 3, 4  # words that a chain must match
OF_GAP, MOST_OF_GAP = 0.1, 4.0  # cost of each word between two islands, in words; and the most


@dataclass(frozen=True)
class Island:
    """Equal words: `length` of them from `text` on in the text, and from `sound` on.

    shared: how many more there are beside it, of which another island has some too.
    """

    text: int
    sound: int
    length: int
    shared: int = 0

    @property
    def sure_words(self) -> range:
        """Its words in the text if they are so many that chance hardly has them in a row."""
        is_sure = self.length + self.shared >= LEAST_SURE
        return range(self.text, self.text + self.length * is_sure)


def find_passages(
    text: Sequence[str], sound: Sequence[str], shortest: int = FURTHER_CHAIN
) -> list[list[Island]]:
    """Chains of islands, each in the order of both; no word is in two of them.

    Words that two neighbours claim are left to neither: which of both is right the sound tells.
    text, sound: the words of the text, and those that were recognised; shortest: words that each
    chain but the first must match.
    """
    islands = _find_islands(text, sound)
    passages: list[list[Island]] = []
    while chain := _find_best_chain(islands):
        matched = sum(island.length for island in chain) - sum(starmap(_overlap, pairwise(chain)))
        if matched < (shortest if passages else min(FIRST_CHAIN, shortest)):
            break
        passages.append(_leave_shared(chain))
        islands = [part for island in islands for part in _cut_matched(island, chain)]
    return passages


def is_repetitive(text: Sequence[str]) -> bool:
    """Whether most words of a text begin no seed, as all that they begin is there too often."""
    return 2 * sum(map(len, _place_seeds(text).values())) < len(text) - SEED + 1


def _place_seeds(text: Sequence[str]) -> dict[tuple[str, ...], list[int]]:
    """The places of each seed in a text; none begins with another."""
    seeds: dict[tuple[str, ...], list[int]] = {}
    open_places = [*range(len(text))]
    for length in range(SEED, LONGEST_SEED + 1):
        places: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for i in open_places:
            if i + length <= len(text):
                places[tuple(text[i : i + length])].append(i)
        most = MOST_PLACES if length == SEED else MOST_OF_LONGER
        seeds |= {seed: starts for seed, starts in places.items() if len(starts) <= most}
        open_places = [i for starts in places.values() if len(starts) > most for i in starts]
    return seeds


def _find_islands(text: Sequence[str], sound: Sequence[str]) -> list[Island]:
    """All islands that begin with a seed and are no part of longer ones."""
    places = _place_seeds(text)
    ends: dict[int, int] = {}  # by diagonal: the end of its last island in the sound
    islands = []
    for j in range(len(sound) - SEED + 1):
        seeds = (tuple(sound[j : j + length]) for length in range(SEED, LONGEST_SEED + 1))
        seed = next((seed for seed in seeds if seed in places), ())
        for i in places.get(seed, ()):
            if ends.get(i - j, 0) > j:
                continue
            length = len(seed)
            while text[i + length : i + length + 1] == sound[j + length : j + length + 1] != []:
                length += 1
            ends[i - j] = j + length
            islands.append(Island(i, j, length))
    return islands


def _find_best_chain(islands: Sequence[Island]) -> list[Island]:
    """The chain with most words, less the costs of its gaps; dynamic programming."""
    if not islands:
        return []
    ordered = sorted(islands, key=lambda island: (island.sound, island.text))
    text, sound, length = (
        np.array([getattr(island, name) for island in ordered])
        for name in ("text", "sound", "length")
    )
    score, previous = length.astype(float), np.full(len(ordered), -1)
    for n in range(1, len(ordered)):
        # Islands may overlap by some words, which count once.
        gaps = np.stack([text[n] - text[:n] - length[:n], sound[n] - sound[:n] - length[:n]])
        overlap = np.maximum(0, -gaps.min(0))
        fits = (text[n] > text[:n]) & (sound[n] > sound[:n]) & (overlap < length[n])
        cost = np.minimum(OF_GAP * np.maximum(gaps, 0).sum(0), MOST_OF_GAP)
        gain = np.where(fits, score[:n] - overlap - cost, -np.inf)
        best = int(gain.argmax())
        if gain[best] > 0:
            score[n], previous[n] = length[n] + gain[best], best
    chain, n = [], int(score.argmax())
    while n >= 0:
        chain.append(ordered[n])
        n = int(previous[n])
    return chain[::-1]


def _leave_shared(chain: Sequence[Island]) -> list[Island]:
    """The islands of a chain without the words that a neighbour has too."""
    overlaps = [0, *starmap(_overlap, pairwise(chain)), 0]
    return [
        Island(island.text + head, island.sound + head, length, head + tail)
        for island, (head, tail) in zip(chain, pairwise(overlaps), strict=True)
        if (length := island.length - head - tail) > 0
    ]


def _overlap(island: Island, following: Island) -> int:
    """The number of words, of the text or of the sound, that both have."""
    return max(
        island.text + island.length - following.text,
        island.sound + island.length - following.sound,
        0,
    )


def _cut_matched(island: Island, chain: Sequence[Island]) -> Iterator[Island]:
    """The parts of an island that share no word with a chain."""
    free = np.ones(island.length, bool)
    for other in chain:
        for begin, start in ((island.text, other.text), (island.sound, other.sound)):
            free[max(0, start - begin) : max(0, start + other.length - begin)] = False
    edges = np.flatnonzero(np.diff(np.concatenate([[0], free, [0]])))
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end - begin >= SEED:
            yield Island(island.text + begin, island.sound + begin, end - begin)
