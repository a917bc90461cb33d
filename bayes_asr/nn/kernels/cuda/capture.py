"""CUDA graphs of programs, in memory that all of them share."""

from collections import OrderedDict
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bayes_asr.nn.kernels.cuda.static import Program, Shape

GRAPHS = 64  # buckets of a program whose graphs are kept
ALIGNMENT = 256  # bytes; as those of torch's own tensors on a GPU


class Passes(NamedTuple):
    """The ways through the time steps of a bucket, on its buffers; backward perhaps none.

    program: holds what its graphs read beside the buffers.
    """

    program: Program
    buffers: dict[str, Tensor]
    forward: Callable[[], None]
    backward: Callable[[], None] | None


class Workspace:
    """The buffers and graphs of a device: a bucket's numbers live until the next call alone.

    All buckets lie in the same memory, which is as large as the largest of them needs.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._memory = self._allocate(0)
        self._passes: OrderedDict[tuple[Program, Shape], Passes] = OrderedDict()
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._pool: Any = None  # of memory for what is allocated in graphs

    def find(self, program: Program, shape: Shape, *, keep: bool) -> Passes:
        """Return the passes of a program over a bucket; whatever was in the buffers is lost.

        keep: have the backward pass too.
        """
        key = (program, shape)
        if key not in self._passes or (keep and not self._passes[key].backward):
            layout = program.allocate(shape._replace(device=torch.device("meta")))
            self._make_room(program, sum(map(_bytes, layout.values())))
            self._passes[key] = self._prepare(program, self._carve(layout), keep)
        self._passes.move_to_end(key)
        return self._passes[key]

    def _make_room(self, program: Program, size: int) -> None:
        """Have enough memory for a bucket, and a free place among the passes of a program."""
        passes = [key for key in self._passes if key[0] == program]  # the oldest first
        grows, full = size > len(self._memory), len(passes) == GRAPHS
        if self._memory.is_cuda and (grows or full):
            torch.cuda.synchronize(self._device)  # a graph may be running
        if grows:  # graphs read and write at fixed addresses
            self._passes.clear()
            self._pool = None
            self._memory = self._allocate(0)  # the old memory is free for the new
            self._memory = self._allocate(size)
        elif full:
            del self._passes[passes[0]]

    def _allocate(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, device=self._device)

    def _carve(self, layout: dict[str, Tensor]) -> dict[str, Tensor]:
        """Buffers like those of a layout, one behind the other."""
        sizes = list(map(_bytes, layout.values()))
        parts = self._memory[: sum(sizes)].split(sizes)
        return {
            name: part[: like.nbytes].view(like.dtype).view(like.shape)
            for (name, like), part in zip(layout.items(), parts, strict=True)
        }

    def _prepare(self, program: Program, buffers: dict[str, Tensor], keep: bool) -> Passes:
        buffers["sizes"].zero_()  # those of another bucket may be larger than this
        forward = self._capture(partial(program.forward, buffers))
        backward = self._capture(partial(program.backward, buffers)) if keep else None
        return Passes(program, buffers, forward, backward)

    def _capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """Capture what `run` launches, and return what launches it again; on a CPU, `run`."""
        if self._stream is None:
            return run
        with torch.cuda.device(self._device):
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._stream.wait_stream(torch.cuda.current_stream())
            # Libraries allocate and compile when they are called for the first time.
            with torch.cuda.stream(self._stream):
                run()
            graph = torch.cuda.CUDAGraph()
            # Other threads, as those that copy batches, may go on meanwhile.
            mode = "thread_local"
            with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode=mode):
                run()
            torch.cuda.current_stream().wait_stream(self._stream)
        return graph.replay


@cache
def workspace(device: torch.device) -> Workspace:
    """The workspace of a device."""
    return Workspace(device)


def _bytes(buffer: Tensor) -> int:
    """The bytes of a buffer with those up to the next."""
    return -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT
