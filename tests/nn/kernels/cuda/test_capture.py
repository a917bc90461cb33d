"""The memory that all buckets share, and what is kept of their graphs."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from bayes_asr.nn.kernels.cuda import capture
from bayes_asr.nn.kernels.cuda.capture import GRAPHS, Workspace
from bayes_asr.nn.kernels.cuda.static import Shape

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
RUNS: list[str] = []


@dataclass(frozen=True)
class Doubling:
    """A program that doubles its terms, and says when it is asked to."""

    name: str = "doubling"
    saved: ClassVar[tuple[str, ...]] = ()

    def allocate(self, shape: Shape) -> dict[str, Tensor]:
        sizes = torch.empty(shape.T, dtype=torch.int32, device=shape.device)
        terms, h = torch.empty(2, shape.T, shape.B, dtype=shape.dtype, device=shape.device)
        return {"sizes": sizes, "terms": terms, "none": terms[:0], "h": h}

    def forward(self, buffers: dict[str, Tensor]) -> None:
        RUNS.append("forward")
        torch.mul(buffers["terms"], 2, out=buffers["h"])

    def backward(self, buffers: dict[str, Tensor]) -> None:
        RUNS.append("backward")
        torch.mul(buffers["h"], 2, out=buffers["terms"])


def shape_of(T: int, B: int = 3, device: torch.device = CPU) -> Shape:
    return Shape(T, B, 1, 1, 1, torch.float32, device)


def test_buckets_share_one_memory() -> None:
    workspace = Workspace(CPU)
    large = workspace.find(Doubling(), shape_of(50), keep=True).buffers
    small = workspace.find(Doubling("another"), shape_of(5), keep=True).buffers
    assert large["sizes"].data_ptr() == small["sizes"].data_ptr()
    assert large.keys() == small.keys() == {"sizes", "terms", "none", "h"}
    assert small["h"].shape == (5, 3)
    assert small["none"].shape == (0, 3)
    ends = [(b.data_ptr(), b.data_ptr() + b.nbytes) for b in (small["terms"], small["h"])]
    assert ends[0][1] <= ends[1][0]
    assert all(start % 256 == ends[0][0] % 256 for start, _ in ends)


def test_a_larger_bucket_moves_all_others() -> None:
    workspace = Workspace(CPU)
    small = workspace.find(Doubling(), shape_of(5), keep=True)
    assert workspace.find(Doubling(), shape_of(5), keep=False) is small
    large = workspace.find(Doubling(), shape_of(50), keep=True)
    moved = workspace.find(Doubling(), shape_of(5), keep=True)
    assert moved is not small
    assert moved.buffers["sizes"].data_ptr() == large.buffers["sizes"].data_ptr()


def test_buckets_that_were_used_last_are_kept() -> None:
    workspace = Workspace(CPU)
    largest = workspace.find(Doubling(), shape_of(GRAPHS), keep=True)
    passes = [workspace.find(Doubling(), shape_of(T), keep=True) for T in range(1, GRAPHS)]
    assert workspace.find(Doubling(), shape_of(1), keep=True) is passes[0]
    workspace.find(Doubling(), shape_of(1, B=4), keep=True)
    assert workspace.find(Doubling(), shape_of(1), keep=True) is passes[0]
    assert workspace.find(Doubling(), shape_of(GRAPHS), keep=True) is not largest


def test_programs_do_not_take_the_places_of_one_another() -> None:
    workspace = Workspace(CPU)
    workspace.find(Doubling(), shape_of(GRAPHS), keep=True)
    names = ("doubling", "another")
    passes = [
        workspace.find(Doubling(name), shape_of(T), keep=True)
        for T in range(1, GRAPHS)
        for name in names
    ]
    assert [
        workspace.find(Doubling(name), shape_of(T), keep=True)
        for T in range(1, GRAPHS)
        for name in names
    ] == passes


def test_the_way_back_is_there_where_it_is_needed() -> None:
    workspace = Workspace(CPU)
    assert workspace.find(Doubling(), shape_of(5), keep=False).backward is None
    program = Doubling()
    passes = workspace.find(program, shape_of(5), keep=True)
    assert passes.backward is not None
    assert passes.program is program
    assert workspace.find(Doubling(), shape_of(5), keep=False).backward is not None


@pytest.mark.gpu
def test_a_graph_is_replayed_without_its_program() -> None:
    workspace = Workspace(CUDA)
    RUNS.clear()
    for value in (1.0, 3.0):
        _, buffers, forward, backward = workspace.find(
            Doubling(), shape_of(5, device=CUDA), keep=True
        )
        buffers["terms"].fill_(value)
        forward()
        assert torch.equal(buffers["h"].cpu(), torch.full((5, 3), 2 * value))
        assert backward is not None
        backward()
        assert torch.equal(buffers["terms"].cpu(), torch.full((5, 3), 4 * value))
    # Once before the capture, and once in it.
    assert RUNS == ["forward", "forward", "backward", "backward"]


@pytest.mark.gpu
def test_graphs_may_be_forgotten_while_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "GRAPHS", 3)
    workspace = Workspace(CUDA)
    for T in (40, 30, 20, 10, 50, 20, 10):
        _, buffers, forward, _ = workspace.find(Doubling(), shape_of(T, device=CUDA), keep=False)
        buffers["terms"].fill_(T)
        forward()
        assert torch.equal(buffers["h"].cpu(), torch.full((T, 3), 2.0 * T))
