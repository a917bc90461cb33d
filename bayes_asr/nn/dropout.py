"""Dropout masks that depend on the sequence and on nothing else.

A mask is a hash of (key of the sequence or of its frame, stream, position). It has no generator
state: the same utterance in the same epoch gets the same mask whatever its batch, its neighbours or
the process that trains it, and a resumed run needs nothing restored.
"""

import math

import torch
from torch import Tensor

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.cpu import library

_GOLDEN = -0x61C8864680B583EB  # 2^64 / golden ratio, as a signed 64-bit integer
_FRAME = 0x2545F4914F6CDD1D  # an odd number that is no small multiple of it: frames differ
_MIX = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)  # the multipliers of splitmix64, likewise
_BITS = 24  # of a hash that are compared with the probability


def keep_mask(keys_B: Tensor, stream: int, shape: tuple[int, ...], dropout: float) -> Tensor:
    """Return dropout masks [B, *shape]: 0 with probability `dropout`, otherwise 1.

    keys_B: one 64-bit integer for each sequence, or for each frame (`frame_keys`).
    stream: tells apart the masks of one sequence, such as those of different layers.
    """
    size = torch.Size(shape).numel()
    # Each stream has 2^32 positions. A number is dropped where the first bits of its hash are less
    # than dropout * 2^24, an integer comparison that is the same on every machine.
    start, least = (stream << 32) + 1, math.ceil(dropout * 2**_BITS)
    if library.runs_on(keys_B.device):
        mask = library.keep_mask(keys_B, start, size, least)
    else:
        position = torch.arange(start, start + size, device=keys_B.device)
        mask = _hash(keys_B[:, None] + _GOLDEN * position[None, :]) >= least
    return mask.to(torch.get_default_dtype()).view(len(keys_B), *shape)


def drop(x_NX: Tensor, keys: Tensor | None, stream: int, dropout: float) -> Tensor:
    """Drop each number of x with probability `dropout`, and scale the others up.

    keys: one for each row (`frame_keys`); None: no dropout. stream: see `keep_mask`.
    """
    if keys is None or not dropout:
        return x_NX
    return x_NX * (keep_mask(keys, stream, x_NX.shape[1:], dropout) / (1 - dropout))


def frame_keys(keys_B: Tensor, frames: PackedFrames) -> Tensor:
    """Return a key for each frame [N], from those of the sequences and the time in them."""
    return keys_B[frames.sequence] + _FRAME * frames.time


def _hash(x: Tensor) -> Tensor:
    """The first bits of splitmix64 (Steele, Lea & Flood 2014) of 64-bit integers."""
    for shift, factor in zip((30, 27), _MIX, strict=True):
        x = (x ^ _shift_right(x, shift)) * factor
    return _shift_right(x, 64 - _BITS)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Shift in zeros from the left; torch's own shift of signed integers repeats the sign bit."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
