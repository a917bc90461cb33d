"""The scales of charts: a few round numbers that hold all values between them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

MOST_TICKS = 5


class Axis(NamedTuple):
    """A scale, from its first tick to its last; of a logarithmic one all ticks are above 0."""

    ticks: Sequence[float]
    is_logarithmic: bool = False

    def place(self, value: float) -> float:
        """The place of a value on the axis, in per cent of its length."""
        low, high = self.ticks[0], self.ticks[-1]
        if self.is_logarithmic:
            low, high, value = map(math.log, (low, high, value))
        return round(100 * (value - low) / (high - low), 2)


def make_scale(low: float, high: float, least: float = 0.1) -> Axis:
    """A few round numbers that hold all values between them; least: the smallest range."""
    # Four steps make five ticks; the least range keeps equal values from a step of 0.
    rough = max(high - low, least) / (MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    # Steps are 1, 2 or 5 times a power of ten.
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    lowest, highest = math.floor(low / step), math.ceil(high / step)
    # Nine digits leave out what binary fractions add to a decimal one.
    return Axis([float(f"{step * i:.9g}") for i in range(lowest, max(highest, lowest + 1) + 1)])


def make_logarithmic_scale(low: float, high: float) -> Axis:
    """A few powers of ten that hold all values, which are above 0, between them."""
    lowest, highest = math.floor(math.log10(low)), math.ceil(math.log10(high))
    # Ticks are equally far from each other, so the last may lie above the next power.
    step = max(1, math.ceil((highest - lowest) / (MOST_TICKS - 1)))
    last = max(highest, lowest + 1) + step
    return Axis([10.0**power for power in range(lowest, last, step)], is_logarithmic=True)
