"""The static form of recurrences in torch's operations, and its CUDA graphs, against `scan`."""

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.cuda import capture, graph, recurrence, static
from bayes_asr.nn.kernels.cuda.graph import CellProgram
from bayes_asr.nn.kernels.cuda.static import Shape
from bayes_asr.nn.kernels.dispatch import choose_backend
from bayes_asr.nn.kernels.reference import scan
from bayes_asr.nn.layer import State
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.nn.units.cell import Cell, build_cell
from tests.support.nn_units import DIRECTIONS, RECURRENT, layer, name, recurrent_layer

SEQUENCES, KEYS = PackedFrames((13, 9, 9, 1)), torch.tensor([11, -5, 2**40, 0])
FUSIBLE = [u for u in RECURRENT if build_cell(u["unit"], 1, 1, u["options"]).fusible]
every_unit = pytest.mark.parametrize("unit", FUSIBLE, ids=name)
DROPPING = [
    {"unit": unit, "options": {"form": form, "dropped_candidate": dropped}}
    for unit, form in (
        ("bru", "prob"),
        ("bru", "log"),
        ("li-bru", "prob"),
        ("li-bru", "log"),
        ("li-bru", "geometric"),
    )
    for dropped in ("half", "mean")
]


@pytest.fixture
def on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the graphs' form where there is no graph, in blocks of a few time steps."""
    monkeypatch.setattr(graph, "supports", lambda cell, weights: cell.fusible)
    monkeypatch.setattr(graph, "BLOCK", 72)
    monkeypatch.setattr(static, "STEPS", 8)


def graphed(**options: Any) -> RecurrentLayer:
    """A small layer in double precision whose every parameter and mean is random."""
    net = layer(dropout=0.4, initial_state="trained", **options).float().double()
    net.path = "graph"
    if getattr(net.cell, "dropped", None) is not None:
        net.cell.dropped.mul_(torch.rand(4) + 0.5)  # type: ignore[union-attr, operator]
    return net


def gradients(
    net: RecurrentLayer, frames: PackedFrames, keys: Tensor | None = None
) -> list[Tensor]:
    """Outputs, and the gradients of a random projection of them by inputs and parameters."""
    weight = net.W.weight
    torch.manual_seed(2)
    x = torch.randn(frames.count, net.W.in_features).to(weight).requires_grad_()
    layout = PackedFrames(frames.lengths, weight.device)
    y = net(x, layout, None if keys is None else keys.to(weight.device))
    torch.manual_seed(3)
    projection = torch.randn(y.shape).to(y)
    return [y.detach(), *torch.autograd.grad((y * projection).sum(), [x, *net.parameters()])]


def scanned(net: RecurrentLayer) -> RecurrentLayer:
    """The same layer as the reference computes it, in double precision."""
    twin = copy.deepcopy(net).double().cpu()
    twin.fused = False
    return twin


def assert_as_scanned(net: RecurrentLayer, tolerance: float) -> None:
    """Compare outputs and gradients, with and without masks, with those of the reference."""
    twin = scanned(net)
    for keys in (KEYS, None):
        computed, expected = (gradients(each, SEQUENCES, keys) for each in (net, twin))
        assert_close(computed, expected, tolerance)


def assert_close(computed: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    """Compare tensors by their norms; terms of order 1 may all but cancel."""
    for value, reference in zip(computed, expected, strict=True):
        difference = (value.double().cpu() - reference).norm()
        assert difference <= tolerance * max(reference.norm().item(), 0.1)


@pytest.mark.slow
@every_unit
@pytest.mark.parametrize("directions", DIRECTIONS, ids=name)
def test_the_static_form_computes_what_the_scan_does(
    unit: dict[str, Any], directions: dict[str, Any], on_a_cpu: None
) -> None:
    net = graphed(**unit, **directions)
    assert choose_backend(net.cell, net.W.weight, fused=True, path=net.path) is graph
    assert_as_scanned(net, 1e-12)
    assert_as_scanned(net.float(), 1e-6)


@pytest.mark.parametrize("unit", DROPPING, ids=name)
def test_dropped_candidates_are_those_of_the_scan(unit: dict[str, Any], on_a_cpu: None) -> None:
    for directions in DIRECTIONS:
        assert_as_scanned(graphed(**unit, **directions), 1e-12)


@pytest.fixture
def fill_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Fill all buffers with a byte, before a batch is copied into them."""
    find = capture.Workspace.find

    def use(byte: int) -> None:
        def find_filled(self: capture.Workspace, *args: Any, **options: Any) -> capture.Passes:
            passes = find(self, *args, **options)
            self._memory.fill_(byte)
            return passes

        monkeypatch.setattr(capture.Workspace, "find", find_filled)

    return use


@every_unit
def test_what_is_spare_changes_nothing(
    unit: dict[str, Any],
    on_a_cpu: None,
    fill_memory: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net, computed = graphed(**unit, tied_directions=False), []
    for byte in (0, 255, 0x77):  # 255: NaN; 0x77: 1e267
        fill_memory(byte)
        computed.append(gradients(net, SEQUENCES, KEYS))
    small, *same = computed
    assert all(torch.equal(a, b) for values in same for a, b in zip(small, values, strict=True))
    monkeypatch.setattr(recurrence, "round_up", lambda *_: (4, 24))
    longer = gradients(net, SEQUENCES, KEYS)
    # Sums over frames for parameters of the cell are in an order of their own.
    names = ["outputs", "inputs", *(name for name, _ in net.named_parameters())]
    for parameter, a, b in zip(names, small, longer, strict=True):
        assert torch.equal(a, b) or parameter.startswith("cell.")
    assert_close(longer, small, 1e-12)
    monkeypatch.setattr(recurrence, "round_up", lambda *_: (16, 16))
    assert_close(gradients(net, SEQUENCES, KEYS), small, 1e-12)  # products are rounded otherwise


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.sampled_from(["li-bru", "gru", "lstm", "ubru"]),
    st.sampled_from(DIRECTIONS),
    st.lists(st.integers(1, 40), min_size=1, max_size=18),
)
def test_any_batch(unit: str, directions: dict[str, Any], lengths: list[int]) -> None:
    net = graphed(unit=unit, **directions)
    frames = PackedFrames(tuple(sorted(lengths, reverse=True)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "supports", lambda cell, weights: cell.fusible)
        patch.setattr(static, "STEPS", 8)
        assert_close(gradients(net, frames), gradients(scanned(net), frames), 1e-12)


@pytest.mark.usefixtures("on_a_cpu")
def test_batches_may_wait_for_their_way_back() -> None:
    nets = [graphed(unit="lstm", options={"peepholes": True}, norm="none") for _ in range(2)]
    alone = [gradients(net, frames) for net in nets for frames in (SEQUENCES, PackedFrames((90,)))]
    torch.manual_seed(2)
    leaves, losses = [], []
    for net in nets:
        for frames in (SEQUENCES, PackedFrames((90,))):
            torch.manual_seed(2)
            x = torch.randn(frames.count, 3).double().requires_grad_()
            y = net(x, frames)
            torch.manual_seed(3)
            losses.append((y * torch.randn(y.shape)).sum())
            leaves.append([x, *net.parameters()])
    for _ in "twice":
        for number in (2, 0, 3, 1):
            computed = torch.autograd.grad(losses[number], leaves[number], retain_graph=True)
            assert all(torch.equal(a, b) for a, b in zip(computed, alone[number][1:], strict=True))


@pytest.mark.usefixtures("on_a_cpu")
def test_without_gradients_nothing_is_saved() -> None:
    net, x = graphed(unit="gru"), torch.randn(SEQUENCES.count, 3, dtype=torch.float64)
    expected = net(x, SEQUENCES)
    assert expected.grad_fn is not None
    with torch.no_grad():
        y = net(x, SEQUENCES)
    assert y.grad_fn is None
    assert torch.equal(y, expected)


def cell_program(unit: str = "li-bru", units: int = 3, **options: Any) -> CellProgram:
    return CellProgram(build_cell(unit, units, 1, options))


def test_cells_that_differ_in_numbers_alone_share_a_program() -> None:
    cell = build_cell("rnn", 3, 1, {"activation": "p-relu"})
    same = copy.deepcopy(cell).eval()
    same.activation.alpha.data.add_(1)  # type: ignore[union-attr, operator]
    assert CellProgram(cell) == CellProgram(same)
    assert hash(CellProgram(cell)) == hash(CellProgram(same))
    programs = [
        CellProgram(cell),
        cell_program("rnn", activation="tanh"),
        cell_program("rnn", activation="relu"),
        cell_program("rnn", activation="p-relu", activation_trains=["alpha"]),
        cell_program("rnn", activation="p-sigmoid"),
        cell_program("lstm"),
        cell_program("lstm", peepholes=True),
        cell_program("torch-lstm"),
        cell_program("li-bru"),
        cell_program("li-bru", units=4),
    ]
    assert len(set(programs)) == len(programs)


def test_options_of_a_cell_may_be_lists() -> None:
    def program(*sizes: Any) -> CellProgram:
        cell = build_cell("li-bru", 3, 1, {})
        vars(cell)["sizes"] = {"kernel": list(sizes), "names": {"a", "b"}}
        return CellProgram(cell)

    assert program(3, [4]) == program(3, [4])
    assert hash(program(3, [4])) == hash(program(3, [4]))
    assert program(3, [4]) != program(3, [5])
    array = np.ones(2)
    assert program(array) == program(array)
    assert program(array) != program(np.ones(2))


class OwnCell(Cell):
    """A cell as a user writes one; hand_on has a parameter that states do not need."""

    def __init__(self, units: int, sets: int, *, rows: bool = True, buffer: bool = False) -> None:
        super().__init__(units, sets)
        self.gain = nn.Parameter(torch.ones(sets, units) if rows else torch.ones(()))
        if buffer:
            self.register_buffer("dropped", torch.zeros(sets, units))

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        return ((state[0] + self.drop(a.select(-2, 0).tanh(), mask)) / (1 + self.training),)

    def hand_on(self, h: Tensor) -> Tensor:
        return h * self.gain


def test_graphs_are_of_cells_whose_numbers_are_parameters_of_units() -> None:
    """Programs are given no others, which would be those of the first layer, as they were."""
    on_a_gpu = SimpleNamespace(is_cuda=True)
    for cell, is_computed in (
        (OwnCell(3, 2), True),
        (OwnCell(3, 2, rows=False), False),
        (OwnCell(3, 2, buffer=True), False),
        (build_cell("li-bru", 3, 2, {"dropped_candidate": "mean"}), True),
    ):
        assert graph.supports(cell, cast(Tensor, on_a_gpu)) is is_computed


@pytest.mark.usefixtures("on_a_cpu")
def test_a_cell_of_ones_own_is_computed_as_it_is() -> None:
    net = graphed(unit="rnn")
    net.cell = OwnCell(4, net.cell.sets).double()
    assert_as_scanned(net, 1e-12)
    assert_as_scanned(net.eval(), 1e-12)


class Operations(TorchDispatchMode):
    """Counts operations, and those that read a number of their own from the processor's memory."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()
        self.of_numbers: set[str] = set()

    def __torch_dispatch__(
        self, f: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.names[str(f)] += 1
        if any(isinstance(value, Tensor) and not value.dim() for value in args):
            self.of_numbers.add(str(f))
        return f(*args, **(kwargs or {}))


def programs_and_buffers() -> Iterator[tuple[CellProgram, dict[str, Tensor]]]:
    """Every program, with buffers of two blocks."""
    for unit in FUSIBLE:
        cell = build_cell(unit["unit"], 4, 2, unit["options"])
        for each in (cell, cell.backward_message()):
            if each is not None:
                program = CellProgram(each)
                shape = Shape(6, 8, 2, 4, 2, torch.float32, torch.device("cpu"))
                yield program, {n: torch.zeros_like(b) for n, b in program.allocate(shape).items()}


@torch.no_grad()
def test_no_operation_waits_for_the_device_or_copies_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graph, "BLOCK", 32)
    for program, buffers in programs_and_buffers():
        program.forward(buffers)  # makes the program's cell
        for run in (program.forward, program.backward):
            with Operations() as operations:
                run(buffers)
            assert not operations.of_numbers
            assert not {
                name
                for name in operations.names
                if any(word in name for word in ("local_scalar", "lift_fresh", "nonzero", "index"))
            }


def test_graphs_are_of_gpus() -> None:
    cell, weights = build_cell("li-bru", 3, 1, {}), torch.zeros(1)
    assert not graph.supports(cell, weights)
    assert choose_backend(cell, weights, fused=True, path="graph") is not graph
    assert choose_backend(cell, weights, fused=False, path="graph") is scan


@pytest.mark.gpu
@every_unit
def test_graphs_compute_what_the_scan_does(unit: dict[str, Any]) -> None:
    # Those of a few units, as each capture takes its time.
    for directions in DIRECTIONS if unit["unit"] in ("gru", "torch-lstm") else DIRECTIONS[2:]:
        net = graphed(**unit, **directions).float().cuda()
        assert choose_backend(net.cell, net.W.weight, fused=True, path="graph") is graph
        assert_as_scanned(net, 1e-5)  # captures, then replays


@pytest.mark.gpu
def test_dropped_candidates_of_graphs_are_those_of_the_scan() -> None:
    for unit in DROPPING:
        assert_as_scanned(graphed(**unit, tied_directions=False).float().cuda(), 1e-5)


@pytest.mark.gpu
def test_spare_frames_of_graphs_change_nothing(fill_memory: Callable[[int], None]) -> None:
    for unit in ({"unit": "gru"}, {"unit": "lstm", "options": {"peepholes": True}}):
        net, computed = graphed(**unit).float().cuda(), []
        for byte in (0, 255):
            fill_memory(byte)
            computed.append(gradients(net, SEQUENCES, KEYS))
        assert all(torch.equal(a, b) for a, b in zip(*computed, strict=True))


@pytest.mark.gpu
def test_batches_of_graphs_may_wait_for_their_way_back() -> None:
    net = graphed(unit="li-bru", norm="none").float().cuda()
    batches = [PackedFrames(lengths, net.W.weight.device) for lengths in ((40, 13), (39,), (90, 2))]
    losses = []
    for frames in batches:
        torch.manual_seed(2)
        losses.append(net(torch.randn(frames.count, 3).cuda(), frames).square().sum())
    late = [torch.autograd.grad(loss, list(net.parameters())) for loss in losses]
    for frames, computed in zip(batches, late, strict=True):
        torch.manual_seed(2)
        loss = net(torch.randn(frames.count, 3).cuda(), frames).square().sum()
        expected = torch.autograd.grad(loss, list(net.parameters()))
        for a, b in zip(computed, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("unit", ["li-bru", "lstm"])
def test_graphs_of_many_units_compute_what_eager_code_does(unit: str) -> None:
    torch.manual_seed(1)
    net = recurrent_layer(20, 550, unit, tied_directions=True, dropout=0.2).cuda()
    frames = PackedFrames((150, 97, 20, *[9] * 30))
    eager = gradients(net, frames, torch.arange(33))
    net.path = "graph"
    for _ in ("captured", "replayed"):
        assert_close(gradients(net, frames, torch.arange(33)), [x.cpu() for x in eager], 1e-4)
