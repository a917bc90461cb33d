"""Steps of units with one state and no reset: rnn, mixing, li-bru and its other means.

Their extras are the derivatives by each coefficient and, where a unit mixes, by the old state.
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
    split_pairs,
    store_gradient,
    store_planes,
    units_of_program,
)
from bayes_asr.nn.kernels.triton.functions import activate, log_mix, logistic, mix


@triton.jit(do_not_specialize=["t", "B", "padded"])
def forward_plain(
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
    G: tl.constexpr,
    SETS: tl.constexpr,
    P: tl.constexpr,
    UNIT: tl.constexpr,
    ACTIVATION: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    STRIPS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """The state after frame t, and its derivatives."""
    rows, units = rows_of_program(D, SETS, ROWS), units_of_program(UNITS)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(sizes, t, row, unit, B, D, H)
    x = terms + frame * (G * H) + unit
    a = tl.load(x, valid, 0.0).to(tl.float32)
    if G > 1:
        a_c = tl.load(x + H, valid, 0.0).to(tl.float32)
    m = tl.load(mask + row * H + unit, valid, 0.0)
    p, q, r = load_coefficients(coefficients, tl.program_id(2), unit, unit < H, H, P)
    follow(OVERLAP)
    old = tl.load(state + row * W + unit)
    factors = fed + (t % 2) * (padded * W)
    sums = multiply_forward(factors, weights, rows, W, G, UNITS, STRIPS, DEPTH, PRECISION)
    E: tl.constexpr = P + G - 1
    slope = slopes + frame * (G * H) + unit
    extra = extras + frame * (E * H) + unit
    if UNIT == "rnn":
        f, by_a, by_p, by_q, by_r = activate(a + sums, p, q, r, ACTIVATION)
        new = f * m
        tl.store(slope, by_a * m, alive)
        store_planes(extra, by_p * m, by_q * m, by_r * m, alive, H, P)
    else:
        sums_z, sums_c = split_pairs(sums)
        if UNIT == "mixing":
            z, z_minus, _ = logistic(a + sums_z)
            new, by_z, by_c, by_p, by_q, by_r = mix(
                z, z_minus, a_c + sums_c, old, m, p, q, r, ACTIVATION
            )
            share = z_minus
            store_planes(extra, by_p, by_q, by_r, alive, H, P)
        else:
            STATE: tl.constexpr = -1.0 if UNIT == "log-li-bru" else 1.0
            OUTSIDE: tl.constexpr = 1.0 if UNIT == "harmonic-li-bru" else -1.0
            INSIDE: tl.constexpr = -1.0 if UNIT == "li-bru" else 1.0
            a_z, a_c = a + sums_z, a_c + sums_c
            new, by_z, by_c, share = log_mix(a_z, a_c, old, m, STATE, OUTSIDE, INSIDE)
        tl.store(slope, by_z, alive)
        tl.store(slope + H, by_c, alive)
        tl.store(extra + P * H, share, alive)
    tl.store(h + frame * H + unit, tl.where(alive, new, old), valid)
    tl.store(state + row * W + unit, new, alive)
    tl.store(fed + ((t + 1) % 2) * (padded * W) + row * W + unit, tl.where(alive, new, 0.0))


@triton.jit(do_not_specialize=["t", "B", "padded"])
def backward_plain(
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
    G: tl.constexpr,
    SETS: tl.constexpr,
    P: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    STRIPS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """da_t = slopes g_t of the gradient g_t by the state after frame t.

    g_t is what arrives, what the state hands back and da_{t+1} V^T.
    """
    rows, units = rows_of_program(D, SETS, ROWS), units_of_program(UNITS)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(sizes, t, row, unit, B, D, H)
    E: tl.constexpr = P + G - 1
    extra = extras + frame * (E * H) + unit
    carried = carry + row * W + unit
    g = tl.load(arriving + frame * H + unit, valid, 0.0).to(tl.float32)
    slope = slopes + frame * (G * H) + unit
    by_a = tl.load(slope, valid, 0.0).to(tl.float32)
    if G > 1:
        by_c = tl.load(slope + H, valid, 0.0).to(tl.float32)
        share = tl.load(extra + P * H, valid, 0.0).to(tl.float32)
    follow(OVERLAP)
    if G > 1:
        g += tl.load(carried)
    factors = fed_back + ((t + 1) % 2) * (padded * (W * G))
    g += multiply_backward(factors, weights, rows, W, G, UNITS, STRIPS, DEPTH, PRECISION)
    at = da + frame * (G * H) + unit
    back = fed_back + (t % 2) * (padded * (W * G)) + (row * W + unit) * G
    store_gradient(at, back, by_a * g, alive, valid)
    if G > 1:
        store_gradient(at + H, back + 1, by_c * g, alive, valid)
        tl.store(carried, tl.where(alive, share * g, 0.0))
    for k in tl.static_range(P):
        sums = by_coefficients + row * (P * H) + k * H + unit
        add_by_coefficient(sums, extra + k * H, g, alive)


@triton.jit(do_not_specialize=["B", "padded"])
def backward_start(
    weights,
    fed_back,
    carry,
    by_initial,
    B,
    padded,
    D: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    G: tl.constexpr,
    SETS: tl.constexpr,
    STATES: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    STRIPS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """The gradients by the states before the leading frame, of any unit.

    What a unit with two states hands back is the gradient of the other one.
    """
    rows, units = rows_of_program(D, SETS, ROWS), units_of_program(UNITS)
    row, unit = rows[:, None], units[None, :]
    valid = (row < B * D) & (unit < H)
    follow(OVERLAP)
    handed = tl.load(carry + row * W + unit)
    g = multiply_backward(fed_back, weights, rows, W, G, UNITS, STRIPS, DEPTH, PRECISION)
    at = by_initial + row * H + unit
    if STATES > 1:
        tl.store(at, g, valid)
        tl.store(at + B * D * H, handed, valid)
    else:
        tl.store(at, g + handed, valid)
