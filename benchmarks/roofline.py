"""The matrix products of a training step, and the time that they alone take on this machine.

Each product is computed by torch, by this toolkit and, in single precision, by oneDNN, in every
layout (operands stored by rows or by columns, in rows that start at cache lines or not), and the
fastest counts. The products of a recurrence are taken over all frames at once, as if no frame had
to wait for the one before it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product as combinations
from typing import cast

import torch
from torch import Tensor, nn

from bayes_asr.nn.linear import HAS_ONEDNN, multiply_onednn, product
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.recurrent import RecurrentLayer

Shape = tuple[int, int, int]
"""n, k, m of a product [n, k] x [k, m]."""
Clock = Callable[[], float]
LINE = 16  # numbers to whose multiple rows are padded


def products(model: AcousticModel, frames: int) -> Counter[Shape]:
    """How often a training step computes each product, forward and backward."""
    found: Counter[Shape] = Counter()
    for number, layer in enumerate(cast(Iterable[RecurrentLayer], model.layers)):
        outputs, inputs = layer.W.weight.shape
        found.update(_of_linear(frames, inputs, outputs, by_input=number > 0))
        if layer.V is not None:
            sets, units, width = layer.V.shape
            for _ in range(sets):
                found.update(_of_linear(frames * layer.directions // sets, units, width))
    for head in cast(Iterable[nn.Linear], model.heads):
        found.update(_of_linear(frames, head.in_features, head.out_features))
    return found


def _of_linear(n: int, k: int, m: int, *, by_input: bool = True) -> Iterator[Shape]:
    """Of [n, k] x [k, m] itself, its gradient by the weights, and that by the input."""
    yield n, k, m
    yield k, n, m
    if by_input:
        yield n, m, k


def multiply_adds(counts: Counter[Shape]) -> int:
    """How many multiplications the products are made of."""
    return sum(times * n * k * m for (n, k, m), times in counts.items())


def fastest(shape: Shape, dtype: torch.dtype, clock: Clock) -> Callable[[], Tensor]:
    """Return what computes the product in the layout that is fastest here."""
    n, k, m = shape
    seconds: dict[Callable[[], Tensor], float] = {}
    for by_columns_a, by_columns_b, padded in combinations((False, True), repeat=3):
        a = _stored(n, k, dtype, by_columns_a, padded)
        b = _stored(k, m, dtype, by_columns_b, padded)
        out = _stored(n, m, dtype, False, padded)

        def computed(a: Tensor = a, b: Tensor = b, out: Tensor = out) -> Tensor:
            return torch.mm(a, b, out=out)

        ways: list[Callable[[], Tensor]] = [computed]
        if not padded:
            ways.append(partial(product, a, b))
        if dtype == torch.float32 and HAS_ONEDNN and not padded:
            ways.append(partial(multiply_onednn, a, b))
        for way in ways:
            seconds[way] = timed(way, clock)
    return min(seconds, key=lambda computed: seconds[computed])


def _stored(rows: int, columns: int, dtype: torch.dtype, by_columns: bool, padded: bool) -> Tensor:
    """A random matrix [rows, columns] in some layout."""
    if by_columns:
        return _stored(columns, rows, dtype, False, padded).T
    width = -(-columns // LINE) * LINE if padded else columns
    return torch.randn(rows, width).to(dtype)[:, :columns]


def timed(run: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Seconds that a call takes."""
    start = clock()
    run()
    return clock() - start
