"""Sums over processes, through memory that they share and by messages."""

import os
import random
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from bayes_asr.base.processes import group
from bayes_asr.base.processes.gradients import GradientSum
from bayes_asr.base.processes.offered_memory import offer_memory, open_memory
from bayes_asr.base.processes.shared_memory import LIBRARY, ROOM
from tests.support.processes import on_machines_of_their_own, together

PROCESSES = 3
SHAPES = ((), (1,), (7, 3), (0, 4), (2, 5, 1), (ROOM // 8,), (ROOM // 8 + 1,))  # the last: messages
SIZES = ((5, 3), (1,), (40_000,), (2, 2))
memory = pytest.mark.skipif(
    not hasattr(os, "memfd_create") or not hasattr(os, "pidfd_open") or not LIBRARY.usable,
    reason="shared memory needs Linux and compiled code",
)


def brought(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> list[torch.Tensor]:
    """What each process brings; halves, of which sums are exact in any order."""
    torch.manual_seed(seed)
    return [torch.randint(-99, 99, shape).to(dtype) / 2 for _ in range(PROCESSES)]


def add_up(rank: int, apart: bool) -> int:
    on_machines_of_their_own(apart)
    late = random.Random(rank)
    with group.process_group():
        assert (group._meeting is None) == apart
        for seed in range(40):
            for shape in SHAPES:
                for dtype in (torch.float32, torch.float64):
                    parts = brought(shape, dtype, seed)
                    expected = sum(parts, start=torch.zeros((), dtype=dtype))
                    time.sleep(late.choice((0, 0, 0, 0.002)))
                    group.all_reduce(parts[rank])
                    assert torch.equal(parts[rank], expected)
            assert group.largest(10 * rank - seed) == 20 - seed
            assert group.total(rank, 1) == [3, 3]
    return 0


@pytest.mark.slow
@pytest.mark.parametrize("apart", [pytest.param(False, marks=memory), True])
def test_all_processes_have_the_sum_of_what_each_brings(tmp_path: Path, apart: bool) -> None:
    ended = together(tmp_path, add_up, apart, processes=PROCESSES)
    assert [each.status for each in ended] == [0] * PROCESSES, ended


def add_up_gradients(rank: int, apart: bool) -> int:
    on_machines_of_their_own(apart)
    late = random.Random(rank)
    parameters = [nn.Parameter(torch.zeros(size)) for size in SIZES]
    with group.process_group():
        add_up = GradientSum(parameters)
        assert (add_up._shared is None) == apart
        for step in range(60):
            trained = [(step + number) % 3 > 0 for number in range(len(SIZES))]
            gradients = [brought(size, torch.float32, step) for size in SIZES]
            gradients[2][1].zero_()
            for p, parts, p.requires_grad in zip(parameters, gradients, trained, strict=True):
                p.grad = parts[rank].clone()
            if rank == 1:  # it has no utterance
                parameters[2].grad = None
            time.sleep(late.choice((0, 0, 0.005)))
            add_up()
            for p, parts in zip(parameters, gradients, strict=True):
                if p.requires_grad:
                    assert torch.equal(p.grad, sum(parts, start=torch.zeros(())))
                    p.grad *= 0.5  # as clipping does; what others have stays
    return 0


@pytest.mark.slow
@pytest.mark.parametrize("apart", [pytest.param(False, marks=memory), True])
def test_all_processes_have_the_sums_of_gradients(tmp_path: Path, apart: bool) -> None:
    ended = together(tmp_path, add_up_gradients, apart, processes=PROCESSES)
    assert [each.status for each in ended] == [0] * PROCESSES, ended


def send_while_computing(rank: int) -> int:
    on_machines_of_their_own(True)
    late = random.Random(rank)
    parameters = [nn.Parameter(torch.full(size, 0.5)) for size in SIZES]
    with group.process_group():
        add_up = GradientSum(parameters)
        for step in range(40):
            trained = [(step + number) % 3 > 0 for number in range(len(SIZES))]
            factors = [brought(size, torch.float32, step) for size in SIZES]
            for p, p.requires_grad in zip(parameters, trained, strict=True):
                p.grad = None
            # One process has gradients of some parameters only, and other messages between them.
            reached = [not (rank == 1 and number % 2) for number in range(len(SIZES))]
            used = [n for n in range(len(SIZES)) if trained[n] and reached[n]]
            with add_up.overlapping():
                for number in late.sample(used, len(used)):
                    (parameters[number] * factors[number][rank]).sum().backward()
                    if number == used[0]:
                        assert group.total(1) == [PROCESSES]
            sent = len(add_up._messages)
            if rank != 1:
                assert sent == sum(trained)
            add_up()
            for number, (p, parts) in enumerate(zip(parameters, factors, strict=True)):
                if number % 2:
                    parts[1].zero_()
                if trained[number]:
                    assert torch.equal(p.grad, sum(parts, start=torch.zeros(())))
    return 0


@pytest.mark.slow
def test_gradients_are_sent_while_others_are_computed(tmp_path: Path) -> None:
    ended = together(tmp_path, send_while_computing, processes=PROCESSES)
    assert [each.status for each in ended] == [0] * PROCESSES, ended


def memory_held() -> tuple[int, int]:
    """How many pieces of shared memory and how many descriptors this process has."""
    maps = Path("/proc/self/maps").read_text()
    return maps.count("bayes_asr-"), len(os.listdir("/proc/self/fd"))


def leave_nothing(_: int) -> int:
    parameters = [nn.Parameter(torch.zeros(9))]
    with group.process_group():
        held = memory_held()
        assert held[0] == 1
        for _epoch in range(3):
            add_up = GradientSum(parameters)
            assert memory_held() == (2, held[1] + 1)
            add_up()
            del add_up
        assert memory_held() == held
    assert memory_held()[0] == 0
    return 0


@pytest.mark.slow
@memory
def test_memory_goes_with_those_who_share_it(tmp_path: Path) -> None:
    ended = together(tmp_path, leave_nothing)
    assert [each.status for each in ended] == [0, 0], ended


@memory
def test_only_memory_that_was_offered_is_seen() -> None:
    with offer_memory(100) as offer:
        path, name = offer
        memory = open_memory(path, name, 100)
        memory[:2] = b"ab"
        assert open_memory(path, name, 100)[:2] == b"ab"
        assert open_memory(path, name + "2", 100) is None
        assert open_memory("/proc/self/fd/999999", name, 100) is None
    assert open_memory(path, name, 100) is None
    assert memory[:2] == b"ab"


@memory
def test_no_memory_is_offered_where_there_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("File too large")

    held = memory_held()
    monkeypatch.setattr(os, "truncate", refuse)
    with offer_memory(100) as offer:
        assert offer is None
    assert memory_held() == held
