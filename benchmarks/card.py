"""A GPU as an instrument: its clock, memory and energy, and how many launches a call takes.

`Dry` stands in for it on a CPU, where scripts that need a card are tested: its clock counts its
readings.
"""

import ctypes
import itertools
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import record
import torch

LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch")  # with suffixes such as ExC


class Instrument(Protocol):
    """An instrument that measures a device."""

    device: torch.device

    def mark(self) -> Any:
        """A moment on the device, behind all work that was launched."""

    def milliseconds(self, start: Any, end: Any) -> float:
        """The time between two moments."""

    def allocated(self) -> float:
        """MiB of the tensors that are alive."""

    def peak(self) -> float:
        """The most MiB of tensors since `reset_peak`."""

    def reset_peak(self) -> None:
        """Begin to look for the most memory anew."""

    def joules(self) -> float | None:
        """Energy since the driver was loaded; None where it cannot be read."""

    def launches(self, call: Callable[[], object]) -> int | None:
        """The kernels and graphs that a call launches; None where they cannot be counted."""

    def check(self) -> None:
        """Wait for the device; RuntimeError where an error has made it useless to this process."""


class Card:
    """The current CUDA device."""

    def __init__(self) -> None:
        self.device = torch.device("cuda")
        self._read_energy = open_energy_counter()

    def mark(self) -> torch.cuda.Event:
        """An event that is recorded now."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def milliseconds(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """The time between two events."""
        end.synchronize()
        return start.elapsed_time(end)

    def allocated(self) -> float:
        """MiB of the tensors that are alive."""
        return torch.cuda.memory_allocated() / 2**20

    def peak(self) -> float:
        """The most MiB of tensors since `reset_peak`."""
        return torch.cuda.max_memory_allocated() / 2**20

    def reset_peak(self) -> None:
        """Begin to look for the most memory anew."""
        torch.cuda.reset_peak_memory_stats()

    def joules(self) -> float | None:
        """Energy since the driver was loaded, behind all work that was launched."""
        torch.cuda.synchronize()
        return self._read_energy() if self._read_energy else None

    def launches(self, call: Callable[[], object]) -> int | None:
        """The kernels and graphs that a call launches, by torch's profiler."""
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            call()
            torch.cuda.synchronize()
        counts = [e.count for e in profile.key_averages() if e.key.startswith(LAUNCHES)]
        return sum(counts) or None

    def check(self) -> None:
        """Wait for the device, and use it."""
        torch.cuda.synchronize()
        torch.zeros(1, device=self.device).item()


class Dry:
    """A CPU in the place of a card: a millisecond passes with each reading of its clock."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self._ticks = itertools.count()

    def mark(self) -> int:
        """The number of readings of the clock before."""
        return next(self._ticks)

    def milliseconds(self, start: int, end: int) -> float:
        """The readings between."""
        return float(end - start)

    def allocated(self) -> float:
        """Nothing: memory of CPUs is not counted."""
        return 0.0

    peak = allocated

    def reset_peak(self) -> None:
        """Nothing is counted."""

    def joules(self) -> float | None:
        """A CPU does not tell."""
        return None

    def launches(self, call: Callable[[], object]) -> int | None:
        """Nothing is launched."""
        return None

    def check(self) -> None:
        """A CPU does not fail behind the back."""


def open_energy_counter() -> Callable[[], float] | None:
    """A reader of the energy of the current device in joules, by NVIDIA's library.

    None where there is no such library or counter (it came with Volta).
    """
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        handle, millijoules = ctypes.c_void_p(), ctypes.c_ulonglong()
        uuid = f"GPU-{torch.cuda.get_device_properties().uuid}".encode()
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(handle)):
            return None
    except (OSError, AttributeError):
        return None

    def read() -> float:
        nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules))
        return millijoules.value / 1000

    # The status is 0 where the device has the counter.
    if nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules)):
        return None
    return read


def describe_card() -> dict[str, str]:
    """The card and versions on which figures depend; nothing where there is no card."""
    # A process that asks torch would hold memory of the card.
    query = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit")
    names, *_ = record.run(*query, "--format=csv,noheader").splitlines() or [""]
    if not names:
        return {}
    name, driver, memory, power = (part.strip() for part in names.split(","))
    return {
        "card": name,
        "card's memory and power limit": f"{memory}, {power}",
        "driver": driver,
        "CUDA": str(torch.version.cuda),
        "cuDNN": str(torch.backends.cudnn.version()),
        "triton": find_version("triton"),
    }


def find_version(package: str) -> str:
    """The version of an installed package, empty where there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
