"""Steps of the LSTM, with and without peepholes, whose states are h and c.

Its extras are the derivatives by each peephole, of h by the new c and of the new c by the old one.
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
    split_fours,
    store_gradient,
    store_planes,
    units_of_program,
)
from bayes_asr.nn.kernels.triton.functions import logistic, tanh


@triton.jit(do_not_specialize=["t", "B"])
def forward_lstm(
    inputs: ForwardInputs,
    carry: ForwardCarry,
    outputs: ForwardOutputs,
    t,
    B,
    problem: Problem,
    tiling: Tiling,
):
    """The states after frame t, and their derivatives; the peepholes of i, f and o are p, q, r."""
    H: tl.constexpr = problem.H
    W: tl.constexpr = problem.W
    P: tl.constexpr = problem.P
    rows, units = rows_of_program(problem, tiling), units_of_program(tiling)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(inputs.sizes, t, row, unit, B, problem)
    x = inputs.terms + frame * (4 * H) + unit
    a_i = tl.load(x, valid, 0.0).to(tl.float32)
    a_f = tl.load(x + H, valid, 0.0).to(tl.float32)
    a_c = tl.load(x + 2 * H, valid, 0.0).to(tl.float32)
    a_o = tl.load(x + 3 * H, valid, 0.0).to(tl.float32)
    m = tl.load(inputs.mask + row * H + unit, valid, 0.0)
    at = row * W + unit
    p, q, r = load_coefficients(inputs.coefficients, tl.program_id(2), unit, unit < H, H, P)
    follow(tiling)
    held = tl.load(carry.state + at)
    old = tl.load(carry.state + carry.padded * W + at)
    factors = carry.fed + (t % 2) * (carry.padded * W)
    sums = multiply_forward(factors, inputs.weights, rows, W, 4, tiling)
    sums_i, sums_f, sums_c, sums_o = split_fours(sums)
    i, i_minus, _ = logistic(a_i + sums_i + p * old)
    f, f_minus, _ = logistic(a_f + sums_f + q * old)
    g = tanh(a_c + sums_c)
    c = f * old + i * (g * m)
    o, o_minus, _ = logistic(a_o + sums_o + r * c)
    shown = tanh(c)
    by_i, by_f = i * i_minus * (g * m), f * f_minus * old
    by_o = o * o_minus * shown
    slope = outputs.slopes + frame * (4 * H) + unit
    tl.store(slope, by_i, alive)
    tl.store(slope + H, by_f, alive)
    tl.store(slope + 2 * H, i * m * (1.0 - g * g), alive)
    tl.store(slope + 3 * H, by_o, alive)
    extra = outputs.extras + frame * ((P + 2) * H) + unit
    store_planes(extra, (by_i * old, by_f * old, by_o * c), alive, H, P)
    tl.store(extra + P * H, o * (1.0 - shown * shown) + r * by_o, alive)
    tl.store(extra + (P + 1) * H, f + p * by_i + q * by_f, alive)
    new = o * shown
    tl.store(outputs.h + frame * H + unit, tl.where(alive, new, held), valid)
    tl.store(carry.state + at, new, alive)
    tl.store(carry.state + carry.padded * W + at, c, alive)
    tl.store(carry.fed + ((t + 1) % 2) * (carry.padded * W) + at, tl.where(alive, new, 0.0))


@triton.jit(do_not_specialize=["t", "B"])
def backward_lstm(
    inputs: BackwardInputs,
    carry: BackwardCarry,
    outputs: BackwardOutputs,
    t,
    B,
    problem: Problem,
    tiling: Tiling,
):
    """da_t of the gradients by h_t and c_t; c_t hands back the gradient of c_{t-1}."""
    H: tl.constexpr = problem.H
    W: tl.constexpr = problem.W
    P: tl.constexpr = problem.P
    rows, units = rows_of_program(problem, tiling), units_of_program(tiling)
    row, unit = rows[:, None], units[None, :]
    frame, valid, alive = find_frame(inputs.sizes, t, row, unit, B, problem)
    extra = inputs.extras + frame * ((P + 2) * H) + unit
    carried = carry.gradient + row * W + unit
    g = tl.load(inputs.arriving + frame * H + unit, valid, 0.0).to(tl.float32)
    h_by_c = tl.load(extra + P * H, valid, 0.0).to(tl.float32)
    c_by_old = tl.load(extra + (P + 1) * H, valid, 0.0).to(tl.float32)
    slope = inputs.slopes + frame * (4 * H) + unit
    by_i = tl.load(slope, valid, 0.0).to(tl.float32)
    by_f = tl.load(slope + H, valid, 0.0).to(tl.float32)
    by_c = tl.load(slope + 2 * H, valid, 0.0).to(tl.float32)
    by_o = tl.load(slope + 3 * H, valid, 0.0).to(tl.float32)
    follow(tiling)
    g_c = tl.load(carried)
    factors = carry.fed_back + ((t + 1) % 2) * (carry.padded * (W * 4))
    g += multiply_backward(factors, inputs.weights, rows, W, 4, tiling)
    g_c += h_by_c * g
    tl.store(carried, tl.where(alive, c_by_old * g_c, 0.0))
    at = outputs.da + frame * (4 * H) + unit
    back = carry.fed_back + (t % 2) * (carry.padded * (W * 4)) + (row * W + unit) * 4
    store_gradient(at, back, by_i * g_c, alive, valid)
    store_gradient(at + H, back + 1, by_f * g_c, alive, valid)
    store_gradient(at + 2 * H, back + 2, by_c * g_c, alive, valid)
    store_gradient(at + 3 * H, back + 3, by_o * g, alive, valid)
    for k in tl.static_range(P):
        sums = outputs.by_coefficients + row * (P * H) + k * H + unit
        add_by_coefficient(sums, extra + k * H, g if k == 2 else g_c, alive)
