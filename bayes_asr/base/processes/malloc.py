"""Settings of libraries: freed blocks that glibc keeps, huge pages, caches, and threads."""

import ctypes as c
import mmap
import os
import resource
from contextlib import suppress
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
NEVER = -1
GIB, OLDER = 2**30, 2**25  # the largest threshold of older glibc
HUGE = 4  # GiB at the start of the heap that come in huge pages
# oneDNN, and torch around it, keep the code of products of the last 1,024 shapes, half a megabyte
# each. Every batch has another number of frames, so only its own shapes come again.
CACHES, SHAPES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"), "64"
THREADS = "OMP_NUM_THREADS"


def share_threads(processes: int) -> str:
    """Return OMP_NUM_THREADS of each of several processes, which share what this one may use."""
    affine = hasattr(os, "sched_getaffinity")  # macOS tells only how many there are
    processors = len(os.sched_getaffinity(0)) if affine else os.cpu_count() or 1
    return str(max(1, processors // processes))


@cache
def keep_freed_memory() -> None:
    """Let glibc keep what is freed, for the next batch of this process; elsewhere, do nothing.

    It returns tensors of tens of megabytes to the kernel otherwise, which hands them out again a
    page at a time, filled with zeros: some 10,000 faults in a training step. In pages of 4 KiB,
    products wait for addresses too, so the heap is asked for in pages of 2 MiB, where Linux grants
    them on request (docs/performance.md). Only addresses are reserved, if they are not limited.

    What oneDNN keeps lies between the tensors of batches, which then need yet more memory, so it is
    limited, unless the environment says how. Call this before the first product.
    """
    for variable in CACHES:
        os.environ.setdefault(variable, SHAPES)
    with suppress(OSError, AttributeError):
        libc = c.CDLL(None)
        # Larger blocks are unmapped when freed. glibc raises this by itself, if no other is set.
        if any(libc.mallopt(M_MMAP_THRESHOLD, size) for size in (GIB, OLDER)):
            libc.mallopt(M_TRIM_THRESHOLD, NEVER)
        if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
            _ask_for_huge_pages(libc)


def _ask_for_huge_pages(libc: c.CDLL) -> None:
    """Let the heap grow, advise the kernel of its pages, and hand it back to the allocator."""
    libc.malloc.restype, libc.malloc.argtypes = c.c_void_p, [c.c_size_t]
    libc.free.argtypes = [c.c_void_p]
    libc.madvise.argtypes = [c.c_void_p, c.c_size_t, c.c_int]
    size = GIB - mmap.PAGESIZE  # what is larger lies outside of the heap
    # All blocks are taken before one is freed, so that the heap grows to their sum.
    blocks = [libc.malloc(size) for _ in range(HUGE)]
    for block in filter(None, blocks):
        # madvise wants an address at the begin of a page.
        libc.madvise(block - block % mmap.PAGESIZE, size + mmap.PAGESIZE, mmap.MADV_HUGEPAGE)
        libc.free(block)
