"""Memory that the processes of one machine share, through which they wait and tell one another.

For a message, a thread has to wake up on either side, and waits for a processor where all of them
compute. A counter in shared memory is seen at once by those who wait for it.
"""

import ctypes as c
import mmap
import os
import select
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from bayes_asr.base.shared_library import P, SharedLibrary

LIBRARY = SharedLibrary(
    Path(__file__).with_name("_barrier.so"),
    "barrier",
    (),
    {"meet": (c.c_int64, [P, *[c.c_int64] * 3, c.c_double]), "leave": (None, [P, c.c_int64])},
)
LINE = 64  # bytes of a cache line
ROOM = 2**20  # bytes of what a process tells at once
SECONDS = 0.1  # of waiting, after which a process looks whether the others still live


class SharedBarrier:
    """A barrier of the processes of a machine, with an all-gather of small tensors.

    All of them make it from the same memory, and then make the same calls.
    """

    def __init__(self, memory: mmap.mmap, rank: int, processes: Sequence[int]) -> None:
        """Take memory of `size(P)` for P processes with these numbers, of which this is `rank`."""
        self._rank, self._count = rank, 0
        self._ends = select.poll()
        # A descriptor of a process becomes readable when the process ends.
        self._descriptors = [os.pidfd_open(process) for process in processes]
        for descriptor in self._descriptors:
            self._ends.register(descriptor, select.POLLIN)
        everything = torch.frombuffer(memory, dtype=torch.uint8)
        # Each process has a cache line of its own, so that none waits for another's writes.
        self._arrivals, places = everything.tensor_split([LINE * len(processes)])
        self._places = places.view(2, len(processes), ROOM)

    @classmethod
    def arrange(cls, memory: mmap.mmap, rank: int, processes: Sequence[int]) -> Self | None:
        """One, or None without compiled code, or where the system cannot say whether they live."""
        try:
            return cls(memory, rank, processes) if LIBRARY.usable else None
        except (AttributeError, OSError):
            return None

    @staticmethod
    def size(processes: int) -> int:
        """Bytes of memory that so many processes need."""
        return processes * (LINE + 2 * ROOM)

    def leave(self) -> None:
        """Come no more."""
        LIBRARY.call("leave", self._arrivals.data_ptr(), self._rank)
        for descriptor in self._descriptors:
            os.close(descriptor)

    def wait(self) -> None:
        """Return once all processes wait; RuntimeError where one has left or ended."""
        self._count += 1
        while not self._all_here(SECONDS):
            if self._ends.poll(0) and not self._all_here(0):  # it may have come before it ended
                raise RuntimeError("a process has ended")

    def _all_here(self, seconds: float) -> bool:
        """Whether all have come as often as this process, within `seconds`."""
        size = len(self._descriptors)
        address = self._arrivals.data_ptr()
        met = LIBRARY.call("meet", address, size, self._rank, self._count, seconds)
        if met < 0:
            raise RuntimeError("a process has left")
        return bool(met)

    def gather(self, x: Tensor) -> Tensor:
        """The tensors of all P processes, [P, *x.shape], valid until the next call but one.

        x: of at most ROOM bytes. Places alternate: who brings something again has met all others
        since they read what it brought last in this place.
        """
        # Two buffers alternate, so that one barrier for each call is enough.
        places = self._places[self._count % 2].view(x.dtype)[:, : x.numel()]
        places[self._rank] = x.detach().flatten()
        self.wait()
        return places.view(len(places), *x.shape)
