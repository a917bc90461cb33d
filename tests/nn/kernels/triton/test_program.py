"""The kernels of Triton in its interpreter, and on a card, against the equations."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from bayes_asr.nn.frames import PackedFrames
from tests.support.nn_units import recurrent_layer
from tests.support.static_cases import UNITS, Case, compute, draw, errors, program_of

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed"
)
EVERY_KERNEL = ["li-bru", "lstm", "gru", "ubru", "ubru-gates"]
Interpret = Callable[..., dict[str, float]]


@pytest.fixture(scope="module")
def interpret() -> Iterator[Interpret]:
    """The largest error of each unit, by a process in which triton interprets: it is asked once."""
    command = [sys.executable, "-m", "tests.support.static_cases"]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout

        def ask(units: list[str], **case: Any) -> dict[str, float]:
            print(json.dumps([units, case]), file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())

        yield ask


def assert_below(bound: float, largest: dict[str, float]) -> None:
    assert all(error <= bound for error in largest.values()), largest


@pytest.mark.slow
def test_every_kernel_computes_the_equations(interpret: Interpret) -> None:
    assert_below(1e-6, interpret(EVERY_KERNEL, H=20))


def test_double_precision_is_left_to_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from bayes_asr.nn.kernels.triton import recurrence

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    cell = recurrent_layer(3, 4, "li-bru").cell
    assert recurrence.supports(cell, torch.zeros(1))
    assert not recurrence.supports(cell, torch.zeros(1, dtype=torch.float64))


@pytest.mark.slow
def test_factors_of_half_the_size(interpret: Interpret) -> None:
    assert_below(2e-3, interpret(["li-bru"], H=20, dtype="float16"))


@pytest.mark.slow
def test_every_unit_computes_the_equations(interpret: Interpret) -> None:
    assert_below(1e-6, interpret(list(UNITS), H=70))


@pytest.mark.slow
def test_shared_weights_in_one_direction(interpret: Interpret) -> None:
    assert_below(1e-6, interpret(EVERY_KERNEL, H=128, sets=1, D=1))


@pytest.mark.slow
@pytest.mark.parametrize(("B", "lengths"), [(1, [4]), (2, [3, 1]), (4, [4, 2, 1])])
def test_few_sequences(B: int, lengths: list[int], interpret: Interpret) -> None:
    assert_below(1e-6, interpret(EVERY_KERNEL, H=20, B=B, lengths=lengths))


@pytest.mark.slow
def test_many_units_and_sequences(interpret: Interpret) -> None:
    case = {"sets": 1, "B": 40, "lengths": [2] * 33 + [1]}
    assert_below(1e-6, interpret(["li-bru"], H=550, **case))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "unit",
    [
        *EVERY_KERNEL,
        *("bru", "li-gru", "li-bru-log", "li-bru-harmonic", "lstm-peepholes", "mgu"),
        *("ubru-later", "ubru-gates-later"),
    ],
)
def test_a_card_computes_the_equations_in_float32(unit: str) -> None:
    case = Case(H=550, lengths=(12, 9, 9, 4, 1), T=14, B=16, device="cuda")
    assert max(errors(unit, case).values()) < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("sets", [1, 2])
@pytest.mark.parametrize("unit", EVERY_KERNEL)
def test_a_card_computes_the_equations_in_bfloat16(unit: str, sets: int) -> None:
    lengths = (12,) * 17 + (9, 9, 4, 1)
    case = Case(550, sets, 2, lengths, T=14, B=32, dtype=torch.bfloat16, device="cuda")
    assert max(errors(unit, case).values()) < 2e-2


@pytest.mark.gpu
def test_a_layer_computes_the_same_as_without_kernels() -> None:
    torch.manual_seed(1)
    net = recurrent_layer(20, 550, "li-bru", dropout=0.2, initial_state="trained").cuda()
    frames = PackedFrames((40, 33, 20, 1), torch.device("cuda"))
    x, keys = torch.randn(frames.count, 20).cuda(), torch.tensor(range(4)).cuda()
    results = []
    for path in ("eager", "triton", "triton"):
        net.path = path
        y = net(x, frames, keys)
        results.append([y, *torch.autograd.grad(y.square().sum(), list(net.parameters()))])
    eager, computed, again = results
    for a, b, c in zip(eager, computed, again, strict=True):
        assert (a - b).norm() <= 1e-5 * a.norm()
        assert torch.equal(b, c)


@pytest.mark.gpu
@pytest.mark.parametrize("unit", EVERY_KERNEL)
def test_a_card_computes_the_same_bits_again(unit: str) -> None:
    lengths = (12,) * 17 + (9, 9, 4, 1)
    case = Case(550, lengths=lengths, T=14, B=32, dtype=torch.bfloat16, device="cuda")
    batch = draw(unit, case)
    results = [compute(program_of(batch.cell), batch, case) for _ in range(3)]
    for again in results[1:]:
        assert all(torch.equal(again[name], value) for name, value in results[0].items())
