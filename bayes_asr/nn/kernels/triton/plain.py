"""Steps of units with one state and no reset: rnn, mixing, li-bru and its other means.

Their extras are the derivatives by each coefficient and, where a unit mixes, by the old state.
"""

import triton
import triton.language as tl

from bayes_asr.nn.kernels.triton.arguments import (
    BackwardCarry,
    BackwardInputs,
    BackwardOutputs,
    ForwardCarry,
    ForwardInputs,
    ForwardOutputs,
    Problem,
    Tiling,
)
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
from bayes_asr.nn.kernels.triton.functions import activate, log_mix, logistic, mix, scale


@triton.jit(do_not_specialize=["t", "B"])
def forward_plain(
    inputs: ForwardInputs,
    carry: ForwardCarry,
    outputs: ForwardOutputs,
    t,
    B,
    problem: Problem,
    tiling: Tiling,
):
    """The state after frame t, and its derivatives."""
    H: tl.constexpr = problem.H
    W: tl.constexpr = problem.W
    G: tl.constexpr = problem.G
    P: tl.constexpr = problem.P
    rows, units = rows_of_program(problem, tiling), units_of_program(tiling)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(inputs.sizes, t, row, unit, B, problem)
    x = inputs.terms + frame * (G * H) + unit
    a = tl.load(x, valid, 0.0).to(tl.float32)
    if G > 1:
        a_c = tl.load(x + H, valid, 0.0).to(tl.float32)
    m = tl.load(inputs.mask + row * H + unit, valid, 0.0)
    coefficients = load_coefficients(inputs.coefficients, tl.program_id(2), unit, unit < H, H, P)
    follow(tiling)
    old = tl.load(carry.state + row * W + unit)
    factors = carry.fed + (t % 2) * (carry.padded * W)
    sums = multiply_forward(factors, inputs.weights, rows, W, G, tiling)
    E: tl.constexpr = P + G - 1
    slope = outputs.slopes + frame * (G * H) + unit
    extra = outputs.extras + frame * (E * H) + unit
    if problem.UNIT == "rnn":
        f, by_a, by = activate(a + sums, coefficients, problem.ACTIVATION)
        new = f * m
        tl.store(slope, by_a * m, alive)
        store_planes(extra, scale(by, m), alive, H, P)
    else:
        sums_z, sums_c = split_pairs(sums)
        if problem.UNIT == "mixing":
            z, z_minus, _ = logistic(a + sums_z)
            a_c += sums_c
            new, by_z, by_c, by = mix(z, z_minus, a_c, old, m, coefficients, problem.ACTIVATION)
            share = z_minus
            store_planes(extra, by, alive, H, P)
        else:
            STATE: tl.constexpr = -1.0 if problem.UNIT == "log-li-bru" else 1.0
            OUTSIDE: tl.constexpr = 1.0 if problem.UNIT == "harmonic-li-bru" else -1.0
            INSIDE: tl.constexpr = -1.0 if problem.UNIT == "li-bru" else 1.0
            a_z, a_c = a + sums_z, a_c + sums_c
            new, by_z, by_c, share = log_mix(a_z, a_c, old, m, STATE, OUTSIDE, INSIDE)
        tl.store(slope, by_z, alive)
        tl.store(slope + H, by_c, alive)
        tl.store(extra + P * H, share, alive)
    tl.store(outputs.h + frame * H + unit, tl.where(alive, new, old), valid)
    tl.store(carry.state + row * W + unit, new, alive)
    tl.store(
        carry.fed + ((t + 1) % 2) * (carry.padded * W) + row * W + unit, tl.where(alive, new, 0.0)
    )


@triton.jit(do_not_specialize=["t", "B"])
def backward_plain(
    inputs: BackwardInputs,
    carry: BackwardCarry,
    outputs: BackwardOutputs,
    t,
    B,
    problem: Problem,
    tiling: Tiling,
):
    """da_t = slopes g_t of the gradient g_t by the state after frame t.

    g_t is what arrives, what the state hands back and da_{t+1} V^T.
    """
    H: tl.constexpr = problem.H
    W: tl.constexpr = problem.W
    G: tl.constexpr = problem.G
    P: tl.constexpr = problem.P
    rows, units = rows_of_program(problem, tiling), units_of_program(tiling)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(inputs.sizes, t, row, unit, B, problem)
    E: tl.constexpr = P + G - 1
    extra = inputs.extras + frame * (E * H) + unit
    carried = carry.gradient + row * W + unit
    g = tl.load(inputs.arriving + frame * H + unit, valid, 0.0).to(tl.float32)
    slope = inputs.slopes + frame * (G * H) + unit
    by_a = tl.load(slope, valid, 0.0).to(tl.float32)
    if G > 1:
        by_c = tl.load(slope + H, valid, 0.0).to(tl.float32)
        share = tl.load(extra + P * H, valid, 0.0).to(tl.float32)
    follow(tiling)
    if G > 1:
        g += tl.load(carried)
    factors = carry.fed_back + ((t + 1) % 2) * (carry.padded * (W * G))
    g += multiply_backward(factors, inputs.weights, rows, W, G, tiling)
    at = outputs.da + frame * (G * H) + unit
    back = carry.fed_back + (t % 2) * (carry.padded * (W * G)) + (row * W + unit) * G
    store_gradient(at, back, by_a * g, alive, valid)
    if G > 1:
        store_gradient(at + H, back + 1, by_c * g, alive, valid)
        tl.store(carried, tl.where(alive, share * g, 0.0))
    for k in tl.static_range(P):
        sums = outputs.by_coefficients + row * (P * H) + k * H + unit
        add_by_coefficient(sums, extra + k * H, g, alive)


@triton.jit(do_not_specialize=["B"])
def backward_start(
    inputs: BackwardInputs,
    carry: BackwardCarry,
    outputs: BackwardOutputs,
    B,
    problem: Problem,
    tiling: Tiling,
):
    """The gradients by the states before the leading frame, of any unit.

    What a unit with two states hands back is the gradient of the other one.
    """
    D: tl.constexpr = problem.D
    H: tl.constexpr = problem.H
    W: tl.constexpr = problem.W
    G: tl.constexpr = problem.SUMMED
    rows, units = rows_of_program(problem, tiling), units_of_program(tiling)
    row, unit = rows[:, None], units[None, :]
    valid = (row < B * D) & (unit < H)
    follow(tiling)
    handed = tl.load(carry.gradient + row * W + unit)
    g = multiply_backward(carry.fed_back, inputs.weights, rows, W, G, tiling)
    at = outputs.by_initial + row * H + unit
    if problem.STATES > 1:
        tl.store(at, g, valid)
        tl.store(at + B * D * H, handed, valid)
    else:
        tl.store(at, g + handed, valid)
