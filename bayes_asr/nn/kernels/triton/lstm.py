"""Steps of the LSTM, with and without peepholes, whose states are h and c.

Its extras are the derivatives by each peephole, of h by the new c and of the new c by the old one.
"""

import triton
import triton.language as tl

from bayes_asr.nn.kernels.triton.blocks import (
    add_by_coefficient,
    find_frame,
    follow,
    load_coefficients,
    multiply_backward,
    multiply_forward,
    rows_of_program,
    split_fours,
    store_gradient,
    store_planes,
    units_of_program,
)
from bayes_asr.nn.kernels.triton.functions import logistic, tanh


@triton.jit(do_not_specialize=["t", "B", "padded"])
def forward_lstm(
    sizes,
    terms,
    weights,
    mask,
    coefficients,
    state,
    fed,
    h,
    slopes,
    extras,
    t,
    B,
    padded,
    D: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    SETS: tl.constexpr,
    P: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    STRIPS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """The states after frame t, and their derivatives; the peepholes of i, f and o are p, q, r."""
    rows, units = rows_of_program(D, SETS, ROWS), units_of_program(UNITS)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(sizes, t, row, unit, B, D, H)
    x = terms + frame * (4 * H) + unit
    a_i = tl.load(x, valid, 0.0).to(tl.float32)
    a_f = tl.load(x + H, valid, 0.0).to(tl.float32)
    a_c = tl.load(x + 2 * H, valid, 0.0).to(tl.float32)
    a_o = tl.load(x + 3 * H, valid, 0.0).to(tl.float32)
    m = tl.load(mask + row * H + unit, valid, 0.0)
    at = row * W + unit
    p, q, r = load_coefficients(coefficients, tl.program_id(2), unit, unit < H, H, P)
    follow(OVERLAP)
    held = tl.load(state + at)
    old = tl.load(state + padded * W + at)
    factors = fed + (t % 2) * (padded * W)
    sums = multiply_forward(factors, weights, rows, W, 4, UNITS, STRIPS, DEPTH, PRECISION)
    sums_i, sums_f, sums_c, sums_o = split_fours(sums)
    i, i_minus, _ = logistic(a_i + sums_i + p * old)
    f, f_minus, _ = logistic(a_f + sums_f + q * old)
    g = tanh(a_c + sums_c)
    c = f * old + i * (g * m)
    o, o_minus, _ = logistic(a_o + sums_o + r * c)
    shown = tanh(c)
    by_i, by_f = i * i_minus * (g * m), f * f_minus * old
    by_o = o * o_minus * shown
    slope = slopes + frame * (4 * H) + unit
    tl.store(slope, by_i, alive)
    tl.store(slope + H, by_f, alive)
    tl.store(slope + 2 * H, i * m * (1.0 - g * g), alive)
    tl.store(slope + 3 * H, by_o, alive)
    extra = extras + frame * ((P + 2) * H) + unit
    store_planes(extra, by_i * old, by_f * old, by_o * c, alive, H, P)
    tl.store(extra + P * H, o * (1.0 - shown * shown) + r * by_o, alive)
    tl.store(extra + (P + 1) * H, f + p * by_i + q * by_f, alive)
    new = o * shown
    tl.store(h + frame * H + unit, tl.where(alive, new, held), valid)
    tl.store(state + at, new, alive)
    tl.store(state + padded * W + at, c, alive)
    tl.store(fed + ((t + 1) % 2) * (padded * W) + at, tl.where(alive, new, 0.0))


@triton.jit(do_not_specialize=["t", "B", "padded"])
def backward_lstm(
    sizes,
    weights,
    slopes,
    extras,
    arriving,
    fed_back,
    carry,
    da,
    by_coefficients,
    t,
    B,
    padded,
    D: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    SETS: tl.constexpr,
    P: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    STRIPS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """da_t of the gradients by h_t and c_t; c_t hands back the gradient of c_{t-1}."""
    rows, units = rows_of_program(D, SETS, ROWS), units_of_program(UNITS)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(sizes, t, row, unit, B, D, H)
    extra = extras + frame * ((P + 2) * H) + unit
    carried = carry + row * W + unit
    g = tl.load(arriving + frame * H + unit, valid, 0.0).to(tl.float32)
    h_by_c = tl.load(extra + P * H, valid, 0.0).to(tl.float32)
    c_by_old = tl.load(extra + (P + 1) * H, valid, 0.0).to(tl.float32)
    slope = slopes + frame * (4 * H) + unit
    by_i = tl.load(slope, valid, 0.0).to(tl.float32)
    by_f = tl.load(slope + H, valid, 0.0).to(tl.float32)
    by_c = tl.load(slope + 2 * H, valid, 0.0).to(tl.float32)
    by_o = tl.load(slope + 3 * H, valid, 0.0).to(tl.float32)
    follow(OVERLAP)
    g_c = tl.load(carried)
    factors = fed_back + ((t + 1) % 2) * (padded * (W * 4))
    g += multiply_backward(factors, weights, rows, W, 4, UNITS, STRIPS, DEPTH, PRECISION)
    g_c += h_by_c * g
    tl.store(carried, tl.where(alive, c_by_old * g_c, 0.0))
    at = da + frame * (4 * H) + unit
    back = fed_back + (t % 2) * (padded * (W * 4)) + (row * W + unit) * 4
    store_gradient(at, back, by_i * g_c, alive, valid)
    store_gradient(at + H, back + 1, by_f * g_c, alive, valid)
    store_gradient(at + 2 * H, back + 2, by_c * g_c, alive, valid)
    store_gradient(at + 3 * H, back + 3, by_o * g, alive, valid)
    for k in tl.static_range(P):
        sums = by_coefficients + row * (P * H) + k * H + unit
        add_by_coefficient(sums, extra + k * H, g if k == 2 else g_c, alive)
