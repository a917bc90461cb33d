"""The recurrences of `ubru` with gates: all frames in one kernel, as in `chains`.

The terms of a frame are the logits s and n of its two probabilities, less their first values, and
its evidence. `chain` [T, B, D, 3, H] has the derivatives of the state that goes on, by s, by n and
by the one before.
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
from bayes_asr.nn.kernels.triton.blocks import store_planes, units_of_program
from bayes_asr.nn.kernels.triton.chains import (
    count_frames,
    fill_spare,
    load_frame,
    store_by_initial,
)
from bayes_asr.nn.kernels.triton.functions import log1p, logistic, softplus
from bayes_asr.nn.units.unitwise import FIRST_LOGIT

FIRST = tl.constexpr(FIRST_LOGIT)


@triton.jit
def load_gates(terms, t, T, stride, unit, H: tl.constexpr):
    """s, n and the evidence [UNITS] of frame t."""
    return (
        load_frame(terms, t, T, 3 * stride, unit, H) + FIRST,
        load_frame(terms + H, t, T, 3 * stride, unit, H) - FIRST,
        load_frame(terms + 2 * H, t, T, 3 * stride, unit, H),
    )


@triton.jit
def step_filter(s, n, odds):
    """The log-odds of the next frame by those of a frame, and their derivatives by s, n and odds.

    They are n + softplus(odds + p) - softplus(odds + q), with p the logarithm of the ratio of the
    probabilities, and q that of the ratio of their complements.
    """
    by_s, by_s_minus, e_s = logistic(s)
    by_n, by_n_minus, e_n = logistic(n)
    tails = log1p(e_n) - log1p(e_s)
    f, present = softplus(odds + tl.minimum(s, 0.0) - tl.minimum(n, 0.0) + tails)
    g, absent = softplus(odds + tl.maximum(n, 0.0) - tl.maximum(s, 0.0) + tails)
    return (
        n + f - g,
        present * by_s_minus + absent * by_s,
        (1.0 - present) * by_n_minus + (1.0 - absent) * by_n,
        present - absent,
    )


@triton.jit
def step_later(s, n, odds):
    """The message to the frame before, and its derivatives by s, n and odds.

    It is softplus(odds + s) - softplus(odds + n) less the same at odds = 0 of complements.
    """
    by_s, _, e_s = logistic(s)
    by_n, _, e_n = logistic(n)
    f, present = softplus(odds + s)
    g, absent = softplus(odds + n)
    at_zero = tl.maximum(n, 0.0) - tl.maximum(s, 0.0) + log1p(e_n) - log1p(e_s)
    return at_zero + f - g, present - by_s, by_n - absent, present - absent


@triton.jit(do_not_specialize=["T", "B"])
def forward_gated_chain(
    inputs: ChainInputs, outputs: ChainOutputs, T, B, problem: Problem, tiling: Tiling
):
    """The states after all frames."""
    D: tl.constexpr = problem.D
    H: tl.constexpr = problem.H
    LATER: tl.constexpr = problem.STATES > 1
    row, unit = tl.program_id(1), units_of_program(tiling)
    real, stride = unit < H, B * D * H
    at = row * H + unit
    m = tl.load(inputs.mask + at, real, 0.0)
    new = tl.load(inputs.initial + at, real, 0.0)
    odds = tl.load(inputs.initial + (stride if LATER else 0) + at, real, 0.0)
    length = count_frames(inputs.sizes, row, T, D)
    gates = inputs.terms + row * (3 * H)
    # Frames are loaded two steps before they are needed.
    t = length * 0
    s, n, x = load_gates(gates, t, length, stride, unit, H)
    s_1, n_1, x_1 = load_gates(gates, t + 1, length, stride, unit, H)
    for _ in range(length):
        s_2, n_2, x_2 = load_gates(gates, t + 2, length, stride, unit, H)
        frame = t.to(tl.int64) * stride
        if LATER:
            new = odds
            odds, by_s, by_n, share = step_later(s, n, odds + x * m)
        else:
            odds, by_s, by_n, share = step_filter(s, n, odds)
            odds += x * m
            new = odds
        tl.store(outputs.h + frame + at, new, real)
        slopes = outputs.chain + 3 * frame + row * (3 * H) + unit
        store_planes(slopes, (by_s, by_n, share), real, H, 3)
        s, n, x, s_1, n_1, x_1 = s_1, n_1, x_1, s_2, n_2, x_2
        t += 1
    fill_spare(outputs.h + at, new, length, T, stride, real)


@triton.jit(do_not_specialize=["T", "B"])
def backward_gated_chain(
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
    at, of_gates = row * H + unit, row * (3 * H)
    m = tl.load(inputs.mask + at, real, 0.0)
    length = count_frames(inputs.sizes, row, T, D)
    nothing = tl.zeros(unit.shape, tl.float32)
    for gate in tl.static_range(3):
        fill_spare(outputs.da + of_gates + gate * H + unit, nothing, length, T, 3 * stride, real)
    t = length - 1
    slopes, carry = inputs.chain + of_gates, nothing
    y = load_frame(inputs.arriving + row * H, t, length, stride, unit, H)
    by_s = load_frame(slopes, t, length, 3 * stride, unit, H)
    by_n = load_frame(slopes + H, t, length, 3 * stride, unit, H)
    share = load_frame(slopes + 2 * H, t, length, 3 * stride, unit, H)
    for _ in range(length):
        y_1 = load_frame(inputs.arriving + row * H, t - 1, length, stride, unit, H)
        by_s_1 = load_frame(slopes, t - 1, length, 3 * stride, unit, H)
        by_n_1 = load_frame(slopes + H, t - 1, length, 3 * stride, unit, H)
        share_1 = load_frame(slopes + 2 * H, t - 1, length, 3 * stride, unit, H)
        g = carry if LATER else carry + y
        by = outputs.da + 3 * t.to(tl.int64) * stride + of_gates + unit
        store_planes(by, (by_s * g, by_n * g, m * (share * g if LATER else g)), real, H, 3)
        carry = share * g + (y if LATER else 0.0)
        y, by_s, by_n, share = y_1, by_s_1, by_n_1, share_1
        t -= 1
    store_by_initial(outputs.by_initial + at, carry, real, stride, LATER)
