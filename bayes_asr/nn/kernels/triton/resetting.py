"""Steps of units that reset their state for the candidate: gru, mgu, minimal-gru.

A step is two kernels, since the candidate's product needs the reset states of all units. Gates are
those before the candidate: z and r, or one that is both. Extras are the derivatives by each
coefficient, by the old state, of r h by h and of r h by the pre-activation of r.
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
from bayes_asr.nn.kernels.triton.functions import logistic, mix


@triton.jit(do_not_specialize=["t", "B", "padded"])
def forward_gates(
    sizes,
    terms,
    weights,
    state,
    fed,
    gates,
    inner,
    restored,
    t,
    B,
    padded,
    D: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    G: tl.constexpr,
    SETS: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    STRIPS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """The pre-activations of the gates of frame t, and the reset state r h."""
    rows, units = rows_of_program(D, SETS, ROWS), units_of_program(UNITS)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(sizes, t, row, unit, B, D, H)
    x = terms + frame * (G * H) + unit
    at = row * W + unit
    a = tl.load(x, valid, 0.0).to(tl.float32)
    if G == 3:
        a_r = tl.load(x + H, valid, 0.0).to(tl.float32)
    follow(OVERLAP)
    old = tl.load(state + at)
    factors = fed + (t % 2) * (padded * W)
    sums = multiply_forward(factors, weights, rows, W, G - 1, UNITS, STRIPS, DEPTH, PRECISION)
    if G == 3:
        sums, sums_r = split_pairs(sums)
        tl.store(gates + at, a + sums)
        a, sums = a_r, sums_r
    tl.store(gates + (G - 2) * (padded * W) + at, a + sums)
    r, _, _ = logistic(a + sums)
    tl.store(restored + frame * H + unit, r * old, alive)
    tl.store(inner + at, tl.where(alive, r * old, 0.0))


@triton.jit(do_not_specialize=["t", "B", "padded"])
def forward_candidate(
    sizes,
    terms,
    candidate_weights,
    mask,
    coefficients,
    state,
    fed,
    gates,
    inner,
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
    at = row * W + unit
    a = tl.load(terms + frame * (G * H) + (G - 1) * H + unit, valid, 0.0).to(tl.float32)
    m = tl.load(mask + row * H + unit, valid, 0.0)
    p, q, s = load_coefficients(coefficients, tl.program_id(2), unit, unit < H, H, P)
    follow(OVERLAP)
    old = tl.load(state + at)
    a_z = tl.load(gates + at)
    r, r_minus, _ = logistic(tl.load(gates + (G - 2) * (padded * W) + at))
    a += multiply_forward(inner, candidate_weights, rows, W, 1, UNITS, STRIPS, DEPTH, PRECISION)
    # minimal-gru mixes by the gate that its reset has not.
    SIGN: tl.constexpr = -1.0 if UNIT == "minimal-gru" else 1.0
    z, z_minus, _ = logistic(SIGN * a_z)
    new, by_z, by_c, by_p, by_q, by_s = mix(z, z_minus, a, old, m, p, q, s, ACTIVATION)
    slope = slopes + frame * (2 * H) + unit
    tl.store(slope, SIGN * by_z, alive)
    tl.store(slope + H, by_c, alive)
    extra = extras + frame * ((P + 3) * H) + unit
    store_planes(extra, by_p, by_q, by_s, alive, H, P)
    store_planes(extra + P * H, z_minus, r, old * r * r_minus, alive, H, 3)
    tl.store(h + frame * H + unit, tl.where(alive, new, old), valid)
    tl.store(state + at, new, alive)
    tl.store(fed + ((t + 1) % 2) * (padded * W) + at, tl.where(alive, new, 0.0))


@triton.jit(do_not_specialize=["t", "B", "padded"])
def backward_candidate(
    sizes,
    weights,
    slopes,
    extras,
    arriving,
    fed_back,
    inner_back,
    carry,
    waiting,
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
    """da_t of the candidate; what mixing owes to its gate waits for what the reset does."""
    rows, units = rows_of_program(D, SETS, ROWS), units_of_program(UNITS)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(sizes, t, row, unit, B, D, H)
    at = row * W + unit
    slope = slopes + frame * (2 * H) + unit
    extra = extras + frame * ((P + 3) * H) + unit
    g = tl.load(arriving + frame * H + unit, valid, 0.0).to(tl.float32)
    by_z = tl.load(slope, valid, 0.0).to(tl.float32)
    by_c = tl.load(slope + H, valid, 0.0).to(tl.float32)
    share = tl.load(extra + P * H, valid, 0.0).to(tl.float32)
    follow(OVERLAP)
    g += tl.load(carry + at)
    factors = fed_back + ((t + 1) % 2) * (padded * W * (G - 1))
    g += multiply_backward(factors, weights, rows, W, G - 1, UNITS, STRIPS, DEPTH, PRECISION)
    tl.store(carry + at, tl.where(alive, share * g, 0.0))
    tl.store(waiting + at, by_z * g)
    candidate = da + frame * (G * H) + (G - 1) * H + unit
    store_gradient(candidate, inner_back + at, by_c * g, alive, valid)
    for k in tl.static_range(P):
        sums = by_coefficients + row * (P * H) + k * H + unit
        add_by_coefficient(sums, extra + k * H, g, alive)


@triton.jit(do_not_specialize=["t", "B", "padded"])
def backward_gates(
    sizes,
    candidate_weights,
    extras,
    fed_back,
    inner_back,
    carry,
    waiting,
    da,
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
    """da_t of the gates, by the gradient of the reset state."""
    rows, units = rows_of_program(D, SETS, ROWS), units_of_program(UNITS)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(sizes, t, row, unit, B, D, H)
    at = row * W + unit
    extra = extras + frame * ((P + 3) * H) + unit
    r = tl.load(extra + (P + 1) * H, valid, 0.0).to(tl.float32)
    by_r = tl.load(extra + (P + 2) * H, valid, 0.0).to(tl.float32)
    follow(OVERLAP)
    handed, da_z = tl.load(carry + at), tl.load(waiting + at)
    g = multiply_backward(
        inner_back, candidate_weights, rows, W, 1, UNITS, STRIPS, DEPTH, PRECISION
    )
    tl.store(carry + at, tl.where(alive, handed + r * g, 0.0))
    da_r = by_r * g
    gate = da + frame * (G * H) + unit
    back = fed_back + (t % 2) * (padded * W * (G - 1)) + at * (G - 1)
    if G == 2:
        da_r += da_z
    else:
        store_gradient(gate, back, da_z, alive, valid)
    store_gradient(gate + (G - 2) * H, back + (G - 2), da_r, alive, valid)
