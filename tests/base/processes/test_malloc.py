"""What the C library is told of memory."""

import ctypes
import os
import resource
import subprocess
import sys
from types import SimpleNamespace

import pytest

from bayes_asr.base.processes.malloc import keep_freed_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of glibc and Linux")

HEAP_AFTER_A_TENSOR = """
import re, resource, sys
from pathlib import Path
import torch
from bayes_asr.base.processes.malloc import keep_freed_memory
if limit := int(sys.argv[1]):
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
keep_freed_memory()
x = torch.ones(2**26)  # 256 MiB
at = x.data_ptr()
for lines in re.split(r"\\n(?=[0-9a-f]+-)", Path("/proc/self/smaps").read_text()):
    first, last = (int(end, 16) for end in lines.split()[0].split("-"))
    if first <= at < last:
        print("hg" in lines.partition("VmFlags:")[2].split())
del x


def faults_of_a_batch():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    batch = [torch.ones(2**24) for _ in range(3)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


print([faults_of_a_batch() for _ in range(20)][-1] < 32)  # of 96 huge pages
"""


@pytest.mark.parametrize(
    ("most", "settings"), [(2**40, {-3: 2**30, -1: -1}), (2**25, {-3: 2**25, -1: -1}), (0, {})]
)
def test_glibc_trims_at_its_own_threshold_or_maps_by_ours(
    most: int, settings: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """M_TRIM_THRESHOLD (-1) ends what it does by itself; M_MMAP_THRESHOLD (-3) has a limit."""
    made: dict[int, int] = {}

    def mallopt(option: int, value: int) -> int:
        accepted = option != -3 or value <= most
        made.update({option: value} if accepted else {})
        return int(accepted)

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=mallopt))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2**40, 2**40))
    monkeypatch.setattr(os, "environ", {})
    keep_freed_memory.__wrapped__()
    assert made == settings


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "huge"), [(0, True), (16 * 2**30, False)])
def test_heap_is_kept_and_in_huge_pages_unless_addresses_are_limited(
    limit: int, huge: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAP_AFTER_A_TENSOR, str(limit)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(huge), "True"]
