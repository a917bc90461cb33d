"""Steps of units that reset their state for the candidate: gru, mgu, minimal-gru.

A step is two kernels, since the candidate's product needs the reset states of all units. Gates are
those before the candidate: z and r, or one that is both. Extras are the derivatives by each
coefficient, by the old state, of r h by h and of r h by the pre-activation of r.
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
from bayes_asr.nn.kernels.triton.functions import logistic, mix


@triton.jit(do_not_specialize=["t", "B"])
def forward_gates(
    inputs: ForwardInputs,
    carry: ForwardCarry,
    outputs: ForwardOutputs,
    t,
    B,
    problem: Problem,
    tiling: Tiling,
):
    """The pre-activations of the gates of frame t, and the reset state r h."""
    H: tl.constexpr = problem.H
    W: tl.constexpr = problem.W
    G: tl.constexpr = problem.G
    rows, units = rows_of_program(problem, tiling), units_of_program(tiling)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(inputs.sizes, t, row, unit, B, problem)
    x = inputs.terms + frame * (G * H) + unit
    at = row * W + unit
    a = tl.load(x, valid, 0.0).to(tl.float32)
    if G == 3:
        a_r = tl.load(x + H, valid, 0.0).to(tl.float32)
    follow(tiling)
    old = tl.load(carry.state + at)
    factors = carry.fed + (t % 2) * (carry.padded * W)
    sums = multiply_forward(factors, inputs.weights, rows, W, G - 1, tiling)
    if G == 3:
        sums, sums_r = split_pairs(sums)
        tl.store(carry.gates + at, a + sums)
        a, sums = a_r, sums_r
    tl.store(carry.gates + (G - 2) * (carry.padded * W) + at, a + sums)
    r, _, _ = logistic(a + sums)
    tl.store(outputs.restored + frame * H + unit, r * old, alive)
    tl.store(carry.inner + at, tl.where(alive, r * old, 0.0))


@triton.jit(do_not_specialize=["t", "B"])
def forward_candidate(
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
    at = row * W + unit
    a = tl.load(inputs.terms + frame * (G * H) + (G - 1) * H + unit, valid, 0.0).to(tl.float32)
    m = tl.load(inputs.mask + row * H + unit, valid, 0.0)
    coefficients = load_coefficients(inputs.coefficients, tl.program_id(2), unit, unit < H, H, P)
    follow(tiling)
    old = tl.load(carry.state + at)
    a_z = tl.load(carry.gates + at)
    r, r_minus, _ = logistic(tl.load(carry.gates + (G - 2) * (carry.padded * W) + at))
    a += multiply_forward(carry.inner, inputs.candidate_weights, rows, W, 1, tiling)
    # minimal-gru mixes by the gate that its reset has not.
    SIGN: tl.constexpr = -1.0 if problem.UNIT == "minimal-gru" else 1.0
    z, z_minus, _ = logistic(SIGN * a_z)
    new, by_z, by_c, by = mix(z, z_minus, a, old, m, coefficients, problem.ACTIVATION)
    slope = outputs.slopes + frame * (2 * H) + unit
    tl.store(slope, SIGN * by_z, alive)
    tl.store(slope + H, by_c, alive)
    extra = outputs.extras + frame * ((P + 3) * H) + unit
    store_planes(extra, by, alive, H, P)
    store_planes(extra + P * H, (z_minus, r, old * r * r_minus), alive, H, 3)
    tl.store(outputs.h + frame * H + unit, tl.where(alive, new, old), valid)
    tl.store(carry.state + at, new, alive)
    tl.store(carry.fed + ((t + 1) % 2) * (carry.padded * W) + at, tl.where(alive, new, 0.0))


@triton.jit(do_not_specialize=["t", "B"])
def backward_candidate(
    inputs: BackwardInputs,
    carry: BackwardCarry,
    outputs: BackwardOutputs,
    t,
    B,
    problem: Problem,
    tiling: Tiling,
):
    """da_t of the candidate; what mixing owes to its gate waits for what the reset does."""
    H: tl.constexpr = problem.H
    W: tl.constexpr = problem.W
    G: tl.constexpr = problem.G
    P: tl.constexpr = problem.P
    rows, units = rows_of_program(problem, tiling), units_of_program(tiling)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(inputs.sizes, t, row, unit, B, problem)
    at = row * W + unit
    slope = inputs.slopes + frame * (2 * H) + unit
    extra = inputs.extras + frame * ((P + 3) * H) + unit
    g = tl.load(inputs.arriving + frame * H + unit, valid, 0.0).to(tl.float32)
    by_z = tl.load(slope, valid, 0.0).to(tl.float32)
    by_c = tl.load(slope + H, valid, 0.0).to(tl.float32)
    share = tl.load(extra + P * H, valid, 0.0).to(tl.float32)
    follow(tiling)
    g += tl.load(carry.gradient + at)
    factors = carry.fed_back + ((t + 1) % 2) * (carry.padded * W * (G - 1))
    g += multiply_backward(factors, inputs.weights, rows, W, G - 1, tiling)
    tl.store(carry.gradient + at, tl.where(alive, share * g, 0.0))
    tl.store(carry.waiting + at, by_z * g)
    candidate = outputs.da + frame * (G * H) + (G - 1) * H + unit
    store_gradient(candidate, carry.inner_back + at, by_c * g, alive, valid)
    for k in tl.static_range(P):
        sums = outputs.by_coefficients + row * (P * H) + k * H + unit
        add_by_coefficient(sums, extra + k * H, g, alive)


@triton.jit(do_not_specialize=["t", "B"])
def backward_gates(
    inputs: BackwardInputs,
    carry: BackwardCarry,
    outputs: BackwardOutputs,
    t,
    B,
    problem: Problem,
    tiling: Tiling,
):
    """da_t of the gates, by the gradient of the reset state."""
    H: tl.constexpr = problem.H
    W: tl.constexpr = problem.W
    G: tl.constexpr = problem.G
    P: tl.constexpr = problem.P
    rows, units = rows_of_program(problem, tiling), units_of_program(tiling)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(inputs.sizes, t, row, unit, B, problem)
    at = row * W + unit
    extra = inputs.extras + frame * ((P + 3) * H) + unit
    r = tl.load(extra + (P + 1) * H, valid, 0.0).to(tl.float32)
    by_r = tl.load(extra + (P + 2) * H, valid, 0.0).to(tl.float32)
    follow(tiling)
    handed, da_z = tl.load(carry.gradient + at), tl.load(carry.waiting + at)
    g = multiply_backward(carry.inner_back, inputs.candidate_weights, rows, W, 1, tiling)
    tl.store(carry.gradient + at, tl.where(alive, handed + r * g, 0.0))
    da_r = by_r * g
    gate = outputs.da + frame * (G * H) + unit
    back = carry.fed_back + (t % 2) * (carry.padded * W * (G - 1)) + at * (G - 1)
    if G == 2:
        da_r += da_z
    else:
        store_gradient(gate, back, da_z, alive, valid)
    store_gradient(gate + (G - 2) * H, back + (G - 2), da_r, alive, valid)
