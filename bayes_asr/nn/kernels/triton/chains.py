"""The recurrences of `ubru`, whose units do not read one another: all frames in one kernel.

A program computes some units of one row of [B, D]. The log-odds of a frame are, by the l before it,
r + softplus(l + p) - softplus(l + q), to which `ubru` adds the evidence of the frame; `ubru-later`
hands on the sum without it, and adds it for the next frame. `chain` [T, B, D, H] has every l.
"""

import triton
import triton.language as tl

from bayes_asr.nn.kernels.triton.arguments import (
    BackwardOutputs,
    ChainBackwardInputs,
    ChainInputs,
    ChainOutputs,
    Problem,
    Tiling,
)
from bayes_asr.nn.kernels.triton.blocks import load_coefficients, store_planes, units_of_program
from bayes_asr.nn.kernels.triton.functions import softplus


@triton.jit
def count_frames(sizes, row, T, D: tl.constexpr):
    """The number of frames of the sequence of a row."""
    frames = 0
    for start in range(0, T, 128):
        t = start + tl.arange(0, 128)
        frames += tl.sum((tl.load(sizes + t, t < T, 0) > row // D).to(tl.int32), 0)
    return frames


@triton.jit
def load_frame(frames, t, T, stride, unit, H: tl.constexpr):
    """The numbers [UNITS] of frame t; 0 where there is none."""
    units = tl.where((t >= 0) & (t < T), H, 0)
    at = frames + t.to(tl.int64) * stride + unit
    return tl.load(at, unit < units, 0.0).to(tl.float32)


@triton.jit
def fill_spare(frames, values, length, T, stride, real):
    """Store the same numbers [UNITS] at the spare frames of a sequence, from `length` to T."""
    t = length
    for _ in range(length, T):
        tl.store(frames + t.to(tl.int64) * stride, values, real)
        t += 1


@triton.jit
def store_by_initial(at, carry, real, stride, LATER: tl.constexpr):
    """Store the gradient of the chain by its initial state, and 0 by that of h where it has one."""
    if LATER:
        tl.store(at, tl.zeros(carry.shape, tl.float32), real)
        tl.store(at + stride, carry, real)
    else:
        tl.store(at, carry, real)


@triton.jit(do_not_specialize=["T", "B"])
def forward_chain(
    inputs: ChainInputs, outputs: ChainOutputs, T, B, problem: Problem, tiling: Tiling
):
    """The states after all frames."""
    D: tl.constexpr = problem.D
    H: tl.constexpr = problem.H
    LATER: tl.constexpr = problem.STATES > 1
    row, unit = tl.program_id(1), units_of_program(tiling)
    real, stride = unit < H, B * D * H
    at = row * H + unit
    p, q, r = load_coefficients(inputs.coefficients, row % D % problem.SETS, unit, real, H, 3)
    m = tl.load(inputs.mask + at, real, 0.0)
    # The chain is the latter of two states.
    odds = tl.load(inputs.initial + (stride if LATER else 0) + at, real, 0.0)
    length = count_frames(inputs.sizes, row, T, D)
    new = tl.load(inputs.initial + at, real, 0.0)
    # Frames are loaded three steps before they are needed.
    t = length * 0
    x = load_frame(inputs.terms + row * H, t, length, stride, unit, H)
    x_1 = load_frame(inputs.terms + row * H, t + 1, length, stride, unit, H)
    x_2 = load_frame(inputs.terms + row * H, t + 2, length, stride, unit, H)
    # Triton 3.5 would take _, which the loop assigns, for a number that steps hand on.
    for _step in range(length):
        x_3 = load_frame(inputs.terms + row * H, t + 3, length, stride, unit, H)
        frame = t.to(tl.int64) * stride + at
        tl.store(outputs.chain + frame, odds, real)
        present, _ = softplus(odds + p)
        absent, _ = softplus(odds + q)
        new = r + present - absent
        odds = x * m + new
        if not LATER:
            new = odds
        tl.store(outputs.h + frame, new, real)
        x, x_1, x_2 = x_1, x_2, x_3
        t += 1
    fill_spare(outputs.h + at, new, length, T, stride, real)


@triton.jit(do_not_specialize=["T", "B"])
def backward_chain(
    inputs: ChainBackwardInputs,
    outputs: BackwardOutputs,
    T,
    B,
    problem: Problem,
    tiling: Tiling,
):
    """The gradients by all inputs."""
    D: tl.constexpr = problem.D
    H: tl.constexpr = problem.H
    LATER: tl.constexpr = problem.STATES > 1
    row, unit = tl.program_id(1), units_of_program(tiling)
    real, stride = unit < H, B * D * H
    at = row * H + unit
    p, q, _ = load_coefficients(inputs.coefficients, row % D % problem.SETS, unit, real, H, 3)
    m = tl.load(inputs.mask + at, real, 0.0)
    length = count_frames(inputs.sizes, row, T, D)
    nothing = tl.zeros(unit.shape, tl.float32)
    fill_spare(outputs.da + at, nothing, length, T, stride, real)
    t = length - 1
    by_p, by_q, by_r, carry = nothing, nothing, nothing, nothing
    y = load_frame(inputs.arriving + row * H, t, length, stride, unit, H)
    y_1 = load_frame(inputs.arriving + row * H, t - 1, length, stride, unit, H)
    odds = load_frame(inputs.chain + row * H, t, length, stride, unit, H)
    odds_1 = load_frame(inputs.chain + row * H, t - 1, length, stride, unit, H)
    for _step in range(length):
        y_2 = load_frame(inputs.arriving + row * H, t - 2, length, stride, unit, H)
        odds_2 = load_frame(inputs.chain + row * H, t - 2, length, stride, unit, H)
        g = carry + y
        frame = t.to(tl.int64) * stride + at
        tl.store(outputs.da + frame, m * (carry if LATER else g), real)
        _, present = softplus(odds + p)
        _, absent = softplus(odds + q)
        by_p += present * g
        by_q -= absent * g
        by_r += g
        carry = (present - absent) * g
        y, y_1, odds, odds_1 = y_1, y_2, odds_1, odds_2
        t -= 1
    store_by_initial(outputs.by_initial + at, carry, real, stride, LATER)
    store_planes(outputs.by_coefficients + row * (3 * H) + unit, (by_p, by_q, by_r), real, H, 3)
