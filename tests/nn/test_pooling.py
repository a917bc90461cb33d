"""Pooling against its equations in NumPy, and recurrent layers above it against torch's."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.nn.frames import WHOLE, PackedFrames, pack, unpack
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.pooling import Pool
from tests.support.nn_layers import INPUTS, STREAM, stacked

LENGTHS = (11, 7, 4, 1)
SEGMENTS = [(0, 10), (4, 4), (5, 2), (3, 1)]
"""(segment, shift), the first of whole utterances."""


def pool(of: str, segment: int = 0, shift: int = 10, directions: int = 2) -> Pool:
    torch.manual_seed(3)
    options = {"of": of, "segment": segment, "shift": shift, "directions": directions}
    built = Pool(INPUTS, 0, units=5, **options).double()
    for parameter in built.parameters():
        parameter.data.normal_()
    return built


def sequences() -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    return [rng.standard_normal((n, INPUTS)) for n in LENGTHS]


def windows(x: np.ndarray, segment: int, shift: int) -> Iterator[np.ndarray]:
    """The segments of a sequence: one for every `shift` frames, the last ones shorter."""
    for start in range(0, len(x), shift) if segment else [0]:
        yield x[start : start + segment] if segment else x


def pool_by_numpy(layer: Pool, h: np.ndarray) -> np.ndarray:
    """What the docstring of `Pool` says of the states of one segment."""
    if layer.of == "mean":
        return h.mean(0)
    if layer.of == "last":
        half = INPUTS // layer.directions
        return np.concatenate([h[-1, :half], h[0, half:]]) if layer.directions == 2 else h[-1]
    W, b, u_l = (p.detach().numpy() for p in (layer.W.weight, layer.W.bias, layer.u))
    scores = np.array([np.tanh(W @ h_t + b) @ u_l for h_t in h])
    a = np.exp(scores) / np.exp(scores).sum()
    return np.sum(a[:, None] * h, axis=0)


def compute(layer: Pool, xs: list[np.ndarray]) -> list[np.ndarray]:
    packed, frames, order = pack([torch.from_numpy(x) for x in xs])
    y = layer(packed, frames)
    return [one.detach().numpy() for one in unpack(y, frames.every(layer.stride), order)]


@pytest.mark.parametrize(("segment", "shift"), SEGMENTS)
@pytest.mark.parametrize(
    ("of", "directions"), [("mean", 1), ("last", 1), ("last", 2), ("attention", 1)]
)
def test_pools_compute_their_equations(of: str, directions: int, segment: int, shift: int) -> None:
    layer = pool(of, segment, shift, directions)
    xs = sequences()[::-1]  # in another order than they are packed
    for x, found in zip(xs, compute(layer, xs), strict=True):
        wanted = [pool_by_numpy(layer, h) for h in windows(x, segment, shift)]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_equal_scores_give_the_mean_and_large_ones_are_finite() -> None:
    layer, xs = pool("attention"), sequences()
    layer.u.data.zero_()
    for x, found in zip(xs, compute(layer, xs), strict=True):
        np.testing.assert_allclose(found[0], x.mean(0), rtol=0, atol=1e-12)
    layer.u.data.fill_(1e6)
    assert all(np.isfinite(found).all() for found in compute(layer, xs))


def test_weights_of_an_utterance_add_up_to_one() -> None:
    layer = pool("attention")
    packed, frames, order = pack([torch.from_numpy(x) for x in sequences()])
    found = layer.weigh(packed, frames).detach()
    for weights, x in zip(unpack(found, frames, order), sequences(), strict=True):
        assert float(weights.sum()) == pytest.approx(1)
        pooled = (weights[:, None] * torch.from_numpy(x)).sum(0).numpy()
        np.testing.assert_allclose(pooled, pool_by_numpy(layer, x), rtol=0, atol=1e-12)


def test_the_last_state_is_what_torch_ends_with() -> None:
    """Of both directions, as the second output of torch.nn.GRU has it."""
    net = stacked(
        {"name": "rnn", "kind": "recurrent", "unit": "torch-gru", "units": 3, "norm": "none"}
        | {"dropout": 0.0},
        {"name": "last", "kind": "pool", "of": "last"},
    ).eval()
    assert net.architecture["layers"][1]["directions"] == 2
    torch.manual_seed(5)
    xs = [torch.randn(n, INPUTS, dtype=torch.float64) for n in LENGTHS]
    packed, frames, _ = pack(xs)
    theirs = torch.nn.GRU(INPUTS, 3, bidirectional=True).double()
    rnn = net.layers[0]
    with torch.no_grad():
        for d, suffix in enumerate(("_l0", "_l0_reverse")):
            bias = torch.cat([torch.zeros(6), rnn.cell.recurrent_bias[d]])
            getattr(theirs, f"weight_ih{suffix}").copy_(rnn.W.weight.view(2, 9, INPUTS)[d])
            getattr(theirs, f"bias_ih{suffix}").copy_(rnn.W.bias.view(2, 9)[d])
            getattr(theirs, f"weight_hh{suffix}").copy_(rnn.V[d].T)
            getattr(theirs, f"bias_hh{suffix}").copy_(bias)
    outputs = net.layers[1](rnn(packed, frames), frames)
    for x, found in zip(xs, outputs, strict=True):
        _, last = theirs(x[:, None])
        torch.testing.assert_close(found, last[:, 0].flatten(), rtol=0, atol=1e-12)


HIERARCHY = [
    {"name": "low", "kind": "recurrent", "unit": "gru", "units": 3, "norm": "none"},
    {"name": "segments", "kind": "pool", "segment": 4, "shift": 2, "units": 3},
    {"name": "high", "kind": "recurrent", "unit": "gru", "units": 3, "norm": "none"},
    {"name": "whole", "kind": "pool", "units": 3},
]


def classifier(*stack: dict[str, Any]) -> AcousticModel:
    """A network of one head of utterances, in double precision."""
    plan = stacked(*stack).architecture
    torch.manual_seed(6)
    return AcousticModel(**{**plan, "heads": {"classes": 4}, "of_utterances": ["classes"]}).double()


def classify(net: AcousticModel, xs: list[Tensor]) -> list[Tensor]:
    packed, frames, order = pack(xs)
    return unpack(net({STREAM: packed}, frames)["classes"], net.output_frames(frames), order)


def test_an_utterance_has_the_same_logits_in_any_company() -> None:
    net = classifier(*HIERARCHY).eval()
    xs = [torch.from_numpy(x) for x in sequences()]
    together = classify(net, xs[::-1])[::-1]
    for x, found in zip(xs, together, strict=True):
        assert found.shape == (1, 4)
        torch.testing.assert_close(classify(net, [x])[0], found, rtol=0, atol=1e-12)


def test_a_hierarchy_learns_by_the_gradients_of_differences() -> None:
    net = classifier(*HIERARCHY).train()
    packed, frames, _ = pack([torch.from_numpy(x) for x in sequences()[:3]])
    labels = torch.tensor([1, 3, 0])

    def loss(*_: Tensor) -> Tensor:
        logits = net({STREAM: packed}, frames)["classes"]
        return torch.nn.functional.cross_entropy(logits, labels)

    assert torch.autograd.gradcheck(loss, tuple(net.parameters()), fast_mode=True)


def test_heads_of_frames_hold_what_is_pooled() -> None:
    net = stacked(
        {"name": "front", "kind": "projection", "units": 6},
        {"name": "whole", "kind": "pool", "reads": ["front"], "of": "mean"},
        {"name": "last", "kind": "projection", "units": 5, "reads": ["front", "whole"]},
    )
    x = torch.from_numpy(sequences()[0])
    front = net.layers[0](x, PackedFrames((11,)))
    beside = torch.cat([front, front.mean(0, keepdim=True).expand(11, -1)], 1)
    wanted = net.heads[0](net.layers[2](beside, PackedFrames((11,))))
    torch.testing.assert_close(
        net({STREAM: x}, PackedFrames((11,)))["pdfs"], wanted, rtol=0, atol=1e-12
    )


def test_a_sequence_of_pools_stays_one_frame_an_utterance() -> None:
    whole = {"kind": "pool", "of": "mean"}
    net = classifier({"name": "a", **whole}, {"name": "b", **whole, "segment": 5, "shift": 3})
    assert net.strides["b"] == WHOLE
    packed, frames, _ = pack([torch.from_numpy(x) for x in sequences()])
    assert net.hidden({STREAM: packed}, frames).shape == (len(LENGTHS), INPUTS)


@pytest.mark.parametrize(
    ("stack", "message"),
    [
        ([{"kind": "pool", "segment": 2, "shift": 3}], "shift is 3 and segment 2: frames between"),
        ([{"kind": "pool", "of": "last", "directions": 2}, {}], "reads 5 numbers, which are not"),
        ([{"kind": "pool", "residual": True}], "12 outputs of one frame an utterance; make them"),
    ],
)
def test_what_is_no_pool_is_refused(stack: list[dict[str, Any]], message: str) -> None:
    first = {"name": "a", "kind": "projection", "units": 5} if len(stack) > 1 else None
    layers = [*([first] if first else []), {"name": "p", **stack[0]}]
    with pytest.raises(InputError, match=message):
        stacked(*layers)


def test_a_head_of_utterances_needs_a_pool() -> None:
    with pytest.raises(InputError, match="head classes has one label an utterance, but it reads"):
        classifier(HIERARCHY[0])
