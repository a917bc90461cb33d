"""Parts that kernels share: the place of a program, the product of a time step.

A program computes some units of some rows. Rows are pairs of sequence and direction, [B, D]; with a
set of weights for each direction, those of a program have one direction. Programs are numbered by
block of units, block of rows and set of weights.

Constants are named in `arguments`, buffers in `program`.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from bayes_asr.nn.kernels.triton.arguments import Problem, Tiling


@triton.jit
def rows_of_program(problem: Problem, tiling: Tiling):
    """The rows of a program [ROWS]."""
    row = tl.program_id(1) * tiling.ROWS + tl.arange(0, tiling.ROWS)
    if problem.SETS > 1:
        row = row * problem.D + tl.program_id(2)
    return row


@triton.jit
def units_of_program(tiling: Tiling):
    """The units of a program [UNITS]."""
    return tl.program_id(0) * tiling.UNITS + tl.arange(0, tiling.UNITS)


@triton.jit
def find_frame(sizes, t, row, unit, B, problem: Problem):
    """The number of frame t of each row among T*B*D, and two masks of rows and units: those that
    buffers have, and of these, those whose sequence has the frame.
    """
    valid = (row < B * problem.D) & (unit < problem.H)
    alive = valid & (row // problem.D < tl.load(sizes + t))
    return t.to(tl.int64) * (B * problem.D) + row, valid, alive


@triton.jit
def follow(tiling: Tiling):
    """Wait for the kernel before, if this one began earlier; then let the next one begin.

    What every kernel of a pass reads alike may be loaded earlier still.
    """
    if tiling.OVERLAP:
        gdc_wait()
        gdc_launch_dependents()


@triton.jit
def multiply(rows, columns, STRIDE: tl.constexpr, LENGTH: tl.constexpr, tiling: Tiling):
    """The product of rows with columns, in float32.

    rows, columns: where each of them begins; from one factor of a column to the next it is STRIDE.
    Their LENGTH is a multiple of STRIPS * DEPTH. Several strips have sums of their own, which do
    not wait for one another.
    """
    STRIPS: tl.constexpr = tiling.STRIPS
    DEPTH: tl.constexpr = tiling.DEPTH
    if STRIPS == 1:
        k = tl.arange(0, DEPTH)
        a = rows[:, None] + k[None, :]
        b = columns[None, :] + k[:, None] * STRIDE
        sums = tl.zeros((rows.shape[0], columns.shape[0]), tl.float32)
    else:
        k = tl.arange(0, STRIPS)[:, None] * DEPTH + tl.arange(0, DEPTH)[None, :]
        a = rows[None, :, None] + k[:, None, :]
        b = columns[None, None, :] + k[:, :, None] * STRIDE
        sums = tl.zeros((STRIPS, rows.shape[0], columns.shape[0]), tl.float32)
    for _ in range(0, LENGTH, STRIPS * DEPTH):
        sums = tl.dot(tl.load(a), tl.load(b), sums, input_precision=tiling.PRECISION)
        a += STRIPS * DEPTH
        b += STRIPS * DEPTH * STRIDE
    if STRIPS > 1:
        sums = add_strips(sums)
    return sums


@triton.jit
def add_strips(sums):
    """The sums [ROWS, COLUMNS] over up to 8 strips, of which each thread computes its share.

    tl.sum would leave all of them with every warp, each of which would do all that follows.
    """
    sums = tl.permute(sums, (1, 2, 0))
    if sums.shape[2] == 8:
        sums = add_pairs(sums)
    if sums.shape[2] == 4:
        sums = add_pairs(sums)
    if sums.shape[2] == 2:
        sums = add_pairs(sums)
    return tl.reshape(sums, (sums.shape[0], sums.shape[1]))


@triton.jit
def add_pairs(sums):
    """The sums of neighbours in the last dimension."""
    even, odd = tl.split(tl.reshape(sums, (sums.shape[0], sums.shape[1], sums.shape[2] // 2, 2)))
    return even + odd


@triton.jit
def multiply_forward(fed, weights, row, W: tl.constexpr, G: tl.constexpr, tiling: Tiling):
    """fed V [ROWS, UNITS * G] for fed [rows, W] and V [sets, W, W, G]."""
    COLUMNS: tl.constexpr = tiling.UNITS * G
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    matrix = weights + tl.program_id(2) * (W * W * G)
    return multiply(fed + row * W, matrix + column, W * G, W, tiling)


@triton.jit
def multiply_backward(fed, weights, row, W: tl.constexpr, G: tl.constexpr, tiling: Tiling):
    """fed V^T [ROWS, UNITS] for fed [rows, W, G] and V [sets, W, W, G]."""
    matrix = weights + tl.program_id(2) * (W * W * G)
    column = units_of_program(tiling) * (W * G)
    return multiply(fed + row * (W * G), matrix + column, 1, W * G, tiling)


@triton.jit
def split_pairs(sums):
    """The numbers [ROWS, UNITS] of each of two gates, out of [ROWS, UNITS * 2]."""
    return tl.split(tl.reshape(sums, (sums.shape[0], sums.shape[1] // 2, 2)))


@triton.jit
def split_fours(sums):
    """The numbers [ROWS, UNITS] of each of four gates, out of [ROWS, UNITS * 4]."""
    # The pairs are the gates 0 and 2, and 1 and 3.
    even, odd = tl.split(tl.reshape(sums, (sums.shape[0], sums.shape[1] // 4, 2, 2)))
    i, c = tl.split(even)
    f, o = tl.split(odd)
    return i, f, c, o


@triton.jit
def load_coefficients(coefficients, number, unit, valid, H: tl.constexpr, P: tl.constexpr):
    """The P coefficients of some units, of a set with a number; others are 0."""
    nothing = tl.zeros(unit.shape, tl.float32)
    p, q, r = nothing, nothing, nothing
    at = coefficients
    if P > 0:
        at += number * (P * H) + unit
        p = tl.load(at, valid, 0.0)
    if P > 1:
        q = tl.load(at + H, valid, 0.0)
    if P > 2:
        r = tl.load(at + 2 * H, valid, 0.0)
    return p, q, r


@triton.jit
def store_planes(at, values, valid, H: tl.constexpr, PLANES: tl.constexpr):
    """Store the leading PLANES of some values, in planes of H numbers."""
    for k in tl.static_range(PLANES):
        tl.store(at + k * H, values[k], valid)


@triton.jit
def store_gradient(at, back, da, alive, valid):
    """Store the gradient of a pre-activation, 0 where spare, and as a factor of the step before."""
    da = tl.where(alive, da, 0.0)
    tl.store(at, da, valid)
    tl.store(back, da)


@triton.jit
def add_by_coefficient(sums, extras, g, alive):
    """Add the gradient of a coefficient, for that of the state on which it acts."""
    by = tl.load(extras, alive, 0.0).to(tl.float32)
    tl.store(sums, tl.load(sums, alive, 0.0) + by * g, alive)
