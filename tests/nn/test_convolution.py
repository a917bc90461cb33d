"""Convolutions against torch's own on utterances without padding, norms and SincNet likewise."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, conv2d, max_pool1d, max_pool2d, pad

from bayes_asr.base.errors import InputError
from bayes_asr.nn.convolution import Convolution1d, Convolution2d, WindowedLayer
from bayes_asr.nn.frames import PackedFrames, pack, unpack
from bayes_asr.nn.layer import Layer
from bayes_asr.nn.norm import build_norm
from bayes_asr.nn.pointwise import Dropout, InstanceNorm
from bayes_asr.nn.sinc import SincLayer
from tests.support.nn_units import KEYS

LENGTHS = (2, 11, 1, 6)
LINEAR: dict[str, Any] = {"norm": "none", "activation": "linear", "dropout": 0.0}


def outputs_of(layer: Layer, inputs: int) -> tuple[list[Tensor], list[Tensor]]:
    """Utterances [T, F], and what a layer makes of all of them together [T', outputs]."""
    torch.manual_seed(3)
    x = [torch.randn(n, inputs, dtype=torch.float64) for n in LENGTHS]
    packed, frames, order = pack(x)
    return x, unpack(layer.double()(packed, frames), frames.every(layer.stride), order)


def assert_same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_convolution_in_time_is_torchs_with_zeros_around(
    kernel: int, dilation: int, stride: int, causal: bool
) -> None:
    options = {"kernel": kernel, "dilation": dilation, "stride": stride, "causal": causal}
    layer = Convolution1d(4, 0, channels=5, **options, **LINEAR)
    theirs = nn.Conv1d(4, 5, kernel, stride, dilation=dilation).double()
    x, found = outputs_of(layer, 4)
    with torch.no_grad():
        theirs.weight.copy_(layer.W.weight.view(5, kernel, 4).transpose(1, 2))
        theirs.bias.copy_(layer.W.bias)
    reach = (kernel - 1) * dilation
    around = (reach, 0) if causal else (reach // 2, reach - reach // 2)
    for one, outputs in zip(x, found, strict=True):
        assert_same(outputs, theirs(pad(one.T, around)[None])[0].T)
        assert len(outputs) == math.ceil(len(one) / stride)


@pytest.mark.parametrize("kernel", [(1, 3), (3, 3), (4, 2)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("pooling", [1, 2])
@pytest.mark.parametrize("causal", [False, True])
def test_convolution_in_time_and_frequency_is_torchs(
    kernel: tuple[int, int], stride: int, padding: int, pooling: int, causal: bool
) -> None:
    shape = {"kernel": kernel, "stride": stride, "padding": padding, "pooling": pooling}
    layer = Convolution2d(
        18, 0, channels=5, input_channels=2, dilation=2, causal=causal, **shape, **LINEAR
    )
    x, found = outputs_of(layer, 18)
    reach = (kernel[0] - 1) * 2
    around = (reach, 0) if causal else (reach // 2, reach - reach // 2)
    own = layer.convolution
    for one, outputs in zip(x, found, strict=True):
        maps = one.view(-1, 2, 9).transpose(0, 1)  # channels, frames, frequencies
        padded = pad(maps, (padding, padding, *around))[None]
        convolved = conv2d(padded, own.weight, own.bias, (1, stride), dilation=(2, 1))
        pooled = max_pool2d(convolved, (1, pooling))[0]
        assert_same(outputs, pooled.transpose(0, 1).flatten(1))
    assert layer.outputs == found[0].shape[1]


def test_convolution_over_the_vector_of_a_frame_is_that_of_pytorch_kaldi() -> None:
    """Its CNN: convolution, pooling, norm over frequencies, activation; the next on its maps."""
    fixed: dict[str, Any] = {"dilation": 1, "stride": 1, "padding": 0, "causal": False}
    fixed |= {"norm": "layer-pytorch-kaldi", "activation": "relu", "dropout": 0.0}
    first = Convolution2d(
        44, 0, channels=4, input_channels=1, kernel=(1, 10), pooling=3, **fixed
    ).double()
    second = Convolution2d(
        first.outputs, 1, channels=3, input_channels=4, kernel=(1, 3), pooling=2, **fixed
    ).double()
    torch.manual_seed(4)
    for parameter in (*first.parameters(), *second.parameters()):
        parameter.data.add_(torch.randn_like(parameter))
    x = torch.randn(6, 44, dtype=torch.float64)

    def theirs(x_BCL: Tensor, layer: Convolution2d, pooling: int) -> Tensor:
        found = max_pool1d(conv1d(x_BCL, layer.convolution.weight[:, :, 0]), pooling)
        scale, shift = layer.maps.norm.weight, layer.maps.norm.bias
        mean, deviation = found.mean(-1, keepdim=True), found.std(-1, keepdim=True)
        return torch.relu(scale * (found - mean) / (deviation + 1e-6) + shift)

    expected = theirs(theirs(x[:, None], first, 3), second, 2).reshape(6, -1)
    frames = PackedFrames((4, 2))
    assert_same(second(first(x, frames), frames), expected)


def test_maps_have_a_batch_norm_for_each_channel() -> None:
    options = {"kernel": (3, 3), "stride": 1, "padding": 1, "pooling": 1, "dilation": 1}
    layer = Convolution2d(
        14,
        0,
        channels=3,
        input_channels=2,
        causal=False,
        norm="batch",
        activation="linear",
        dropout=0,
        **options,
    )
    x, found = outputs_of(layer, 14)
    plain = []
    for one in x:
        padded = pad(one.view(-1, 2, 7).transpose(0, 1), (1, 1, 1, 1))[None]
        plain.append(conv2d(padded, layer.convolution.weight)[0].transpose(0, 1))
    theirs = nn.BatchNorm1d(3, momentum=0.05).double()
    assert_same(torch.cat(found), theirs(torch.cat(plain)).flatten(1))
    assert_same(layer.maps.norm.running_var, theirs.running_var)


def sinc_filters(layer: SincLayer, rate: float, low_hz: float, band_hz: float) -> np.ndarray:
    """Equation 4 of the paper in NumPy, with np.sinc(x) = sin(pi x) / (pi x), and its window."""
    first = low_hz / rate + np.abs(layer.low.detach().numpy())
    last = first + band_hz / rate + np.abs(layer.band.detach().numpy())
    n = np.arange(layer.kernel) - layer.kernel // 2
    pairs = zip(first, last, strict=True)
    g = np.array([2 * b * np.sinc(2 * b * n) - 2 * a * np.sinc(2 * a * n) for a, b in pairs])
    return g / g.max(1, keepdims=True) * np.hamming(layer.kernel)


@pytest.mark.parametrize(("kernel", "stride", "pooling"), [(129, 1, 3), (25, 4, 2), (1, 1, 1)])
def test_sinc_filters_are_those_of_the_paper(kernel: int, stride: int, pooling: int) -> None:
    options = {"kernel": kernel, "stride": stride, "pooling": pooling}
    layer = SincLayer(
        200, 0, channels=6, sample_rate=8000, min_low=50, min_band=40, **options, **LINEAR
    )
    x, found = outputs_of(layer, 200)
    filters = sinc_filters(layer, 8000, 50, 40)
    np.testing.assert_allclose(layer.filters().detach(), filters, rtol=0, atol=1e-12)
    for one, outputs in zip(x, found, strict=True):
        for samples, values in zip(
            one.numpy(), outputs.detach().view(len(one), 6, -1), strict=True
        ):
            passed = [np.correlate(samples, g)[::stride] for g in filters]
            kept = len(passed[0]) // pooling * pooling
            pooled = np.stack([p[:kept].reshape(-1, pooling).max(1) for p in passed])
            np.testing.assert_allclose(values, pooled, rtol=0, atol=1e-12)


def test_sinc_filters_begin_side_by_side_in_mel_and_pass_their_band() -> None:
    rate = 16000
    layer = SincLayer(
        4000,
        0,
        channels=40,
        kernel=1001,
        sample_rate=rate,
        min_low=50,
        min_band=50,
        stride=1,
        pooling=1,
        **LINEAR,
    )
    low, band = (p.detach().double().numpy() * rate for p in (layer.low, layer.band))
    edges = np.append(low, low[-1] + band[-1])
    np.testing.assert_allclose(edges[1:], low + band, rtol=1e-4)
    mel = 2595 * np.log10(1 + edges / 700)
    np.testing.assert_allclose(np.diff(mel), (mel[-1] - mel[0]) / 40, rtol=1e-2)
    assert edges[0] == pytest.approx(30)
    assert edges[-1] == pytest.approx(rate / 2 - 100, rel=1e-5)
    response = np.abs(np.fft.rfft(layer.filters().detach().double().numpy(), 2**14))
    hz = np.fft.rfftfreq(2**14, 1 / rate)
    for number in range(5, 40, 7):
        a, b = low[number] + 50, low[number] + band[number] + 100
        assert a <= hz[response[number].argmax()] <= b
        outside = response[number][(hz < a - 100) | (hz > b + 100)]
        assert outside.max() < 0.05 * response[number].max()


def test_instance_norm_is_torchs_on_each_utterance() -> None:
    norm = InstanceNorm(4).double()
    theirs = nn.InstanceNorm1d(4, affine=True).double()
    torch.manual_seed(5)
    with torch.no_grad():
        norm.weight.copy_(theirs.weight.normal_())
        norm.bias.copy_(theirs.bias.normal_())
    x = [3 * torch.randn(n, 4, dtype=torch.float64) + 7 for n in (5, 9, 2)]
    packed, frames, order = pack(x)
    for one, found in zip(x, unpack(norm(packed, frames), frames, order), strict=True):
        assert_same(found, theirs(one.T[None])[0].T)
        assert_same(norm(one, PackedFrames((len(one),))), found)


def test_layer_norm_of_pytorch_kaldi_is_its_formula() -> None:
    norm = build_norm("layer-pytorch-kaldi", 1, 2, 5).double()
    x = torch.randn(7, 10, dtype=torch.float64)
    parts = x.view(7, 2, 5)
    expected = (parts - parts.mean(-1, keepdim=True)) / (parts.std(-1, keepdim=True) + 1e-6)
    assert_same(norm(x), expected.flatten(1))


@pytest.mark.parametrize("of", ["units", "frames", "utterances"])
def test_dropout_drops_what_it_says(of: str) -> None:
    frames = PackedFrames((200, 200, 200, 200))
    kept = Dropout(50, 3, of=of, dropout=0.25)(torch.ones(800, 50), frames, KEYS)
    assert kept.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    by_utterance = torch.stack([kept[frames.sequence == i] for i in range(4)])
    count = {"units": 40_000, "frames": 800, "utterances": 200}[of]
    share = (kept == 0).float().mean().item()
    assert abs(share - 0.25) < 5 * math.sqrt(0.25 * 0.75 / count)
    same = {"frames": by_utterance[:, :, :1], "utterances": by_utterance[:, :1]}.get(of)
    if same is not None:
        assert torch.equal(by_utterance, same.expand_as(by_utterance))
    assert not torch.equal(by_utterance[0], by_utterance[1])


def test_blocks_without_a_way_back_give_what_the_whole_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {"kernel": (3, 3), "stride": 1, "padding": 1, "pooling": 1, "dilation": 2}
    layer = Convolution2d(12, 0, channels=3, input_channels=2, causal=False, **options, **LINEAR)
    x = torch.randn(20, 12, dtype=torch.float64)
    whole = layer.double()(x, PackedFrames((9, 7, 4)))
    for block in (1, 50, 200):
        monkeypatch.setattr("bayes_asr.nn.maps.BLOCK", block)
        with torch.no_grad():
            assert_same(layer(x, PackedFrames((9, 7, 4))), whole)


def test_what_does_not_fit_is_refused_with_both_numbers() -> None:
    fixed: dict[str, Any] = {"channels": 3, "dilation": 1, "causal": False, "activation": "relu"}
    fixed |= {"dropout": 0.0}

    def built(norm: str = "none", **more: Any) -> WindowedLayer:
        options = {"input_channels": 1, "kernel": (1, 5), "stride": 1, "padding": 0, "pooling": 1}
        return Convolution2d(12, 0, norm=norm, **fixed, **{**options, **more})

    with pytest.raises(InputError, match="12 numbers, which are not input_channels = 5 maps"):
        built(input_channels=5)
    with pytest.raises(InputError, match=r"reads 12 frequencies, of which kernel 13.* leave 0"):
        built(kernel=(1, 13))
    with pytest.raises(InputError, match=r"leave 8, fewer than pooling = 9"):
        built(pooling=9)
    with pytest.raises(InputError, match=r"norm is layer, .* but pooling leaves 1"):
        built(norm="layer", pooling=8)
    with pytest.raises(InputError, match=r"12 samples, of which kernel 129 .* leave 0 values"):
        SincLayer(
            12,
            0,
            channels=2,
            kernel=129,
            sample_rate=16000,
            min_low=50,
            min_band=50,
            stride=1,
            pooling=3,
            **LINEAR,
        )
