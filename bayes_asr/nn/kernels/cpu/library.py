"""The compiled code for CPUs: its library, and the choice of its path for this machine.

The library has one path for each instruction set, and the fastest that the machine has is taken;
the environment variable BAYES_ASR_KERNELS forces another one, or `torch` for none.
"""

import ctypes as c
import os
from contextlib import suppress
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.base.shared_library import P, SharedLibrary

PATH_VARIABLE = "BAYES_ASR_KERNELS"
STORAGES = (torch.float32, torch.bfloat16)
COUNTS = ("unit", "activation", "storage", "threads", *"BTDHGPE", "sets")
SIZES = ("gates", "states", "extras", "coefficients", "resets", "recurs")


class UnitRow(c.Structure):
    """The struct UnitRow of kernels.h."""

    _fields_ = (("name", c.c_char_p), *((name, c.c_int64) for name in SIZES))


class ActivationRow(c.Structure):
    """The struct ActivationRow of kernels.h."""

    _fields_ = (("name", c.c_char_p), ("coefficients", c.c_int64))


class Job(c.Structure):
    """The struct Job of kernels.h."""

    _fields_ = (
        *((name, c.c_int64) for name in COUNTS),
        *((name, P) for name in ("sizes", "starts", "lengths", "backwards")),
        *((name, P) for name in ("V", "coefficients", "terms")),
        *((name, c.c_int64) for name in ("terms_frame", "terms_direction")),
        ("mask", P),
        ("initial", P * 2),
        ("h", P),
        *((name, P) for name in ("slopes", "extras", "before", "restored")),
        *((name, c.c_int64) for name in ("slopes_frame", "slopes_direction")),
        *((name, c.c_int64) for name in ("before_frame", "before_direction")),
        ("arriving", P),
        ("by_initial", P * 2),
        ("by_coefficients", P),
    )


class Product(c.Structure):
    """The struct Product of kernels.h."""

    _fields_ = (
        *((name, c.c_int64) for name in ("threads", "storage", "rows", "inner", "columns")),
        ("left", P),
        *((name, c.c_int64) for name in ("left_row", "left_column")),
        ("right", P),
        *((name, c.c_int64) for name in ("right_storage", "right_row", "right_column")),
        *((name, P) for name in ("bias", "result")),
        ("result_storage", c.c_int64),
    )


class CrossEntropyJob(c.Structure):
    """The struct CrossEntropyJob of kernels.h."""

    _fields_ = (
        *((name, c.c_int64) for name in ("threads", "storage", "rows", "outputs")),
        *((name, P) for name in ("logits", "labels", "gradient", "losses", "wrong")),
        ("scale", c.c_double),
    )


ON_STRUCTS = {
    "forward": Job,
    "backward": Job,
    "multiply": Product,
    "cross_entropy": CrossEntropyJob,
}
LIBRARY = SharedLibrary(
    Path(__file__).with_name("_kernels.so"),
    "kernels",
    (UnitRow, ActivationRow, Job, Product, CrossEntropyJob),
    {
        **{name: (c.c_int64, [c.c_int64, c.POINTER(kind)]) for name, kind in ON_STRUCTS.items()},
        "units": (c.POINTER(UnitRow), []),
        "activations": (c.POINTER(ActivationRow), []),
        "path": (c.c_char_p, [c.c_int64, c.POINTER(c.c_int64)]),
        "keep_mask": (None, [P, *[c.c_int64] * 4, P]),
        "use_openmp": (None, [P, P]),
    },
)


@cache
def _share_threads() -> None:
    """Let the library work in the threads of torch's OpenMP, which torch makes visible to all."""
    everything = c.CDLL(None)
    with suppress(AttributeError):
        functions = (everything.GOMP_parallel, everything.omp_get_num_threads)
        LIBRARY.call("use_openmp", *(c.cast(f, P) for f in functions))


@cache
def paths() -> dict[str, int]:
    """The paths that this machine has, with their numbers, the fastest last."""
    numbers, usable, number = {}, c.c_int64(), 0
    # The name is NULL behind the last path that was compiled.
    while LIBRARY.usable and (name := LIBRARY.call("path", number, c.byref(usable))):
        if usable.value:
            numbers[name.decode()] = number
        number += 1
    return numbers


@cache
def units() -> dict[str, UnitRow]:
    """Return the compiled units by their names, in the order of their numbers."""
    return _by_name(LIBRARY.call("units")) if LIBRARY.usable else {}


@cache
def activations() -> dict[str, ActivationRow]:
    """Return the compiled activations by their names, in the order of their numbers."""
    return _by_name(LIBRARY.call("activations")) if LIBRARY.usable else {}


def _by_name(rows: Any) -> dict[str, Any]:
    """The rows of a table, behind whose last one is a row without a name."""
    return {row.name.decode(): row for row in takewhile(lambda row: row.name, rows)}


def path() -> str:
    """Return the path to run, or `torch` for none; InputError for a choice that is not there."""
    return _select_path(os.environ.get(PATH_VARIABLE))


def runs_on(device: torch.device) -> bool:
    """Whether compiled code computes on a device: on a CPU, where there is a path to run."""
    return device.type == "cpu" and path() != "torch"


@cache
def _select_path(choice: str | None) -> str:
    usable = ["torch", *paths()]
    if choice and choice not in usable:
        raise InputError(
            f"{PATH_VARIABLE} is {choice}; this machine and installation have {', '.join(usable)}"
        )
    return choice or usable[-1]


def address(x: Tensor | None) -> int | None:
    """Return the address of the numbers of a tensor."""
    return None if x is None else x.data_ptr()


def require(name: str, x: Tensor, shape: tuple[int, ...], *dtypes: torch.dtype) -> Tensor:
    """Return a tensor that passes `check_tensor`, or a contiguous copy of it."""
    return check_tensor(name, x, shape, *dtypes).contiguous()


def check_tensor(name: str, x: Tensor, shape: tuple[int, ...], *dtypes: torch.dtype) -> Tensor:
    """Return a tensor; ValueError unless `shape` on the CPU, of one of the types, by default
    float32.
    """
    dtypes = dtypes or (torch.float32,)
    if x.dtype not in dtypes or x.device.type != "cpu" or x.shape != shape:
        raise ValueError(
            f"{name} is {x.dtype} {list(x.shape)} on {x.device}; compiled code needs "
            f"{' or '.join(map(str, dtypes))} {list(shape)} on cpu"
        )
    return x


def run(function: str, path: str, arguments: c.Structure, task: str) -> None:
    """Call a function of a path; MemoryError about the task where memory does not suffice."""
    _share_threads()
    LIBRARY.run(function, task, paths()[path], c.byref(arguments))


def keep_mask(keys_B: Tensor, start: int, size: int, least: int) -> Tensor:
    """Return masks [B, size]: 1 where the first 24 bits of a hash (`dropout`) are at least `least`.

    start: position of the first number.
    """
    keys = require("keys", keys_B, (len(keys_B),), torch.int64)
    mask = torch.empty(len(keys), size, dtype=torch.float32)
    LIBRARY.call("keep_mask", address(keys), len(keys), start, size, least, address(mask))
    return mask
