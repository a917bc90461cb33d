"""Strings of transition-ids in the determinization of lattices."""

from array import array

import numpy as np

EMPTY = 0
MAX_BYTES = 50_000_000  # of a lattice that is determinized: Kaldi's --max-mem
Element = tuple[int, int, np.float32, np.float32]  # of a subset: state, string, graph, acoustic


class Strings:
    """Sequences of transition-ids as nodes of a tree, so that equal sequences are one number."""

    def __init__(self) -> None:
        """Begin with the empty string, number 0."""
        self.parent, self.label, self.depth = (array("i", [0]) for _ in range(3))
        self.known: dict[int, int] = {}

    def extend(self, string: int, tid: int) -> int:
        """Return `string` with a transition-id appended; 0 appends nothing."""
        if tid == 0:
            return string
        key = string << 32 | tid  # half the memory of a pair
        number = self.known.get(key)
        if number is None:
            number = self.known[key] = len(self.parent)
            self.parent.append(string)
            self.label.append(tid)
            self.depth.append(self.depth[string] + 1)
        return number

    def labels(self, string: int, skip: int = 0) -> list[int]:
        """Return the transition-ids of a string but for the first `skip`."""
        tids = []
        for _ in range(self.depth[string] - skip):
            tids.append(self.label[string])
            string = self.parent[string]
        return tids[::-1]

    def concatenate(self, prefix: int, suffix: int, skip: int = 0) -> int:
        """Return `prefix` followed by `suffix` without its first `skip` labels."""
        if skip == 0 and prefix == EMPTY:
            return suffix
        for tid in self.labels(suffix, skip):
            prefix = self.extend(prefix, tid)
        return prefix

    def common_prefix(self, a: int, b: int) -> int:
        """Return the longest common prefix of two strings: their common ancestor."""
        parent, depth = self.parent, self.depth
        while a != b:
            if a == EMPTY:  # without a walk up the whole of b
                return EMPTY
            if depth[a] >= depth[b]:
                a = parent[a]
            else:
                b = parent[b]
        return a

    def count_live(self, needed: set[int]) -> int:
        """Return how many strings remain if only those `needed` and their prefixes are."""
        live = set()
        for string in needed:
            while string != EMPTY and string not in live:
                live.add(string)
                string = self.parent[string]
        return len(live)

    def prefers(self, new: Element, old: Element) -> bool:
        """Tell whether `new` is cheaper; ties go to the lower graph cost, then to the string."""
        new_cost, old_cost = new[2] + new[3], old[2] + old[3]
        # Kaldi's Compare of LatticeWeight, then of strings: the shorter, then the later by labels.
        if new_cost != old_cost:
            return bool(new_cost < old_cost)
        if new[2] != old[2] or new[1] == old[1]:
            return bool(new[2] < old[2])
        if self.depth[new[1]] != self.depth[old[1]]:
            return self.depth[new[1]] < self.depth[old[1]]
        return self.labels(new[1]) > self.labels(old[1])
