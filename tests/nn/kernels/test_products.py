"""Compiled products of many frames are those of a computation in double precision."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from bayes_asr.nn.kernels.cpu import library
from bayes_asr.nn.linear import multiply

FLOAT, HALF = library.STORAGES
PATHS = list(library.paths())
pytestmark = pytest.mark.skipif(
    not PATHS, reason="no compiled products: install with a C++ compiler"
)
every_path = pytest.mark.parametrize("path", PATHS)
sizes = st.integers(1, 70)


def stored(x: Tensor, how: str) -> Tensor:
    """The same matrix by rows, by columns, or with gaps between its rows or all of its numbers."""
    if how == "columns":
        return x.T.contiguous().T
    padded = torch.full((x.shape[0], 2 * x.shape[1]), torch.nan, dtype=x.dtype)
    y = padded[:, : x.shape[1]] if how == "gaps" else padded[:, ::2]
    return x.contiguous() if how == "rows" else y.copy_(x)


ways = st.sampled_from(["rows", "columns", "gaps", "every other"])


@pytest.mark.slow
@settings(max_examples=150)
@example(PATHS[-1:], (13, 4801, 33), (HALF, FLOAT, FLOAT), ("columns", "rows"), False)
@example(PATHS, (50, 3000, 40), (FLOAT, FLOAT, FLOAT), ("rows", "columns"), True)
@example(PATHS, (213, 77, 70), (HALF, FLOAT, FLOAT), ("rows", "rows"), False)
@example(PATHS, (130, 31, 70), (HALF, HALF, FLOAT), ("columns", "rows"), True)
@example(PATHS, (7, 5003, 40), (HALF, HALF, HALF), ("gaps", "columns"), True)
@example(PATHS, (1, 1, 1), (FLOAT, FLOAT, HALF), ("every other", "every other"), True)
@given(
    st.sampled_from([[path] for path in PATHS] or [[]]),
    st.tuples(sizes, sizes, sizes),
    st.tuples(st.sampled_from(library.STORAGES), st.sampled_from(library.STORAGES)).flatmap(
        lambda types: st.tuples(
            st.just(types[0]), st.sampled_from([FLOAT, types[0]]), st.just(types[1])
        )
    ),
    st.tuples(ways, ways),
    st.booleans(),
)
def test_products_are_those_of_double_precision(
    paths: list[str],
    shape: tuple[int, int, int],
    types: tuple[torch.dtype, torch.dtype, torch.dtype],
    layouts: tuple[str, str],
    bias: bool,
) -> None:
    torch.manual_seed(1)
    N, K, M = shape
    a, b = torch.randn(N, K).to(types[0]), torch.randn(K, M).to(types[1])
    added = torch.randn(M) if bias else None
    sides = stored(a, layouts[0]), stored(b, layouts[1])
    found = [multiply(path, *sides, added, types[2]).double() for path in paths]
    a, b = a.double(), b.to(types[0]).double()
    exact = a @ b + (added.double() if added is not None else 0)
    sums = a.abs() @ b.abs() + (added.abs() if added is not None else 0)
    rounding = exact.abs() * 2**-8 if types[2] == HALF else 0
    bound = 1.01 * ((K + 2) * 2**-24 * sums + rounding)
    assert all(((y - exact).abs() <= bound).all() for y in found)


@every_path
@pytest.mark.parametrize("left", ["rows", "columns"])
@pytest.mark.parametrize("dtype", library.STORAGES)
def test_number_of_threads_changes_no_digit(
    path: str, left: str, dtype: torch.dtype, set_threads: Callable[[int], None]
) -> None:
    torch.manual_seed(1)
    a, b = stored(torch.randn(150, 2500).to(dtype), left), torch.randn(2500, 90)
    found = []
    for threads in (1, 2, 3, 7):
        set_threads(threads)
        found.append(multiply(path, a, b, None, FLOAT))
    assert all(torch.equal(found[0], other) for other in found[1:])


@every_path
@pytest.mark.parametrize("left", ["rows", "columns", "gaps"])
@pytest.mark.parametrize("dtype", library.STORAGES)
@pytest.mark.parametrize("inner", [16, 17])
def test_nan_stays_in_its_row(path: str, left: str, dtype: torch.dtype, inner: int) -> None:
    a, b = torch.ones(40, inner).to(dtype), torch.ones(inner, 70)
    a[13] = torch.nan
    y = multiply(path, stored(a, left), b, None, FLOAT)
    assert y[13].isnan().all()
    assert torch.equal(y[torch.arange(40) != 13], torch.full((39, 70), float(inner)))


@every_path
@pytest.mark.parametrize("dtype", library.STORAGES)
def test_where_there_is_one_column_or_row_its_stride_says_nothing(
    path: str, dtype: torch.dtype
) -> None:
    numbers = torch.arange(40.0).to(dtype)
    ones = torch.ones(3, 40).to(dtype)
    column, row = numbers.as_strided((40, 1), (1, 7)), numbers.as_strided((1, 40), (7, 1))
    assert (multiply(path, ones, column, None, FLOAT) == 780).all()
    every_other = torch.arange(80.0).as_strided((1, 40), (1, 2))
    for right, expected in ((row, numbers.float()), (every_other, torch.arange(0.0, 80.0, 2.0))):
        y = multiply(path, ones[:, :1], right, None, FLOAT)
        assert torch.equal(y, expected.expand(3, 40))


@pytest.mark.parametrize(
    ("a", "b", "bias", "says"),
    [
        (torch.ones(3, 4), torch.ones(5, 6), None, r"right side is torch.float32 \[5, 6\]"),
        (torch.ones(3, 4).double(), torch.ones(4, 6), None, "left side is torch.float64"),
        (torch.ones(3, 4), torch.ones(4, 6).bfloat16(), None, "right side is torch.bfloat16"),
        (torch.ones(3, 4), torch.ones(4, 6), torch.ones(5), r"bias is torch.float32 \[5\]"),
    ],
)
def test_wrong_matrices_are_refused(a: Tensor, b: Tensor, bias: Tensor | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        multiply(library.path(), a, b, bias, FLOAT)


@every_path
@pytest.mark.parametrize("dtype", library.STORAGES)
def test_nothing_to_sum(path: str, dtype: torch.dtype) -> None:
    bias = torch.arange(5.0)
    y = multiply(path, torch.zeros(3, 0).to(dtype), torch.zeros(0, 5), bias, FLOAT)
    assert torch.equal(y, bias.expand(3, 5))
    left = torch.zeros(3, 4).to(dtype)
    assert multiply(path, left[:0], torch.zeros(4, 5), None, FLOAT).shape == (0, 5)
    assert multiply(path, left, torch.zeros(4, 0), None, FLOAT).shape == (3, 0)
