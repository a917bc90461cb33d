"""Parts that kernels share: the place of a program, the product of a time step.

A program computes some units of some rows. Rows are pairs of sequence and direction, [B, D]; with a
set of weights for each direction, those of a program have one direction. Programs are numbered by
block of units, block of rows and set of weights.

Constants of kernels: D directions, H units, W units with those that fill them up, G gates, SETS of
weights, P coefficients; ROWS and UNITS of a program; STRIPS strips of DEPTH factors that are
multiplied at once, each by warps of its own; PRECISION of products of float32; OVERLAP with the
kernel before.
Buffers are described in `program`.
"""

import triton
import triton.language as tl


@triton.jit
def rows_of_program(D: tl.constexpr, SETS: tl.constexpr, ROWS: tl.constexpr):
    """The rows of a program [ROWS]."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    if SETS > 1:
        row = row * D + tl.program_id(2)
    return row


@triton.jit
def units_of_program(UNITS: tl.constexpr):
    """The units of a program [UNITS]."""
    return tl.program_id(0) * UNITS + tl.arange(0, UNITS)


@triton.jit
def find_frame(sizes, t, row, unit, B, D: tl.constexpr, H: tl.constexpr):
    """The number of frame t of each row among T*B*D, and two masks of rows and units: those that
    buffers have, and of these, those whose sequence has the frame.
    """
    valid = (row < B * D) & (unit < H)
    alive = valid & (row // D < tl.load(sizes + t))
    return t.to(tl.int64) * (B * D) + row, valid, alive


@triton.jit
def follow(OVERLAP: tl.constexpr):
    """Wait for the kernel before, if this one began earlier; then let the next one begin.

    What every kernel of a pass reads alike may be loaded earlier still.
    """
    if OVERLAP:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def multiply(
    rows,
    columns,
    STRIDE: tl.constexpr,
    LENGTH: tl.constexpr,
    STRIPS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The product of rows with columns, in float32.

    rows, columns: where each of them begins; from one factor of a column to the next it is STRIDE.
    Their LENGTH is a multiple of STRIPS * DEPTH. Several strips have sums of their own, which do
    not wait for one another.
    """
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
        sums = tl.dot(tl.load(a), tl.load(b), sums, input_precision=PRECISION)
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
def multiply_forward(
    fed,
    weights,
    row,
    W: tl.constexpr,
    G: tl.constexpr,
    UNITS: tl.constexpr,
    STRIPS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """fed V [ROWS, UNITS * G] for fed [rows, W] and V [sets, W, W, G]."""
    column = tl.program_id(0) * (UNITS * G) + tl.arange(0, UNITS * G)
    matrix = weights + tl.program_id(2) * (W * W * G)
    return multiply(fed + row * W, matrix + column, W * G, W, STRIPS, DEPTH, PRECISION)


@triton.jit
def multiply_backward(
    fed,
    weights,
    row,
    W: tl.constexpr,
    G: tl.constexpr,
    UNITS: tl.constexpr,
    STRIPS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """fed V^T [ROWS, UNITS] for fed [rows, W, G] and V [sets, W, W, G]."""
    matrix = weights + tl.program_id(2) * (W * W * G)
    column = units_of_program(UNITS) * (W * G)
    return multiply(fed + row * (W * G), matrix + column, 1, W * G, STRIPS, DEPTH, PRECISION)


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
def store_planes(at, x, y, z, valid, H: tl.constexpr, PLANES: tl.constexpr):
    """Store the leading PLANES of x, y and z, in planes of H numbers."""
    if PLANES > 0:
        tl.store(at, x, valid)
    if PLANES > 1:
        tl.store(at + H, y, valid)
    if PLANES > 2:
        tl.store(at + 2 * H, z, valid)


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
