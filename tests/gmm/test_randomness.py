"""The numbers of the C library."""

import ctypes
import platform

import numpy as np
import pytest

from bayes_asr.gmm.randomness import Random


@pytest.mark.parametrize("seed", [0, 1, 2, 27437, 2**31 - 1])
def test_integers_are_those_of_the_library(seed: int) -> None:
    if platform.libc_ver()[0] != "glibc":
        pytest.skip(f"the C library is {platform.libc_ver()[0] or 'unknown'}, not GNU's")
    library = ctypes.CDLL("libc.so.6")
    library.srand(ctypes.c_uint(seed))
    random = Random(seed)
    ours = np.concatenate([random.integers(count) for count in (0, 1, 30, 969, 7000, 2079, 2048)])
    assert ours.tolist() == [library.rand() for _ in ours]


def test_the_first_numbers_of_a_process() -> None:
    assert Random().integers(3).tolist() == [1804289383, 846930886, 1681692777]
    np.testing.assert_array_equal(
        Random().uniform(3), np.float32([0.840187728, 0.394382924, 0.783099234])
    )
    # As a C++ program prints them that computes what RandGauss does.
    expected = [-0.464892656, 0.20956026, 0.139192313, 0.168975875, -1.50944197, -0.838721454]
    np.testing.assert_array_equal(Random().gauss(6), np.float32(expected))


def test_gauss_has_the_moments_of_a_normal_distribution() -> None:
    drawn = Random().gauss(20_000).astype(np.float64)
    moments = [np.mean(drawn**power) for power in (1, 2, 3, 4)]
    np.testing.assert_allclose(moments, [0, 1, 0, 3], atol=0.08)
