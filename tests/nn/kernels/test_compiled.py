"""The compiled recurrences, on every path of this machine, against `scan` in double precision."""

import copy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import expit
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.cpu import library, recurrence
from bayes_asr.nn.kernels.cpu.recurrence import CompiledRecurrence, KernelCall, find_kernel
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.nn.units.activations import FIXED, PARAMETERISED
from bayes_asr.nn.units.cell import Cell, Kernel, build_cell
from tests.support.nn_units import DIRECTIONS, FUSED, gradients, layer, name, recurrent_layer

IN_TORCH_ALONE = {"leaky-relu", "elu", "linear", "log-softmax"}

pytestmark = pytest.mark.skipif(
    not library.LIBRARY.usable, reason="no compiled recurrences: install with a C++ compiler"
)
PATHS = list(library.paths())
every_path = pytest.mark.parametrize("path", PATHS)


def has_kernel(unit: dict[str, Any]) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(library.PATH_VARIABLE, raising=False)
        return (
            find_kernel(build_cell(unit["unit"], 1, 1, unit["options"]), torch.zeros(1)) is not None
        )


COMPILED = [unit for unit in FUSED if has_kernel(unit)] if PATHS else []
every_unit = pytest.mark.parametrize("unit", COMPILED, ids=name)


def assert_as_scanned(
    net: RecurrentLayer,
    frames: PackedFrames,
    keys: Tensor | None,
    *,
    paths: Sequence[str] = PATHS,
    forward: float = 1e-6,
    backward: float = 1e-5,
    factors: torch.dtype = torch.float32,
) -> None:
    """Compare outputs and gradients of a layer with those of `scan` in double precision."""
    torch.manual_seed(2)
    x = torch.randn(sum(frames.lengths), net.W.in_features)
    scanned = copy.deepcopy(net).double()
    scanned.fused = False
    expected, wanted = gradients(scanned, x, frames, keys)
    for path in paths:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(library.PATH_VARIABLE, path)
            assert (find_kernel(net.cell, x) is None) == (library.path() == "torch")
            with torch.autocast("cpu", torch.bfloat16, enabled=factors == torch.bfloat16):
                y, found = gradients(copy.deepcopy(net), x, frames, keys)
        assert y.dtype == (torch.float32 if path == "torch" else factors)
        assert (y - expected).norm() <= forward * expected.norm(), path
        for a, b in zip(found, wanted, strict=True):
            # Each term is rounded, and terms of order 1 may all but cancel.
            assert (a - b).norm() <= backward * max(b.norm().item(), 0.1), path


@every_unit
def test_every_path_computes_what_the_scan_does(unit: dict[str, Any]) -> None:
    for directions in DIRECTIONS:
        net = layer(**unit, **directions, dropout=0.4, initial_state="trained").float()
        assert_as_scanned(net, PackedFrames((20, 13, 13, 1)), torch.tensor([11, -5, 2**40, 0]))
        assert_as_scanned(net, PackedFrames((20, 13, 13, 1)), None)


@pytest.mark.parametrize("form", ["prob", "log", "geometric", "harmonic"])
def test_dropped_candidates_that_kernels_do_not_know(form: str) -> None:
    frames = PackedFrames((20, 13, 13, 1))
    for directions, dropped, scaling in zip(
        DIRECTIONS, ("half", "mean", "mean"), ("inverted", "pytorch-kaldi", "inverted"), strict=True
    ):
        net = layer(
            unit="li-bru" if directions["bidirectional"] or form not in ("prob", "log") else "bru",
            options={"form": form, "dropped_candidate": dropped},
            **directions,
            dropout=0.4,
            dropout_scaling=scaling,
            initial_state="trained",
        ).float()
        net.V.data.mul_(0.5)  # with inverted dropout, states of the harmonic mean grow
        if net.cell.dropped is not None:
            net.cell.dropped.mul_(torch.rand(4) + 0.5)  # type: ignore[operator]
        assert_as_scanned(net, frames, torch.tensor([11, -5, 2**40, 0]))
        assert_as_scanned(net, frames, None)


@pytest.mark.slow
@settings(max_examples=40)
@example("lstm", "tied", 16, [1] * 33)
@example("gru", "untied", 1, [1])
@example("bru", "one", 1, [8])  # a gradient of which terms of order 1 all but cancel
@given(
    st.sampled_from(["bru", "li-bru", "gru", "lstm"]),
    st.sampled_from(["tied", "untied", "one"]),
    st.sampled_from([1, 3, 7, 16, 17, 33, 40]),
    st.lists(st.integers(1, 9), min_size=1, max_size=33),
)
def test_any_batch_and_number_of_units(
    unit: str, directions: str, units: int, lengths: list[int]
) -> None:
    torch.manual_seed(1)
    net = recurrent_layer(
        3,
        units,
        unit,
        bidirectional=directions != "one",
        tied_directions=directions == "tied",
        norm="none",
    )
    frames = PackedFrames(tuple(sorted(lengths, reverse=True)))
    assert_as_scanned(net, frames, None)


@pytest.mark.slow
def test_many_units() -> None:
    torch.manual_seed(1)
    for unit, tied in (("li-bru", True), ("li-bru", False), ("gru", True), ("gru", False)):
        net = recurrent_layer(20, 550, unit, tied_directions=tied)
        assert_as_scanned(net, PackedFrames((12, 9, 7, 4, 1)), None)  # enough for oneDNN


@pytest.mark.slow
@every_unit
def test_factors_in_bfloat16_stay_within_the_stated_bound(unit: dict[str, Any]) -> None:
    torch.manual_seed(1)
    kinked = not {"relu", "p-relu"}.isdisjoint(unit["options"].values())  # or li-gru's default
    kinked |= unit["unit"] == "li-gru" and "activation" not in unit["options"]
    for directions in DIRECTIONS:
        net = recurrent_layer(20, 67, unit["unit"], unit["options"], **directions, dropout=0.2)
        assert_as_scanned(
            net,
            PackedFrames((60, 41, 1)),
            torch.tensor([11, -5, 7]),
            forward=1e-2,
            backward=0.15 if kinked else 0.02,
            factors=torch.bfloat16,
        )


@every_path
@pytest.mark.parametrize("activation", [name for name in library.activations() if name in FIXED])
def test_functions_are_exact_to_a_few_units_of_the_last_place(
    activation: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    magnitudes = torch.logspace(-6, 1.9, 4000)
    a = torch.cat((-magnitudes, magnitudes, torch.tensor([0.0, -1e3, 1e3, -1e30, 1e30])))
    H = len(a)
    V = torch.zeros(1, 1, 1)
    kernel = Kernel("rnn", activation)
    terms = a.clone().view(H, 1, 1).requires_grad_()
    frames, zero = PackedFrames((1,) * H), torch.zeros(H, 1, 1)
    call = KernelCall(kernel, frames, (False,), keep=True)
    h = CompiledRecurrence.apply(call, terms, V, None, zero)
    (slope,) = torch.autograd.grad(h.sum(), terms)
    expected = FIXED[activation](a.double())
    slopes = FIXED[activation].derivative(a.double())
    if activation == "tanh":
        slopes = 4 * torch.from_numpy(
            expit(2 * a.double().numpy()) * expit(-2 * a.double().numpy())
        )
    torch.testing.assert_close(h.detach().flatten().double(), expected, rtol=5e-7, atol=1e-37)
    absolute = 3e-7 if activation == "tanh" else 1e-37  # 1 - tanh^2 cancels
    torch.testing.assert_close(slope.flatten().double(), slopes, rtol=6e-7, atol=absolute)


@pytest.mark.parametrize("directions", DIRECTIONS)
@every_path
def test_batches_of_many_rows_in_bfloat16(path: str, directions: dict[str, bool]) -> None:
    """More than the tiles of AMX have, of which the last one is not full."""
    torch.manual_seed(1)
    net = recurrent_layer(20, 67, "li-bru", **directions)
    frames = PackedFrames((9,) * 12 + (5,) * 5 + (2, 1))
    bounds = {"forward": 1e-2, "backward": 0.02}
    assert_as_scanned(net, frames, None, paths=[path], factors=torch.bfloat16, **bounds)


@every_path
@pytest.mark.parametrize("factors", library.STORAGES)
def test_nan_stays_in_its_sequence(
    path: str, factors: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    net, frames = recurrent_layer(3, 5, "li-bru", norm="none"), PackedFrames((4, 3, 3, 1))
    x = torch.zeros(11, 3)
    x[frames.sequence == 1] = torch.nan
    with torch.autocast("cpu", enabled=factors == torch.bfloat16):
        y = net(x, frames)
    assert torch.equal(y.isnan().any(1), frames.sequence == 1)


@every_path
def test_nan_comes_out_where_it_went_in(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    for unit in ({"unit": "li-bru"}, {"unit": "li-gru"}, {"unit": "gru"}, {"unit": "lstm"}):
        net = recurrent_layer(3, 5, **unit, norm="none", bidirectional=False)
        x = torch.zeros(4, 3)
        x[2, 0] = torch.nan
        for factors in library.STORAGES:
            with torch.autocast("cpu", enabled=factors == torch.bfloat16):
                y = net(x, PackedFrames((4,)))
            assert y[:2].isfinite().all()
            assert y[2:].isnan().all()


@pytest.mark.parametrize("factors", library.STORAGES)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("unit", ["gru", "li-bru", "lstm"])
def test_number_of_threads_changes_nothing(
    unit: str, tied: bool, factors: torch.dtype, set_threads: Callable[[int], None]
) -> None:
    torch.manual_seed(1)
    net = recurrent_layer(8, 96, unit, tied_directions=tied)
    # Two threads take the directions apart until fewer than 8 sequences are alive.
    frames = PackedFrames((*(11,) * 5, *(9,) * 4, *(5,) * 24))
    sets, X = (1 if tied else 2), 96 * net.cell.gates
    terms = torch.randn(sum(frames.lengths), sets, X, dtype=factors, requires_grad=True)
    kernel = find_kernel(net.cell, net.V)
    initial = [torch.randn(33, 2, 96, requires_grad=True) for _ in range(net.cell.states)]
    found, by_V = [], []
    for threads in (1, 2, 2, 2, 3):
        set_threads(threads)
        call = KernelCall(kernel, frames, (False, True), keep=True)
        h = CompiledRecurrence.apply(call, terms, net.V, None, *initial)
        found.append([h, *torch.autograd.grad(h.square().sum(), [terms, *initial, net.V])])
        by_V.append(found[-1].pop())  # may be torch's product
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
    for gradient in by_V[1:]:
        torch.testing.assert_close(gradient, by_V[0])


FORKED = """
import os, torch
from bayes_asr.nn.kernels.cpu.recurrence import CompiledRecurrence, KernelCall
from bayes_asr.nn.units.cell import Kernel
from bayes_asr.nn.frames import PackedFrames
torch.set_num_threads(2)
terms, V, zero = torch.randn(160, 2, 128), torch.randn(2, 64, 128), torch.zeros(32, 2, 64)
call = KernelCall(Kernel("mixing"), PackedFrames((5,) * 32), (False, True), keep=False)
def states(): return CompiledRecurrence.apply(call, terms, V, None, zero)
y = states()
child = os.fork()
if not child:
    os._exit(not torch.equal(states(), y))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.slow
def test_a_forked_process_has_its_own_threads() -> None:
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60)


@every_path
def test_strides_are_no_matter(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    torch.manual_seed(1)
    frames, kernel = PackedFrames((4, 2)), Kernel("mixing")
    given = [torch.randn(6, 2, 10), torch.randn(2, 5, 10), torch.rand(2, 2, 5), torch.rand(2, 2, 5)]
    strided = [x.transpose(0, -1).contiguous().transpose(0, -1) for x in given]
    call = KernelCall(kernel, frames, (False, True), keep=True)
    ys = []
    for terms, V, mask, h in (given, strided):
        leaf = terms.requires_grad_()
        y = CompiledRecurrence.apply(call, leaf, V, mask, h)
        g = torch.ones(y.shape).transpose(0, 1).contiguous().transpose(0, 1)
        ys.append((y, *torch.autograd.grad(y, leaf, g)))
    assert all(torch.equal(a, b) for a, b in zip(*ys, strict=True))


@pytest.mark.parametrize(
    ("position", "wrong", "says"),
    [
        (0, torch.zeros(6, 2, 9), r"V is .*\[2, 5, 10\].*needs torch.float32 \[2, 4, 9\]"),
        (
            0,
            torch.zeros(5, 2, 10),
            r"terms is .*\[5, 2, 10\].*needs torch.float32 or torch.bfloat16 \[6, 2, 10\]",
        ),
        (0, torch.zeros(6, 2, 10, dtype=torch.float64), "terms is torch.float64"),
        (1, torch.zeros(2, 10, 5), r"V is .*\[2, 10, 5\]"),
        (2, torch.zeros(2, 2, 4), r"mask is .*\[2, 2, 4\].*\[2, 2, 5\]"),
        (3, torch.zeros(3, 2, 5), r"initial is .*\[3, 2, 5\].*\[2, 2, 5\]"),
        (1, torch.zeros(3, 5, 10), "3 sets of weights"),
        (0, torch.zeros(6, 3, 10), "3 sets of terms"),
    ],
)
def test_wrong_tensors_are_refused(position: int, wrong: Tensor, says: str) -> None:
    tensors = [torch.zeros(6, 2, 10), torch.zeros(2, 5, 10), *torch.zeros(2, 2, 2, 5)]
    tensors[position] = wrong
    call = KernelCall(Kernel("mixing"), PackedFrames((4, 2)), (False, True), keep=True)
    with pytest.raises(ValueError, match=says):
        CompiledRecurrence.apply(call, *tensors)


def test_a_batch_without_sequences_is_refused() -> None:
    call = KernelCall(Kernel("rnn"), PackedFrames(()), (False,), keep=True)
    terms, V, zero = torch.zeros(0, 1, 5), torch.zeros(1, 5, 5), torch.zeros(0, 1, 5)
    with pytest.raises(ValueError, match="sequence"):
        CompiledRecurrence.apply(call, terms, V, None, zero)


def test_gradients_are_computed_once() -> None:
    net = recurrent_layer(3, 4)
    loss = net(torch.randn(5, 3), PackedFrames((5,))).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="run forward anew"):
        loss.backward()


@every_path
def test_the_way_back_takes_the_path_of_the_way_there(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    net, x = recurrent_layer(3, 20, "li-bru"), torch.randn(5, 3)
    found = []
    for later in (path, "torch", *PATHS):
        monkeypatch.setenv(library.PATH_VARIABLE, path)
        y = net(x, PackedFrames((5,)))
        monkeypatch.setenv(library.PATH_VARIABLE, later)
        found.append(torch.autograd.grad(y.square().sum(), [*net.parameters()]))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_a_copy_of_a_layer_has_the_same_kernel() -> None:
    net = recurrent_layer(3, 4, "bru")
    assert find_kernel(copy.deepcopy(net).cell, net.V) == find_kernel(net.cell, net.V) is not None


def test_unknown_paths_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, "avx1024")
    with pytest.raises(InputError, match=f"BAYES_ASR_KERNELS is avx1024.*torch, {PATHS[0]}"):
        recurrent_layer(3, 4)(torch.randn(5, 3), PackedFrames((5,)))


@every_unit
def test_torch_computes_where_it_is_told_to(
    unit: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrence, "_run", None)
    for directions in DIRECTIONS:
        net = layer(**unit, **directions, dropout=0.4).float()
        keys = torch.tensor([11, -5, 2**40, 0])
        assert_as_scanned(net, PackedFrames((20, 13, 13, 1)), keys, paths=["torch"])


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
@pytest.mark.parametrize(
    ("said", "instead", "fault"),
    [
        ("", "", ""),
        ("Job.mask: 8 bytes at 168", "Job.mask: 8 bytes at 160", "Job.mask is 8 bytes at 160, not"),
        ("Job.mask:", "Job.veil:", "Job.veil is 8 bytes at 168, not known"),
        ("Product: ", "Product: 2", "Product is 2120 bytes, not 120 bytes"),
        ("use_openmp: nothing of pointer", "use_openmp: nothing of", "kernels_use_openmp is noth"),
    ],
)
def test_a_library_built_for_another_version_is_left_alone(
    said: str, instead: str, fault: str, tmp_path: Path
) -> None:
    prefix, functions = library.LIBRARY.prefix, library.LIBRARY.functions
    lines = [f"{name}: {what}" for name, what in library.LIBRARY.expect()]
    text = "\\n".join(lines)
    assert said in text
    code = "".join(f"long {prefix}_{name}() {{ return 0; }}\n" for name in functions)
    code += f'const char *{prefix}_description() {{ return "{text.replace(said, instead)}"; }}\n'
    (tmp_path / "made.cpp").write_text(f'extern "C" {{\n{code}}}\n')
    command = ["c++", "-shared", "-fPIC", "made.cpp", "-o", "made.so"]
    subprocess.run(command, check=True, cwd=tmp_path)
    made = replace(library.LIBRARY, file=tmp_path / "made.so")
    assert made.usable == (not fault)
    assert fault in made.fault


def cells(kind: type[Cell] = Cell) -> Iterator[type[Cell]]:
    """Every class of cells."""
    yield kind
    for heir in kind.__subclasses__():
        yield from cells(heir)


NAMED = [kind for kind in cells() if kind.kernel and "kernel" in vars(kind)]


@pytest.mark.parametrize("kind", NAMED)
def test_a_cell_and_its_kernel_have_the_same_sizes(kind: type[Cell]) -> None:
    unit = library.units()[str(kind.kernel)]
    found = (unit.gates, unit.states, bool(unit.resets), bool(unit.recurs))
    assert found == (kind.gates, kind.states, kind.resets, kind.recurrent)


def test_every_kernel_has_a_cell_and_every_activation_a_name() -> None:
    assert {kind.kernel for kind in NAMED} | {"lstm-peepholes"} == {*library.units()}
    assert {*library.activations()} == {*FIXED, *PARAMETERISED} - IN_TORCH_ALONE


def test_who_inherits_a_cell_gets_no_kernel() -> None:
    for kind in NAMED:
        heir = type("Heir", (kind,), {})
        assert find_kernel(heir.__new__(heir), torch.zeros(1)) is None
