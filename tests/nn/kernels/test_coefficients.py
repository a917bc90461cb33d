"""What kernels read beside weights: the trained numbers of cells and activations."""

import pytest
import torch
from torch import Tensor

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.cpu import library
from bayes_asr.nn.kernels.cpu.recurrence import CompiledRecurrence, KernelCall, find_kernel
from bayes_asr.nn.units.activations import PReLU, PSigmoid
from bayes_asr.nn.units.cell import Kernel
from tests.nn.kernels.test_compiled import assert_as_scanned, every_path
from tests.support.nn_units import DIRECTIONS, layer

pytestmark = pytest.mark.skipif(
    not library.LIBRARY.usable, reason="no compiled recurrences: install with a C++ compiler"
)
FRAMES, KEYS = PackedFrames((20, 13, 13, 1)), torch.tensor([11, -5, 2**40, 0])


@every_path
@pytest.mark.parametrize("unit", ["rnn", "li-gru", "gru", "mgu", "minimal-gru"])
@pytest.mark.parametrize(
    ("activation", "trains"),
    [
        ("p-sigmoid", ["gamma", "theta"]),
        ("p-sigmoid", ["eta"]),
        ("p-relu", ["alpha", "beta"]),
        ("p-relu", ["alpha"]),
    ],
)
def test_parameters_that_are_trained_and_others(
    unit: str, activation: str, trains: list[str], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    options = {"activation": activation, "activation_trains": trains}
    for directions in DIRECTIONS:
        net = layer(unit=unit, options=options, **directions, dropout=0.4).float()
        assert find_kernel(net.cell, net.W.weight) is not None
        assert_as_scanned(net, FRAMES, KEYS)


@pytest.mark.parametrize("activation", [PSigmoid(4, 1, ("eta",)), PReLU(4, 1, ("alpha",))])
def test_a_scale_of_0_stays_0_where_nothing_else_is_trained(activation: PSigmoid | PReLU) -> None:
    (scale,) = activation.parameters()
    with torch.no_grad():
        scale[0, :2] = 0
    by_scale = torch.autograd.grad(activation.coefficients().square().sum() + scale.sum(), scale)[0]
    assert torch.equal(by_scale, 1 + 2 * scale.detach())
    (by_scale,) = torch.autograd.grad(activation.coefficients().sum(), scale)
    assert by_scale.tolist() == [[0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("kernel", "weights", "coefficients", "says"),
    [
        (Kernel("ubru"), torch.zeros(2, 5, 5), [torch.zeros(2, 3, 5)], "0 V and 3 coeff"),
        (Kernel("rnn"), None, [torch.zeros(2, 1, 5)], "1 V and 0 coefficients"),
        (Kernel("rnn", "p-relu"), torch.zeros(2, 5, 5), [], "1 V and 2 coefficients"),
        (Kernel("rnn"), torch.zeros(2, 5, 5), [torch.zeros(2, 1, 5)], "1 V and 0 coefficients"),
        (Kernel("rnn", "p-relu"), torch.zeros(2, 5, 5), [torch.zeros(1, 2, 5)], r"\[2, 2, 5\]"),
        (Kernel("ubru"), None, [torch.zeros(3, 3, 5)], "3 sets of weights"),
    ],
)
def test_what_a_unit_does_not_read_is_refused(
    kernel: Kernel, weights: Tensor | None, coefficients: list[Tensor], says: str
) -> None:
    given = (torch.zeros(6, 2, 5), weights, None, torch.zeros(2, 2, 5), *coefficients)
    call = KernelCall(kernel, PackedFrames((4, 2)), (False, True), keep=True)
    with pytest.raises(ValueError, match=says):
        CompiledRecurrence.apply(call, *given)


@pytest.mark.parametrize(
    ("unit", "options"),
    [
        ("lstm", {"peepholes": True}),
        ("ubru", {"smooth": True}),
        ("li-gru", {"activation": "p-relu"}),
    ],
)
def test_many_units_and_any_number_of_threads(
    unit: str, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = layer(unit=unit, options=options, dropout=0.4).float()
    x, found = torch.randn(FRAMES.count, 3), []
    for threads in (1, 2, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda n=threads: n)
        monkeypatch.setattr("bayes_asr.nn.kernels.cpu.recurrence.WORK", 1)
        y = net(x, FRAMES, KEYS)
        found.append([y, *torch.autograd.grad(y.square().sum(), [*net.parameters()])])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
