"""What the C library does with memory that is freed."""

import ctypes
from contextlib import suppress

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
GIB = 2**30


def keep_freed_memory() -> None:
    """Let glibc keep what is freed, for the next batch of this process; elsewhere, do nothing.

    It returns tensors of tens of megabytes to the kernel otherwise, which hands them out again a
    page at a time, each filled with zeros: some 10,000 faults in every training step
    (docs/performance.md). The peak of memory hardly changes.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, GIB)
        mallopt(M_TRIM_THRESHOLD, 2 * GIB - 1)
