"""What every kind of layer must keep, in every form: a new one inherits all of these."""

import copy
import io
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bayes_asr.config.catalogue import LAYERS
from bayes_asr.config.model_keys import KindsConfig
from bayes_asr.config.values import hints
from bayes_asr.nn.frames import PackedFrames, pack, unpack
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.norm import AllReduce, BatchNorm
from tests.support.nn_layers import FORMS, INPUTS, STREAM, name_form, network_of, stacked
from tests.support.nn_units import KEYS, LENGTHS, Processes, batch


def pools_statistics(net: AcousticModel) -> bool:
    """Whether the first layer normalises by the statistics of a batch."""
    return any(isinstance(module, BatchNorm) for module in net.layers[0].modules())


every_form = pytest.mark.parametrize("form", FORMS, ids=name_form)
every_chunked_form = pytest.mark.parametrize(
    "form", [form for form in FORMS if not network_of(form).looks_ahead], ids=name_form
)
Form = Mapping[str, Any]


def compute(net: AcousticModel, sequences: list[Tensor]) -> list[Tensor]:
    """Logits [T, outputs] of both heads of sequences [T, F], computed together."""
    x, frames, order = pack(sequences)
    return unpack(torch.cat(list(net({STREAM: x}, frames).values()), 1), frames, order)


def random_sequences(*lengths: int) -> list[Tensor]:
    torch.manual_seed(2)
    return [torch.randn(n, INPUTS, dtype=torch.float64) for n in lengths]


def test_every_kind_has_its_options() -> None:
    """Those of recurrent layers are those of `model`."""
    assert {*hints(KindsConfig), "recurrent"} == set(LAYERS)


@every_form
def test_company_padding_and_order_change_nothing(form: Form) -> None:
    net = network_of(form).eval()
    x = random_sequences(2, 7, 1, 4)
    together = compute(net, x)
    for sequence, expected in zip(x, together, strict=True):
        torch.testing.assert_close(compute(net, [sequence])[0], expected, rtol=0, atol=1e-12)
    for a, b in zip(compute(net, x[::-1])[::-1], together, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@every_form
def test_a_neighbour_that_is_not_finite_reaches_nobody(form: Form) -> None:
    net = network_of(form).eval()
    x = random_sequences(5, 9, 3)
    expected = compute(net, x)
    x[1] = torch.full_like(x[1], torch.nan)
    for found, alone in zip(compute(net, x)[::2], expected[::2], strict=True):
        torch.testing.assert_close(found, alone, rtol=0, atol=1e-12)


@every_form
def test_gradients_are_those_of_finite_differences(form: Form) -> None:
    has_kinks = form["kind"] in ("mlp", "conv1d", "conv2d", "sinc") and "activation" not in form
    net = network_of(form, **({"activation": "tanh"} if has_kinks else {})).train()
    x, frames = batch((5, 4, 2), INPUTS)
    x.requires_grad_()
    wanted = [parameter for parameter in net.layers[0].parameters() if parameter.requires_grad]
    assert torch.autograd.gradcheck(
        lambda x, *_: net.layers[0](x, frames, KEYS[:3]), (x, *wanted), fast_mode=True
    )


@every_form
def test_dropout_in_a_batch_is_that_of_the_sequence_alone(form: Form) -> None:
    plain = {"norm": "none"} if form.get("norm") == "batch" or "norm" not in form else {}
    has_norm = form["kind"] in ("mlp", "conv1d", "conv2d", "sinc", "recurrent", "segments")
    drops = form["kind"] not in ("projection", "norm", "pool")
    net = network_of(form, **(plain if has_norm else {}), **({"dropout": 0.5} if drops else {}))
    if form["kind"] == "norm":
        net.eval()
    layer = net.layers[0]
    x, frames = batch(inputs=INPUTS)
    together = layer(x, frames, KEYS)
    assert torch.equal(together, layer(x, frames)) != drops
    kept = frames.every(layer.stride)
    for i, length in enumerate(LENGTHS):
        alone = layer(x[frames.sequence == i], PackedFrames((length,)), KEYS[i : i + 1])
        torch.testing.assert_close(alone, together[kept.sequence == i], rtol=0, atol=1e-12)


def test_layers_drop_by_their_number() -> None:
    form = {"kind": "dropout", "dropout": 0.5}
    net = stacked({"name": "a", **form}, {"name": "b", **form})
    x, frames = batch(inputs=INPUTS)
    first, second = (layer(torch.ones_like(x), frames, KEYS) for layer in net.layers)
    assert not torch.equal(first, second)


@every_chunked_form
@pytest.mark.parametrize("sizes", [(1,) * 30, (1, 4, 25), (29, 1), (13, 17)])
def test_chunks_give_what_the_whole_gives(form: Form, sizes: tuple[int, ...]) -> None:
    net = network_of(form).eval()
    (x,) = random_sequences(30)
    whole = net.hidden({STREAM: x}, PackedFrames((30,)))
    states: list[Any] = []
    found = []
    for chunk in x.split(list(sizes)):
        hidden, states = net.advance({STREAM: chunk}, states)
        found.append(hidden)
    torch.testing.assert_close(torch.cat(found), whole, rtol=0, atol=1e-12)
    again, _ = net.advance({STREAM: x[:3]}, net.begin())
    torch.testing.assert_close(again, whole[:3], rtol=0, atol=1e-12)


@every_form
def test_who_does_not_look_ahead_reads_nothing_later(form: Form) -> None:
    """And who does, does: a network that could be computed in chunks would say so."""
    layer = network_of(form).eval().layers[0]
    (x,) = random_sequences(12)
    x.requires_grad_()
    (by_x,) = torch.autograd.grad(layer(x, PackedFrames((12,)))[:1].sum(), x)
    assert layer.looks_ahead == (bool(by_x[1:].abs().max() > 0) or layer.stride > 1)


@every_form
def test_a_single_frame_can_be_trained_on(form: Form) -> None:
    net = network_of(form).train()
    x, frames = batch((1,), INPUTS)
    outputs = torch.cat(list(net({STREAM: x}, frames, KEYS[:1]).values()), 1)
    outputs.square().sum().backward()
    assert torch.isfinite(outputs).all()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in net.parameters())


@every_form
def test_digital_silence_can_be_trained_on(form: Form) -> None:
    net = network_of(form).train()
    frames = PackedFrames((4, 3))
    outputs = net({STREAM: torch.zeros(7, INPUTS, dtype=torch.float64)}, frames, KEYS[:2])["pdfs"]
    outputs.square().sum().backward()
    assert torch.isfinite(outputs).all()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in net.parameters())


@every_form
def test_a_process_without_utterances_takes_part(form: Form) -> None:
    """Norms add their statistics up over all processes; here they are all of one, with nothing."""
    net = network_of(form).eval()
    outputs = net({STREAM: torch.empty(0, INPUTS, dtype=torch.float64)}, PackedFrames(()), KEYS[:0])
    assert {name: tuple(y.shape) for name, y in outputs.items()} == {
        "pdfs": (0, 4),
        "monophones": (0, 3),
    }
    sum(y.sum() for y in outputs.values()).backward()
    assert all(p.grad is None or not p.grad.any() for p in net.parameters())


@pytest.mark.parametrize(
    "form", [form for form in FORMS if pools_statistics(network_of(form))], ids=name_form
)
def test_processes_that_share_a_batch_compute_it_as_one(form: Form) -> None:
    """One of them has no utterance."""
    torch.manual_seed(7)
    x = random_sequences(5, 3, 6)
    weights = [torch.randn(len(one), 4, dtype=torch.float64) for one in x]
    processes, built = Processes(3), network_of(form)

    def train(shares: list[int], all_reduce: AllReduce | None) -> list[Tensor]:
        """Gradients of this share of the batch, then the statistics."""
        net = copy.deepcopy(built).train()
        for module in net.modules():
            if isinstance(module, BatchNorm):
                module.all_reduce = all_reduce
        packed, frames, _ = (
            pack([x[i] for i in shares]) if shares else (x[0][:0], PackedFrames(()), [])
        )
        by_frame, *_ = pack([weights[i] for i in shares]) if shares else (weights[0][:0],)
        (net({STREAM: packed}, frames)["pdfs"] * by_frame).sum().backward()
        layer = net.layers[0]
        learnt = [torch.zeros_like(p) if p.grad is None else p.grad for p in layer.parameters()]
        return learnt + [b for b in layer.buffers() if b.is_floating_point()]

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda mine: train(mine, processes.all_reduce), ([0, 2], [1], [])))
    whole, count = train([0, 1, 2], None), len(list(built.layers[0].parameters()))
    for i, expected in enumerate(whole):
        alone = sum(each[i] for each in found) if i < count else found[2][i]
        torch.testing.assert_close(alone, expected)


@every_form
def test_saved_weights_give_the_same_network(form: Form) -> None:
    net = network_of(form).eval()
    saved = io.BytesIO()
    torch.save({"weights": net.state_dict(), "architecture": net.architecture}, saved)
    saved.seek(0)
    content = torch.load(saved, weights_only=True)
    with torch.device("meta"):
        other = AcousticModel(**content["architecture"])
    other.load_state_dict(content["weights"], assign=True)
    x = random_sequences(3, 5)
    for a, b in zip(compute(net, x), compute(other.eval(), x), strict=True):
        assert torch.equal(a, b)


@every_form
def test_one_architecture_has_one_beginning(form: Form) -> None:
    first, second = (network_of(form).state_dict() for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)


@every_form
def test_outputs_have_the_size_that_is_said(form: Form) -> None:
    layer = network_of(form).eval().layers[0]
    x, frames = batch(inputs=INPUTS)
    assert layer(x, frames).shape == (frames.every(layer.stride).count, layer.outputs)
    assert layer.max_width >= layer.outputs


@every_form
def test_autocast_stays_near_single_precision(form: Form) -> None:
    net = network_of(form).float()
    x, frames = batch((20, 14, 6), INPUTS)
    expected = net({STREAM: x.float()}, frames)["pdfs"]
    with torch.autocast("cpu", torch.bfloat16):
        logits = net({STREAM: x.float()}, frames)["pdfs"]
    logits.float().square().sum().backward()
    assert (logits - expected).norm() < 0.05 * expected.norm()


@pytest.mark.parametrize("stride", [1, 2, 3, 7])
@pytest.mark.parametrize("lengths", [(9,), (9, 7, 7, 3, 1)])
def test_frames_are_held_up_to_the_next(stride: int, lengths: tuple[int, ...]) -> None:
    sequences = [np.arange(n) + 100.0 * i for i, n in enumerate(lengths)]
    slow = pack([torch.from_numpy(x[::stride]) for x in sequences])[0]
    frames = PackedFrames(lengths)
    assert frames.every(stride).count == len(slow)
    held = unpack(frames.repeat(slow[:, None], stride), frames, list(range(len(lengths))))
    for x, found in zip(sequences, held, strict=True):
        assert found[:, 0].tolist() == [x[t - t % stride] for t in range(len(x))]
    assert copy.copy(frames).every(1).lengths == lengths


@pytest.mark.gpu
@every_form
def test_cuda_computes_what_the_cpu_does(form: Form) -> None:
    net = network_of(form, **({} if "dropout" not in form else {"dropout": 0.4})).eval()
    x, frames = batch(inputs=INPUTS)
    expected = net({STREAM: x}, frames, KEYS)["pdfs"]
    there = PackedFrames(frames.lengths, torch.device("cuda"))
    computed = net.cuda()({STREAM: x.cuda()}, there, KEYS.cuda())["pdfs"]
    torch.testing.assert_close(computed.cpu(), expected, rtol=0, atol=1e-10)
