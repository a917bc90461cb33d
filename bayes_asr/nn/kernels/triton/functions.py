"""Functions of blocks of numbers, and activations with their derivatives."""

import triton
import triton.language as tl

from bayes_asr.nn.units.activations import LEAK

ACTIVATIONS = (
    "tanh",
    "sigmoid",
    "relu",
    "softplus",
    "log-sigmoid",
    "leaky-relu",
    "elu",
    "linear",
    "p-sigmoid",
    "p-relu",
)
SLOPE_BELOW = tl.constexpr(LEAK)


@triton.jit
def logistic(x):
    """sigma(x), sigma(-x) and e^-|x|, from which neither of the two is small by cancellation."""
    e = tl.exp(-tl.abs(x))
    larger = 1.0 / (1.0 + e)
    smaller = e * larger
    return tl.where(x < 0, smaller, larger), tl.where(x < 0, larger, smaller), e


@triton.jit
def log1p(e):
    """log(1 + e) for 0 <= e <= 1: 2 artanh(s) of s = e / (2 + e), which is at most 1/3."""
    s = e / (2.0 + e)
    z = s * s
    series = 1.0 / 13.0 + z * (1.0 / 15.0)
    series = 1.0 / 11.0 + z * series
    series = 1.0 / 9.0 + z * series
    series = 1.0 / 7.0 + z * series
    series = 1.0 / 5.0 + z * series
    series = 1.0 / 3.0 + z * series
    return 2.0 * s * (1.0 + z * series)


@triton.jit
def tanh(x):
    """tanh(x), by a polynomial (Cephes) where 1 - e^-2|x| cancels."""
    e = tl.exp(-2.0 * tl.abs(x))
    far = (1.0 - e) / (1.0 + e)
    z = x * x
    p = z * -5.70498872745e-3 + 2.06390887954e-2
    p = p * z - 5.37397155531e-2
    p = p * z + 1.33314422036e-1
    p = p * z - 3.33332819422e-1
    return tl.where(tl.abs(x) < 0.625, p * z * x + x, tl.where(x < 0, -far, far))


@triton.jit
def softplus(x):
    """log(1 + e^x) and its derivative."""
    s, _, e = logistic(x)
    return tl.maximum(x, 0.0) + log1p(e), s


@triton.jit
def scale(values, factor):
    """Three numbers times a factor."""
    x, y, z = values
    return x * factor, y * factor, z * factor


@triton.jit
def activate(a, coefficients, ACTIVATION: tl.constexpr):
    """f(a) with its derivatives by a and by the three coefficients, of those that f has."""
    p, q, r = coefficients
    by_p, by_q, by_r = a, a, a
    if ACTIVATION == "tanh":
        f = tanh(a)
        slope = 1.0 - f * f
    elif ACTIVATION == "sigmoid":
        f, below, _ = logistic(a)
        slope = f * below
    elif ACTIVATION == "relu":
        f = tl.maximum(a, 0.0)
        slope = tl.where(a > 0, 1.0, 0.0)
    elif ACTIVATION == "softplus":
        f, slope = softplus(a)
    elif ACTIVATION == "log-sigmoid":
        f, slope = softplus(-a)
        f = -f
    elif ACTIVATION == "leaky-relu":
        slope = tl.where(a > 0, 1.0, SLOPE_BELOW)
        f = a * slope
    elif ACTIVATION == "elu":
        slope = tl.exp(tl.minimum(a, 0.0))
        f = tl.where(a > 0, a, slope - 1.0)
    elif ACTIVATION == "linear":
        f = a
        slope = tl.full(a.shape, 1.0, tl.float32)
    elif ACTIVATION == "p-sigmoid":  # p sigma(q a - r)
        by_p, below, _ = logistic(q * a - r)
        f = p * by_p
        by_r = -f * below
        by_q = -by_r * a
        slope = -by_r * q
    else:
        tl.static_assert(ACTIVATION == "p-relu")  # p a above 0, q a below
        by_p, by_q = tl.maximum(a, 0.0), tl.minimum(a, 0.0)
        f = p * by_p + q * by_q
        slope = tl.where(a > 0, p, q)
    return f, slope, (by_p, by_q, by_r)


@triton.jit
def mix(z, z_minus, a, h, m, coefficients, ACTIVATION: tl.constexpr):
    """h' = z c + (1 - z) h of the candidate c = m f(a).

    Returns h', its derivatives by the pre-activation of z and by a, and those by coefficients.
    """
    f, slope, by = activate(a, coefficients, ACTIVATION)
    step = f * m - h
    share = z * m
    return h + z * step, z * z_minus * step, share * slope, scale(by, share)


@triton.jit
def log_mix(a_z, a_c, h, m, STATE: tl.constexpr, OUTSIDE: tl.constexpr, INSIDE: tl.constexpr):
    """l' = log(z c + (1 - z) e^l) for log c = OUTSIDE softplus(INSIDE a_c); h is STATE l.

    Returns h', and its derivatives by a_z, a_c and h.
    """
    _, z_minus, e_z = logistic(a_z)
    _, c_minus, e_c = logistic(-INSIDE * a_c)
    log1p_z = log1p(e_z)
    log_c = OUTSIDE * (tl.maximum(INSIDE * a_c, 0.0) + log1p(e_c)) * m
    candidate = tl.minimum(a_z, 0.0) - log1p_z + log_c
    old = -tl.maximum(a_z, 0.0) - log1p_z + STATE * h
    share, share_minus, e = logistic(old - candidate)  # of the old state in the new one
    return (
        STATE * (tl.maximum(old, candidate) + log1p(e)),
        STATE * (z_minus - share),
        STATE * OUTSIDE * INSIDE * m * share_minus * c_minus,
        share,
    )
