"""The exponential, the logarithm and the cosine, to the same bits on every processor.

NumPy and the C library have several codes of each and choose by the processor; these differ in the
last bit. Here they are made of additions, multiplications and divisions in one order, which IEEE
754 rounds alike everywhere. `base/csrc/elementary.h` is the twin in C++. Errors are below two units
of the last place; those of the cosine, near its zeros, below 2^-52.

Methods: W. J. Cody and W. Waite, "Software manual for the elementary functions", 1980.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

# Constants are hexadecimal, so that every bit is the same on each machine.
LOG2_E = float.fromhex("0x1.71547652b82fep+0")
LN2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")  # 41 bits: its products with exponents are exact
LN2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
HALF_PI_HIGH = float.fromhex("0x1.921fb54400000p+0")
HALF_PI_LOW = float.fromhex("0x1.0b4611a626331p-34")
ROUNDER = 1.5 * 2.0**52  # what is added to it is rounded to a whole number, in the last bits
LEAST_EXPONENT, LARGEST_EXPONENT = -708.0, 709.0  # between which exp has all its digits
ROOT_HALF = math.sqrt(0.5)
EVEN = [1 / math.factorial(k) for k in range(2, 14, 2)]  # of the series of exp, after its 1
ODD = [1 / math.factorial(k) for k in range(1, 14, 2)]
ATANH = [2 / (2 * k + 1) for k in range(1, 12)]  # of 2 atanh(s) / s, after the first term
COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(9)]
SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(9)]

Number = TypeVar("Number", float, np.ndarray)


def exp(x: ArrayLike) -> np.ndarray:
    """e to the power of x [...], float64; 0 where x is below -708, infinite where it is above 709.

    What is between is never subnormal.
    """
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):  # of what the last line replaces
        shifted, p = _reduce(x)
        # Bits 52 and up of a double are its exponent, so the sum multiplies p by 2^n.
        scaled = (p.view(np.int64) + (shifted.view(np.int64) << 52)).view(np.float64)
        return np.where(x < LEAST_EXPONENT, 0.0, np.where(x > LARGEST_EXPONENT, np.inf, scaled))


def exp_scalar(x: float) -> float:
    """The same of one number."""
    if LEAST_EXPONENT <= x <= LARGEST_EXPONENT:
        shifted, p = _reduce(x)
        # The subtraction is exact, so the difference is n itself.
        return math.ldexp(p, int(shifted - ROUNDER))
    return 0.0 if x < 0 else math.inf if x > 0 else x


def log(x: ArrayLike) -> np.ndarray:
    """The natural logarithm of x [...], float64; minus infinity of 0, NaN below it."""
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        m, e = np.frexp(x)
        # frexp gives m from 1/2 to 1; doubling the lower ones centres it on 1.
        low = m < ROOT_HALF
        result = _join(np.where(low, 2 * m, m), np.where(low, e - 1, e))
        result = np.where(x == np.inf, np.inf, np.where(x == 0, -np.inf, result))
        return np.where(x < 0, np.nan, result)


def log_scalar(x: float) -> float:
    """The same of one number."""
    if not 0 < x < math.inf:
        return -math.inf if x == 0 else x if x > 0 else math.nan
    m, e = math.frexp(x)
    return _join(2 * m, e - 1) if m < ROOT_HALF else _join(m, e)


def power(x: ArrayLike, exponent: float) -> np.ndarray:
    """Positive x [...] to a power, float64; 0 of 0."""
    return exp(exponent * log(x))


def cos(x: ArrayLike) -> np.ndarray:
    """The cosine of x [...], float64, a few turns around 0 at most."""
    x = np.asarray(x, np.float64)
    # x is n quarters of a turn and a rest r of at most an eighth.
    shifted = x * (2 / math.pi) + ROUNDER
    n = shifted - ROUNDER
    r = (x - n * HALF_PI_HIGH) - n * HALF_PI_LOW
    squared = r * r
    even, odd = _polynomial(COSINE, squared), r * _polynomial(SINE, squared)
    # The last two bits of n say in which quarter of the turn x lies.
    quarter = shifted.view(np.int64) & 3
    # cos(r + n pi / 2) is cos r, -sin r, -cos r or sin r.
    return np.select([quarter == 0, quarter == 1, quarter == 2], [even, -odd, -even], odd)


def _reduce(x: Number) -> tuple[Number, Number]:
    """A sum whose last bits count the twos n in e^x = 2^n p, and p."""
    # Adding ROUNDER rounds x / ln 2 to n, and subtracting it again gives n as a float.
    shifted = x * LOG2_E + ROUNDER
    n = shifted - ROUNDER
    # ln 2 in two parts (Cody and Waite): the first product is exact, so r keeps all its digits.
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    squared = r * r
    # Odd and even powers are two independent chains, which a processor computes side by side.
    return shifted, 1 + (r * _polynomial(ODD, squared) + squared * _polynomial(EVEN, squared))


def _join(m: Number, e: Number) -> Number:
    """The logarithm of 2^e m, with m between the root of 1/2 and that of 2."""
    # log m = 2 atanh(s), whose series in s^2 falls fast because |s| < 0.172.
    s = (m - 1) / (m + 1)
    squared = s * s
    tail = s * (squared * _polynomial(ATANH, squared))
    # Small terms are added first, so that the large ones round once.
    return e * LN2_HIGH + (2 * s + (tail + e * LN2_LOW))


def _polynomial(coefficients: Sequence[float], x: Number) -> Number:
    """Horner's scheme; the first coefficient is that of 1."""
    total = coefficients[-1] * x + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        total = total * x + coefficient
    return total
