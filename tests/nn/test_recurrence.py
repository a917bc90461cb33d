"""What every unit must keep, whatever its equation: a new one inherits all of these."""

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.recurrent import RecurrentLayer
from tests.support.nn_units import (
    CAUSAL,
    DIRECTIONS,
    FUSED,
    KEYS,
    LENGTHS,
    RECURRENT,
    UNITS,
    acoustic_model,
    batch,
    layer,
    logits,
    model,
    name,
    pdf_logits,
)

every_unit = pytest.mark.parametrize("unit", UNITS, ids=name)
every_recurrent_unit = pytest.mark.parametrize("unit", RECURRENT, ids=name)
every_causal_unit = pytest.mark.parametrize("unit", CAUSAL, ids=name)
every_direction = pytest.mark.parametrize("directions", DIRECTIONS, ids=name)


def trained(net: RecurrentLayer) -> list[Tensor]:
    return [parameter for parameter in net.parameters() if parameter.requires_grad]


def gradients(
    net: RecurrentLayer, x: Tensor, frames: PackedFrames, keys: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """Outputs, and the gradients of a random projection of them by inputs and parameters."""
    x = x.clone().requires_grad_()
    y = net(x, frames, keys)
    torch.manual_seed(3)
    wanted = [x, *trained(net)]
    return y.detach(), list(torch.autograd.grad((y * torch.randn_like(y)).sum(), wanted))


@every_unit
@every_direction
@pytest.mark.parametrize("norm", ["none", "batch"])
def test_gradients_are_those_of_finite_differences(
    unit: dict[str, Any], directions: dict[str, bool], norm: str
) -> None:
    net = layer(**unit, **directions, norm=norm, dropout=0.4, input_dropout=0.3)
    x, frames = batch()
    x.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, *_: net(x, frames, KEYS), (x, *trained(net)), fast_mode=True
    )


@pytest.mark.parametrize("unit", FUSED, ids=name)
@every_direction
@pytest.mark.parametrize("keys", [KEYS, None], ids=["training", "evaluation"])
@pytest.mark.parametrize(
    ("dtype", "forward", "backward"), [(torch.float32, 1e-6, 1e-5), (torch.float64, 1e-14, 1e-13)]
)
def test_hand_written_backward_is_that_of_the_scan(
    unit: dict[str, Any],
    directions: dict[str, bool],
    keys: Tensor | None,
    dtype: torch.dtype,
    forward: float,
    backward: float,
) -> None:
    fused = layer(**unit, **directions, dropout=0.4).to(dtype)
    scanned = copy.deepcopy(fused)
    scanned.fused = False
    x, frames = batch((20, 13, 1))
    keys = None if keys is None else keys[:3]
    (y1, by_fused), (y2, by_scan) = (
        gradients(net, x.to(dtype), frames, keys) for net in (fused, scanned)
    )
    assert (y1 - y2).abs().max() <= forward * y2.abs().max()
    for a, b in zip(by_fused, by_scan, strict=True):
        assert (a - b).norm() <= backward * max(b.norm().item(), 1e-3)


@pytest.mark.parametrize("unit", ["lstm", "ubru"])
def test_frozen_parameters_of_a_cell_get_no_gradient(unit: str) -> None:
    net = layer(unit=unit, options={"peepholes": True} if unit == "lstm" else {})
    frozen, *others = net.cell.parameters()
    frozen.requires_grad_(False)
    net(*batch()).square().sum().backward()
    assert frozen.grad is None
    assert all(p.grad is not None for p in others)


@every_unit
@every_direction
def test_neighbours_padding_and_order_change_nothing(
    unit: dict[str, Any], directions: dict[str, bool]
) -> None:
    net = model(**unit, **directions).eval()
    x = [torch.randn(n, 3, dtype=torch.float64) for n in (2, 7, 1, 4)]
    together = logits(net, x)
    for sequence, expected in zip(x, together, strict=True):
        torch.testing.assert_close(logits(net, [sequence])[0], expected, rtol=0, atol=1e-12)
    for a, b in zip(logits(net, x[::-1])[::-1], together, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@every_unit
def test_dropout_in_a_batch_is_that_of_the_sequence_alone(unit: dict[str, Any]) -> None:
    net = model(**unit, norm="none", dropout=0.5, input_dropout=0.5)
    x, frames = batch()
    together = pdf_logits(net, x, frames, KEYS)
    assert not torch.equal(together, pdf_logits(net, x, frames))
    for i, length in enumerate(LENGTHS):
        mine = frames.sequence == i
        alone = pdf_logits(net, x[mine], PackedFrames((length,)), KEYS[i : i + 1])
        torch.testing.assert_close(alone, together[mine], rtol=0, atol=1e-12)


def test_frames_of_an_mlp_are_dropped_one_by_one() -> None:
    """As torch.nn.Dropout does: with a mask for whole utterances one frame is all frames."""
    net = layer(unit="mlp", norm="none", dropout=0.5, input_dropout=0.0, bidirectional=False)
    frames = PackedFrames((200, 200))
    same = torch.ones(1, 3, dtype=torch.float64).expand(frames.count, 3)
    kept = (net(same, frames, KEYS[:2]) != 0).double()
    for unit in kept.unbind(1):  # 5 standard deviations of 400 independent coins are 0.125
        assert abs(unit.mean() - 0.5) < 0.125
        assert abs((unit[2:] == unit[:-2]).double().mean() - 0.5) < 0.125  # the next frame
        assert abs((unit[::2] == unit[1::2]).double().mean() - 0.5) < 0.18  # the other utterance


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"activation": "p-sigmoid"}, []),
        ({"activation": "p-sigmoid", "activation_trains": ["eta", "theta"]}, ["weight"]),
        ({"activation": "p-sigmoid", "activation_trains": ["gamma"]}, ["bias"]),
        ({"activation": "p-relu"}, ["bias", "weight"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("norm", ["batch", "batch-shared", "layer"])
def test_a_norm_trains_nothing_that_the_activation_trains(
    norm: str, options: dict[str, Any], kept: list[str]
) -> None:
    net = layer(unit="mlp", options=options, norm=norm)
    trains = {name.rpartition(".")[2] for name, p in net.norm.named_parameters() if p.requires_grad}
    assert sorted(trains) == kept


@every_recurrent_unit
def test_backward_direction_starts_at_the_last_real_frame(unit: dict[str, Any]) -> None:
    both = layer(**unit, norm="none", bidirectional=True, tied_directions=False)
    one = layer(**unit, norm="none", bidirectional=False)
    second = {
        key: value.view(2, -1, *one.state_dict()[key].shape[1:])[1].view_as(one.state_dict()[key])
        for key, value in both.state_dict().items()
    }
    one.load_state_dict(second)
    x, frames = batch()
    together = both(x, frames).view(len(x), 2, -1)[:, 1]
    for i, length in enumerate(LENGTHS):
        mine = frames.sequence == i
        reversed_alone = one(x[mine].flip(0), PackedFrames((length,)))
        torch.testing.assert_close(together[mine], reversed_alone.flip(0), rtol=0, atol=1e-12)


@every_causal_unit
def test_future_frames_reach_the_backward_direction_only(unit: dict[str, Any]) -> None:
    net = layer(**unit, bidirectional=True, norm="none")
    x, frames = batch((4,))
    x.requires_grad_()
    y = net(x, frames).view(4, 2, -1)
    (by_past,) = torch.autograd.grad(y[1, 0].sum(), x, retain_graph=True)
    (by_future,) = torch.autograd.grad(y[1, 1].sum(), x)
    assert by_past[2:].abs().max() == 0 < by_past[0].abs().max()
    assert by_future[0].abs().max() == 0 < by_future[3].abs().max()


@every_unit
@every_direction
def test_a_single_frame_can_be_trained_on(
    unit: dict[str, Any], directions: dict[str, bool]
) -> None:
    net = model(**unit, **directions, dropout=0.2).train()
    x, frames = batch((1,))
    logits = pdf_logits(net, x, frames, KEYS[:1])
    logits.square().sum().backward()
    assert torch.isfinite(logits).all()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in net.parameters())


@every_unit
@every_direction
def test_saved_weights_give_the_same_network(
    unit: dict[str, Any], directions: dict[str, bool]
) -> None:
    net = model(**unit, **directions).eval()
    saved = io.BytesIO()
    torch.save(net.state_dict(), saved)
    saved.seek(0)
    other = acoustic_model(3, [4], units=(4, 3), dropout=0.0, **unit, **directions).double().eval()
    other.load_state_dict(torch.load(saved, weights_only=True))
    x, frames = batch()
    assert torch.equal(pdf_logits(net, x, frames), pdf_logits(other, x, frames))


@pytest.mark.slow
@every_recurrent_unit
def test_first_frame_can_be_remembered(unit: dict[str, Any]) -> None:
    torch.manual_seed(4)
    net = acoustic_model(2, [2], units=(12,), **unit, bidirectional=False, dropout=0.0, norm="none")
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    lengths = (6,) * 32 + (4,) * 32
    frames = PackedFrames(lengths)
    x = 0.3 * torch.randn(sum(lengths), 2)
    first = torch.randint(2, (64,))
    x[:64] += 2.0 * first[:, None] - 1
    labels = first[frames.sequence]
    for _ in range(120):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(pdf_logits(net, x, frames), labels)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1  # ln 2 = 0.69 without memory


@pytest.mark.slow
@every_unit
@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        pytest.param(torch.bfloat16, marks=pytest.mark.slow),
        pytest.param(torch.float64, marks=pytest.mark.slow),
    ],
)
def test_long_and_large_inputs_stay_finite(unit: dict[str, Any], dtype: torch.dtype) -> None:
    torch.manual_seed(5)
    net = acoustic_model(3, [4], units=(4,), **unit, norm="none").to(dtype)
    x = (1e3 * torch.randn(2000, 3).sign()).to(dtype)
    logits = pdf_logits(net, x, PackedFrames((2000,)))
    logits.float().logsumexp(1).sum().backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)


@every_unit
def test_autocast_stays_near_single_precision(unit: dict[str, Any]) -> None:
    net = model(**unit).float()
    x, frames = batch()
    expected = pdf_logits(net, x.float(), frames)
    with torch.autocast("cpu", torch.bfloat16):
        logits = pdf_logits(net, x.float(), frames)
    logits.float().square().sum().backward()
    assert (logits - expected).abs().max() < 0.05 * expected.abs().max()


@pytest.mark.gpu
@every_unit
def test_cuda_computes_what_the_cpu_does(unit: dict[str, Any]) -> None:
    net = model(**unit, dropout=0.4, norm="layer")
    x, frames = batch()
    expected = pdf_logits(net, x, frames, KEYS)
    there = PackedFrames(frames.lengths, torch.device("cuda"))
    computed = pdf_logits(net.cuda(), x.cuda(), there, KEYS.cuda())
    torch.testing.assert_close(computed.cpu(), expected, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::")  # those of the compiler about itself
@pytest.mark.parametrize("unit", ["li-bru", "torch-gru"])
def test_compiling_changes_nothing(unit: str) -> None:
    net = model(unit=unit)
    x, frames = batch()
    compiled = torch.compile(net, backend="eager")
    streams = {"features": x}
    torch.testing.assert_close(compiled(streams, frames, KEYS), net(streams, frames, KEYS))
