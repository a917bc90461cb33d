"""Dropout masks: the published generator, and what they may depend on."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from bayes_asr.nn.dropout import keep_mask
from bayes_asr.nn.kernels.cpu import library

# The first outputs of splitmix64 from state 0, as published with the generator.
SPLITMIX64 = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]


@pytest.mark.parametrize("dropout", [0.01, 0.3, 0.5, 0.9, 0.98])
def test_masks_are_splitmix64_against_the_probability(dropout: float) -> None:
    expected = [float(output / 2**64 >= dropout) for output in SPLITMIX64]
    assert keep_mask(torch.tensor([0]), 0, (4,), dropout).tolist() == [expected]


@pytest.mark.skipif(not library.paths(), reason="no compiled masks: install with a C++ compiler")
@example([1, -1], 0, 50, 0.0)
@example([1, -1], 0, 50, 2**-24)
@example([1, -1], 0, 50, 1 - 2**-24)
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
    st.integers(0, 40),
    st.integers(0, 50),
    st.floats(0, 1, exclude_max=True),
)
def test_compiled_masks_are_those_of_torch(
    keys: list[int], stream: int, size: int, dropout: float
) -> None:
    keys_B = torch.tensor(keys, dtype=torch.int64).repeat_interleave(2)[::2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(library.PATH_VARIABLE, "torch")
        by_torch = keep_mask(keys_B, stream, (size,), dropout)
    assert torch.equal(keep_mask(keys_B, stream, (size,), dropout), by_torch)


def test_a_mask_does_not_depend_on_the_neighbours() -> None:
    keys = torch.tensor([3, -7, 2**62])
    together = keep_mask(keys, 1, (2, 5), 0.5)
    for key, mask in zip(keys, together, strict=True):
        assert torch.equal(keep_mask(key[None], 1, (2, 5), 0.5)[0], mask)
    assert torch.equal(keep_mask(keys.flip(0), 1, (2, 5), 0.5).flip(0), together)


def test_masks_differ_between_keys_streams_and_positions() -> None:
    base = keep_mask(torch.tensor([1, 2]), 0, (400,), 0.5)
    other_stream = keep_mask(torch.tensor([1, 2]), 1, (400,), 0.5)
    for a, b in [(base[0], base[1]), (base, other_stream), (base[:, 1:], base[:, :-1])]:
        # Independent halves agree half the time; 5 standard deviations at 400 is 0.125.
        assert abs((a == b).double().mean().item() - 0.5) < 0.125


@pytest.mark.parametrize("dropout", [0.0, 0.2, 0.5])
def test_as_many_are_dropped_as_asked_for(dropout: float) -> None:
    kept = keep_mask(torch.arange(100), 3, (1000,), dropout).mean(dtype=torch.float64).item()
    assert abs(kept - (1 - dropout)) <= 5 * (dropout * (1 - dropout) / 1e5) ** 0.5
